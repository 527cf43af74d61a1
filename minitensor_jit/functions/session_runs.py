"""Functions that sessions run: the second run of one makes a program of it, which later runs replay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar
from weakref import ref

from minitensor import _C
from minitensor_jit.api import session_options, session_scope
from minitensor_jit.functions.recorder import weak_function

__all__ = ["SessionRuns"]

R = TypeVar("R")


class SessionRuns:
    """What one session runs, each function with its programs; these go with the function."""

    def __init__(self) -> None:
        # By what stays the same while the function lives: a method is another object whenever it is read.
        self._known: dict[tuple[int, int], _Known] = {}

    def run(self, fn: Callable[..., R], args: tuple[Any, ...], level: int, cpu_global_jit: bool) -> R:
        """Return ``fn(*args)``, clustered at that level, or not at all below 1."""
        if level > 0 and not _C.is_recording():
            program = fn if isinstance(fn, _C.CompiledFunction) else self._program(fn)
            if program is not None:
                with session_options(level, cpu_global_jit):
                    return program(*args)
        with session_scope(level, cpu_global_jit):
            return fn(*args)

    def replay(self, fn: Callable[..., R], args: tuple[Any, ...], level: int | None) -> R:
        """As `run`, of what is known to be repeated: a program is kept at every level, clustered or not.

        None is what the options in force say; a level holds for the CPU too.
        """
        options: Any = contextlib.nullcontext() if level is None else session_options(level, True)
        if _C.is_recording():
            with options if level is None else session_scope(level, True):
                return fn(*args)
        program = self._program(fn)
        with options:
            return fn(*args) if program is None else program(*args)

    def _program(self, fn: Any) -> Any:
        """What has the function's programs; None in its first run, of which nobody knows whether there are more."""
        owner: Any = fn.__self__ if isinstance(fn, MethodType) else fn
        key = id(owner), id(fn.__func__) if owner is not fn else 0
        known = self._known.get(key)
        if known is not None and known.stands_for(owner, fn):
            return known.program()
        with contextlib.suppress(TypeError):  # what can't be referred to weakly
            self._known[key] = _Known(fn, owner, lambda _: self._known.pop(key, None))
        return None


class _Known:
    """A function that has run before."""

    def __init__(self, fn: Any, owner: Any, gone: Callable[[Any], Any]) -> None:
        self.owner = ref(owner, gone)
        self._inner: Any = ref(fn.__func__) if isinstance(fn, MethodType) else None
        self._program: Any = None

    def stands_for(self, owner: Any, fn: Any) -> bool:
        """Whether it is that function, not one that has taken the place of it in memory."""
        return self.owner() is owner and (self._inner is None or self._inner() is fn.__func__)

    def program(self) -> Any:
        """What has its programs."""
        if self._program is None:
            self._program = weak_function(self._function)
        return self._program

    def _function(self) -> Any:
        owner = self.owner()
        return owner if self._inner is None else MethodType(self._inner(), owner)
