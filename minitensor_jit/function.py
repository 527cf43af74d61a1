"""`function`: a Python function as one compiled program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor_jit.api import current_compiler, recording

__all__ = ["Function", "function"]


class Function:
    """A function whose ops are compiled together for every new kind of arguments; made by `function`."""

    def __init__(self, fn: Callable[..., Any], jit_compile: bool | None) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._jit_compile = jit_compile

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._record(args, kwargs)

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the Python function with its ops recorded, and what they recorded as compiled code."""
        if self._jit_compile is False:
            return self._fn(*args, **kwargs)
        current_compiler()
        must = int(self._jit_compile is True)
        with recording("the end of a function"):
            if not must:
                previous = _C.swap_tag((1, 0, _C.next_scope()))
            else:
                _C.flush("the start of a function")
                previous = _C.swap_tag((1, 1, 0))
            try:
                result = self._fn(*args, **kwargs)
            except BaseException:
                _C.swap_tag(previous)
                raise
            _C.swap_tag(previous)
            if must:
                _C.flush("the end of a function")
            return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<minitensor function {getattr(self._fn, '__qualname__', self._fn)!s}>"


def function(fn: Callable[..., Any] | None = None, *, jit_compile: bool | None = None) -> Any:
    """Compile a function's ops; also a decorator.

    With `jit_compile=True` all of it: `InvalidArgumentError` names an op that can't be compiled, the reason and the line.
    With None, what can be; with False, nothing. Compiled code is kept for each combination of shapes, dtypes and layouts.
    """
    if fn is None:
        return functools.partial(function, jit_compile=jit_compile)
    if not callable(fn):
        raise TypeError(f"function takes a callable, not {type(fn).__name__}")
    return Function(fn, jit_compile)
