"""Nested arguments and results: which tensors are in them, and what they are beside that.

`flatten` takes tuples, lists, dicts and named tuples apart. What is left beside the tensors is a hashable *structure*,
equal for two values if everything but their tensors is equal: numbers by type and bits, texts, dtypes and the like by
value; members of enumerations, modules, functions and types by identity. Of the user's classes, values say what is
equal by themselves and may have attributes, so that these have no structure. The core knows structures too:
`_C.match_structure` and `_C.build_structure` are the way back.

What values are is asked of their types: proxies look for what they stand for, and may fail, when asked for `__class__`.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Hashable
from typing import Any

from minitensor import _C

__all__ = ["Structure", "flatten"]

Structure = tuple[Any, ...]

_BY_VALUE = frozenset({type(None), bool, int, str, bytes, _C.dtype, _C.device, type(Ellipsis)})
_BY_BITS = frozenset({float, complex, range})
_KINDS = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


class _Same:
    """A thing that equals only itself; kept alive as long as it is part of a key."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


def flatten(value: Any) -> tuple[list[Any], Structure | None]:
    """The tensors in a value and its structure; None for one that has things whose contents can't be compared."""
    tensors: list[Any] = []
    try:
        structure = _take(value, tensors)
    except RecursionError:  # it has itself in it
        return [], None
    return tensors, structure


def _take(value: Any, tensors: list[Any]) -> Structure | None:
    kind = type(value)
    if issubclass(kind, _C.Tensor):
        tensors.append(value)
        return ("tensor",)
    if kind is float:
        # By bits: 0.0 and -0.0 differ, and NaN is itself.
        return ("float", value.hex())
    if kind is dict:
        if not all(map(_is_exact, value)):
            return None
        parts = [_take(item, tensors) for item in value.values()]
        if None in parts:
            return None
        if all(type(key) is str for key in value):
            return ("dict", tuple(value), *parts)
        return ("dict", tuple(value), *parts, tuple(map(_exact, value)))
    if kind in (tuple, list) or _is_named_tuple(value):
        parts = [_take(item, tensors) for item in value]
        return None if None in parts else ("sequence", kind, *parts)
    if kind is slice:
        bounds = (value.start, value.stop, value.step)
        exact = _exact(bounds)
        return ("value", slice, bounds, exact) if all(type(n) in (int, bool, type(None)) for n in bounds) else None
    if kind in (complex, range):
        return ("value", kind, value, _exact(value)) if _is_exact(value) else None
    if kind in _BY_VALUE:
        return ("value", kind, value)
    if issubclass(kind, (enum.Enum, *_KINDS)) or _is_module(kind):
        return ("same", _Same(value))
    return None


def _is_named_tuple(value: Any) -> bool:
    """Whether it is one that is known by its items: it has no attributes, and gives its items by itself."""
    kind = type(value)
    return (
        issubclass(kind, tuple)
        and hasattr(kind, "_fields")
        and kind.__iter__ is tuple.__iter__
        and not getattr(value, "__dict__", None)
    )


def _is_exact(value: Any) -> bool:
    """Whether `_exact` tells it from all others: Python knows what equals it, or it equals only itself."""
    kind = type(value)
    if kind in (tuple, frozenset):
        return all(map(_is_exact, value))
    if kind is range:
        return all(type(n) is int for n in (value.start, value.stop, value.step))
    if kind in _BY_VALUE or kind in _BY_BITS:
        return True
    by_itself = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
    known = issubclass(kind, enum.Enum) and not isinstance(kind.__eq__, types.FunctionType)
    return by_itself or known or issubclass(kind, _KINDS)


def _exact(value: Any) -> Hashable:
    """What equals only that of a value of this type with these bits."""
    kind = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind is range:
        return kind, value.start, value.stop, value.step
    if kind is tuple:
        return kind, tuple(map(_exact, value))
    return (kind, frozenset(map(_exact, value))) if kind is frozenset else (kind, value)


def _is_module(kind: type) -> bool:
    # Not imported here: without it there are no modules.
    nn = sys.modules.get("minitensor.nn.modules.module")
    return nn is not None and issubclass(kind, nn.Module)
