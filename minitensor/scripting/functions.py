"""Scripted functions, and calls whose results are waited for."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

__all__ = [
    "WITHOUT", "CompilationUnit", "Error", "Future", "ScriptFunction", "fork", "refuse", "script_if_tracing", "wait",
]  # fmt: skip

WITHOUT = frozenset({
    "code", "code_with_constants", "get_debug_state", "graph", "graph_for", "inlined_graph", "schema",
})  # fmt: skip
"""The attributes of scripted functions and modules that describe TorchScript itself."""


class Error(RuntimeError):
    """An error of a TorchScript program. Python runs here, whose exceptions come as they are; nothing raises it."""


def refuse(kind: str, name: str) -> AttributeError:
    """Return the error of an attribute that describes TorchScript."""
    return AttributeError(
        f"'{kind}' object has no attribute '{name}': what is scripted or traced runs its Python in minitensor, and has "
        "no TorchScript; minitensor.fx.symbolic_trace and minitensor.export.export make graphs"
    )


class ScriptFunction:
    """A function that `script` or `trace` was given; a call is a call of the Python function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function, which is `__wrapped__`."""
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self._function, "__name__", type(self._function).__name__))

    @property
    def qualified_name(self) -> str:
        """The name as TorchScript has it."""
        home = getattr(self._function, "__module__", None)
        place = f"__torch__.{home}" if home and home != "__main__" else "__torch__"
        return f"{place}.{self.name}"

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write it to a file: see :func:`minitensor.scripting.save`."""
        from minitensor.scripting.files import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return the bytes of such a file."""
        from minitensor.scripting.files import to_bytes

        return to_bytes(self, _extra_files)

    def __getattr__(self, name: str) -> Any:
        """Refuse what describes TorchScript."""
        if name in WITHOUT:
            raise refuse("ScriptFunction", name)
        raise AttributeError(f"'ScriptFunction' object has no attribute '{name}'")

    def __reduce__(self) -> Any:
        return ScriptFunction, (self._function,)


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `fn`, which is never traced."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


class Future:
    """A result that is there now or later, with what is to be done with it."""

    def __init__(self, *, devices: Any = None) -> None:
        """There is no result yet."""
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Return whether there is a result, or an error."""
        return self._done

    def value(self) -> Any:
        """Return the result, as :meth:`wait` does."""
        return self.wait()

    def wait(self) -> Any:
        """Return the result, or raise the error that the call ended with.

        RuntimeError if there is neither: calls run when they are made, so that nobody would bring one.
        """
        if not self._done:
            raise RuntimeError("Future.wait: no result was set, and no other thread of this program's sets one")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: Any) -> None:
        """Set the result, once, and call what waits for it."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set the error that `wait` raises."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        if self._done:
            raise RuntimeError("Attempting to mark a completed Future as complete again")
        self._done, self._value, self._error = True, value, error
        waiting, self._callbacks = self._callbacks, []
        for callback in waiting:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Have a function called with this future when it is done, at once if it is."""
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a future of what a function gives for this one when it is done."""
        after = Future()

        def run(future: Future) -> None:
            try:
                value = callback(future)
            except Exception as error:
                after.set_exception(error)
            else:
                after.set_result(value)

        self.add_done_callback(run)
        return after


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function at once, and return a future that has its result, or raises its error."""
    if not callable(func):
        raise TypeError(f"fork: expected a function or a module, got {type(func).__name__}")
    future = Future()
    try:
        value = func(*args, **kwargs)
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(value)
    return future


def wait(future: Future) -> Any:
    """Return what a future has. TypeError for anything else."""
    if not isinstance(future, Future):
        raise TypeError(f"wait: expected a Future, got {type(future).__name__}")
    return future.wait()


class CompilationUnit:
    """Functions that are given as text, in the part of Python that TorchScript understands."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        """Define the functions of a text, if there is one."""
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Define the functions of a text: attributes of the unit, which may call each other."""
        import textwrap
        import typing

        import minitensor

        space: dict[str, Any] = {"torch": minitensor, "__name__": "__torch__"}
        space.update((name, getattr(typing, name)) for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union"))
        space.update(Tensor=minitensor.Tensor, **self._functions)
        exec(compile(textwrap.dedent(lang), "<CompilationUnit>", "exec", dont_inherit=True), space)
        for name, value in space.items():
            if isinstance(value, types.FunctionType) and value.__globals__ is space:
                self._functions[name] = ScriptFunction(value)

    def __getattr__(self, attr: str) -> ScriptFunction:
        """Return a function by its name."""
        try:
            return vars(self)["_functions"][attr]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"'CompilationUnit' has no attribute '{attr}'") from None
