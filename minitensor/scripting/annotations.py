"""What programs say to TorchScript's compiler about their functions and types; Python runs without it."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any, TypeVar

__all__ = [
    "Attribute", "Final", "annotate", "export", "ignore", "interface", "is_scripting", "is_tracing", "isinstance",
    "unused",
]  # fmt: skip

_F = TypeVar("_F")
_T = TypeVar("_T")

Final = typing.Final
_isinstance = isinstance


def export(fn: _F) -> _F:
    """Return the function: every method of a scripted module can be called."""
    return fn


unused = export
# Not public in PyTorch, but what libraries decorate their functions with.
_overload = _overload_method = export


def interface(obj: _T) -> _T:
    """Return the class. RuntimeError for what is none."""
    if not inspect.isclass(obj):
        raise RuntimeError("interface must be applied to a class")
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function; with a bool a decorator that does. RuntimeError for anything else."""
    if callable(drop):
        return drop
    if not _isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    return export


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
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, one) for one in items)
    if not _isinstance(obj, origin):
        return False
    if _isinstance(obj, dict):
        return all(isinstance(key, items[0]) and isinstance(value, items[1]) for key, value in obj.items())
    if _isinstance(obj, tuple) and not (len(items) == 2 and items[1] is ...):
        return len(obj) == len(items) and all(map(isinstance, obj, items))
    return all(isinstance(item, items[0]) for item in obj)
