"""`function`: a Python function as one compiled program."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from minitensor import _C
from minitensor_jit.api import current_compiler
from minitensor_jit.cache.disk_cache import key_of
from minitensor_jit.cache.disk_entry import decode, encode
from minitensor_jit.functions.recorder import Recorder, made
from minitensor_jit.state.filters import GuardFilter

__all__ = ["function", "with_guards"]


class _Recorder(Recorder):
    """Of a function that users have: it can be pickled."""

    def without_programs(self) -> Any:
        """Another object for the same function, to see how it is compiled; None if it isn't as a whole."""
        return with_guards(self.fn, True, self.guard_filter) if self.jit_compile else None

    def reduce(self, compiled: Any) -> tuple[Any, ...]:
        """How it is pickled: the function by its name, and the code that it launches."""
        fn: Any = self.fn
        if _named(fn.__module__, fn.__qualname__) is compiled:
            fn = _Name(fn.__module__, fn.__qualname__)
        options = current_compiler().options
        alive = ((module, executable()) for module, executable in self.used.items())
        code = [
            (module, encode(key_of(module, options), executable))
            for module, executable in alive
            if executable is not None
        ]
        return _unpickle, (fn, self.jit_compile, code, self.guard_filter)

    def hold(self, code: Sequence[tuple[str, bytes]]) -> None:
        """Take over compiled code of a pickle, as far as this machine can run it."""
        compiler = current_compiler()
        for module, data in code:
            if compiler.executables.find(module) is not None:
                continue
            try:
                executable = decode(data, key_of(module, compiler.options), "unpickled")
            except ValueError:  # another machine, other options, another version: it is compiled anew
                continue
            compiler.executables.insert(module, executable, keep=False)
            self.held.append(executable)
            self.used[module] = ref(executable)


class _Name:
    """A function that is found by its name."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name


def _named(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _unpickle(
    fn: Any, jit_compile: bool | None, code: Sequence[tuple[str, bytes]], guard_filter: GuardFilter | None = None
) -> Any:
    if isinstance(fn, _Name):
        __import__(fn.module)
        compiled = _named(fn.module, fn.name)
        if not isinstance(compiled, _C.CompiledFunction):
            raise AttributeError(f"{fn.module}.{fn.name} is no compiled function any more")
    else:
        compiled = with_guards(fn, jit_compile, guard_filter)
    compiled.__dict__["_recorder"].hold(code)
    return compiled


def function(fn: Callable[..., Any] | None = None, *, jit_compile: bool | None = None) -> Any:
    """Compile a function's ops; also a decorator.

    With `jit_compile=True` all of it: `InvalidArgumentError` names an op that can't be compiled, or a read of a value,
    with the reason and the line. With None, what can be, and values may be read; with False, nothing. A program
    is kept for each combination of shapes, dtypes and layouts of the tensors among the arguments, which may be in
    nested tuples, lists and dicts, and of the values of the others. A call that has one does not run `fn`, and gives
    what `fn` would: what `fn` read of Python's state is compared first, and if it reads values, changes Python's
    state, or reads what can't be compared, such as the clock, it is recorded at every call; docs/functions.md has the
    list. What it prints appears only when it is recorded. Random numbers are new in every call, as the default
    generator gives them. Results may require grad, or be views of arguments: the gradient graph behind them is made in
    every call. Gradients that it stores are stored by every call: a whole training step, with its optimizer, can be one
    program. A function that keeps other tensors that it does not return, or has hooks or an `autograd.Function` in the
    graph of its results is recorded at every call, too; its compiled code is kept all the same, and `explain` says why.

    The result has `lower(*args)`, which compiles for arguments without running and shows every stage, `programs` and
    `hits`, which count, and `clear()`. It can be pickled if `fn` can be found by its name; its code goes along.
    """
    if fn is None:
        return functools.partial(function, jit_compile=jit_compile)
    if not callable(fn):
        raise TypeError(f"function takes a callable, not {type(fn).__name__}")
    return with_guards(fn, jit_compile, None)


def with_guards(fn: Callable[..., Any], jit_compile: bool | None, guard_filter: GuardFilter | None) -> Any:
    """Compile a function as :func:`function` does, where `guard_filter` says which guards its programs have."""
    compiled = made(_Recorder(lambda: fn, jit_compile, guard_filter=guard_filter))
    functools.update_wrapper(compiled, fn)
    return compiled
