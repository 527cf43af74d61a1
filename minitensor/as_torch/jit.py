"""`torch.jit` without another language: scripted and traced functions are the Python functions themselves.

What only makes sense of a compiled file (`load`, `save`, `freeze`) is not here.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from minitensor import no_grad
from minitensor.nn import Module

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "optimized_execution",
    "script",
    "script_if_tracing",
    "script_method",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_F = TypeVar("_F")
_T = TypeVar("_T")

Final = typing.Final
ScriptModule = Module
ScriptFunction = type(lambda: None)
_isinstance = isinstance


def script(obj: _F, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> _F:
    """Return a function, class or module as it is."""
    if not callable(obj):
        raise RuntimeError(f"script: expected a function, a class or a module, got {type(obj).__name__}")
    return obj


def trace(func: _F, example_inputs: Any = None, *options: Any, example_kwarg_inputs: Any = None, **named: Any) -> _F:
    """Return a function or module as it is, after a call with the example, whose errors so come here."""
    if not callable(func):
        raise RuntimeError(f"trace: expected a function or a module, got {type(func).__name__}")
    if example_kwarg_inputs is not None:
        with no_grad():
            func(**example_kwarg_inputs)
    elif example_inputs is not None:
        with no_grad():
            func(*(example_inputs if _isinstance(example_inputs, (tuple, list)) else (example_inputs,)))
    return func


def trace_module(mod: Module, inputs: dict[str, Any], *options: Any, **named: Any) -> Module:
    """Return a module as it is, after calls of the methods that `inputs` names, with the examples there."""
    for name, example in inputs.items():
        trace(getattr(mod, name), example)
    return mod


def _same(fn: _F) -> _F:
    """Return the function."""
    return fn


export = interface = script_if_tracing = script_method = _same


def ignore(drop: Any = False, **named: Any) -> Any:
    """Return the function; with `drop=` a decorator that does."""
    return drop if callable(drop) else _same


unused = _same


def is_scripting() -> bool:
    """Return False: it is always the Python function that runs."""
    return False


def is_tracing() -> bool:
    """Return False: what is recorded are the ops of a call, not the call."""
    return False


def annotate(the_type: Any, the_value: _T) -> _T:
    """Return the value."""
    return the_value


class Attribute(typing.NamedTuple):
    """A value with its type, for a module's attribute."""

    value: Any
    type: Any


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether an object is of a type, which may be one of `typing` with the types of its items."""
    origin, items = typing.get_origin(target_type), typing.get_args(target_type)
    if target_type is Any:
        return True
    if _isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    if origin is None:
        return _isinstance(obj, type(None) if target_type is None else target_type)
    if origin is typing.Union or str(origin) == "<class 'types.UnionType'>":
        return any(isinstance(obj, one) for one in items)
    if not _isinstance(obj, origin):
        return False
    if _isinstance(obj, dict):
        return all(isinstance(key, items[0]) and isinstance(value, items[1]) for key, value in obj.items())
    if _isinstance(obj, tuple) and not (len(items) == 2 and items[1] is ...):
        return len(obj) == len(items) and all(map(isinstance, obj, items))
    return all(isinstance(item, items[0]) for item in obj)


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing, as long as it lasts."""
    yield


strict_fusion = contextlib.nullcontext


class Future:
    """The result of a call that was made at once."""

    def __init__(self, value: Any) -> None:
        """Keep the result."""
        self._value = value

    def wait(self) -> Any:
        """Return it."""
        return self._value


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call the function at once."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """Return what `fork` has."""
    return future.wait()
