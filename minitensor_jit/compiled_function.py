"""`function`: a Python function as one compiled program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor_jit.api import current_compiler, recording

__all__ = ["function"]


class _Recorder:
    """What a compiled function does when it has no program for its arguments: run the Python function, recorded."""

    def __init__(self, fn: Callable[..., Any], jit_compile: bool | None) -> None:
        self._fn = fn
        self._jit_compile = jit_compile
        self.compiled: Any = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._jit_compile is False:
            return self._fn(*args, **kwargs)
        if self._jit_compile is None:
            return self._best_effort(args, kwargs)
        current_compiler()
        nested = _C.is_recording()
        with recording("the end of a function"):
            if not nested:
                _C.whole_function(True)
            previous = _C.swap_tag((1, 1, 0))
            try:
                result = self._fn(*args, **kwargs)
                if not nested:
                    if kwargs:
                        _C.flush("the end of a function")
                    else:
                        self.compiled.finish(args, result)
            finally:
                _C.swap_tag(previous)
                if not nested:
                    _C.whole_function(False)
        return result

    def _best_effort(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        current_compiler()
        with recording("the end of a function"):
            previous = _C.swap_tag((1, 0, _C.next_scope()))
            try:
                return self._fn(*args, **kwargs)
            finally:
                _C.swap_tag(previous)


def function(fn: Callable[..., Any] | None = None, *, jit_compile: bool | None = None) -> Any:
    """Compile a function's ops; also a decorator.

    With `jit_compile=True` all of it: `InvalidArgumentError` names an op that can't be compiled, the reason and the
    line. With None, what can be; with False, nothing. A program is kept for each combination of shapes, dtypes and
    layouts of the tensors among the arguments, and of the values of the others. A call that has one does not run `fn`:
    what `fn` does beside computing its result and writing to tensors in place happens only when it is recorded. A
    function that stores gradients or draws random numbers is recorded at every call; its compiled code is kept all the
    same.
    """
    if fn is None:
        return functools.partial(function, jit_compile=jit_compile)
    if not callable(fn):
        raise TypeError(f"function takes a callable, not {type(fn).__name__}")
    recorder = _Recorder(fn, jit_compile)
    compiled = _C.CompiledFunction(recorder)
    recorder.compiled = compiled
    return functools.update_wrapper(compiled, fn)
