"""The type of a pipe's samples, as `IterDataPipe[int]` says it."""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any

__all__ = ["DataPipeType", "stated"]


class DataPipeType:
    """A type of samples, which other types and samples can be compared with."""

    def __init__(self, param: Any) -> None:
        """`param`: a class, or what `typing` has."""
        self.param = param

    def __repr__(self) -> str:
        shown = self.param.__name__ if isinstance(self.param, type) and not typing.get_args(self.param) else self.param
        return str(shown).replace("typing.", "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataPipeType) and self.param == other.param

    def __hash__(self) -> int:
        return hash(self.param)

    def issubtype(self, other: Any) -> bool:
        """Whether every sample of this type is one of the other."""
        return _is_subtype(self.param, other.param if isinstance(other, DataPipeType) else other)

    def issubtype_of_instance(self, other: Any) -> bool:
        """Whether a sample is of this type."""
        return _is_instance(other, self.param)


def stated(cls: type) -> DataPipeType:
    """The type that a class of pipes says that its samples have; `Any` if it says none."""
    for base in getattr(cls, "__orig_bases__", ()):
        origin, args = typing.get_origin(base), typing.get_args(base)
        if isinstance(origin, type) and hasattr(origin, "_samples_are") and len(args) == 1:
            return DataPipeType(Any if isinstance(args[0], typing.TypeVar) else args[0])
    return DataPipeType(Any)


def _options(kind: Any) -> tuple[Any, ...] | None:
    if isinstance(kind, typing.TypeVar):
        return kind.__constraints__ or (kind.__bound__ or Any,)
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else None


def _is_subtype(left: Any, right: Any) -> bool:
    left, right = (type(None) if kind is None else kind for kind in (left, right))
    if right is Any or left == right:
        return True
    if left is Any:
        return False
    if (options := _options(left)) is not None:
        return all(_is_subtype(one, right) for one in options)
    if (options := _options(right)) is not None:
        return any(_is_subtype(left, one) for one in options)
    kind, wanted = typing.get_origin(left) or left, typing.get_origin(right) or right
    if not (isinstance(kind, type) and isinstance(wanted, type) and issubclass(kind, wanted)):
        return False
    have, want = typing.get_args(left), typing.get_args(right)
    if not want:
        return True
    if not have:
        return all(one is Any for one in want)
    if Ellipsis in want:
        return all(_is_subtype(one, want[0]) for one in have if one is not Ellipsis)
    return len(have) == len(want) and all(map(_is_subtype, have, want))


def _is_instance(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind is None:
        return value is None
    if (options := _options(kind)) is not None:
        return any(_is_instance(value, one) for one in options)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return isinstance(value, kind) if isinstance(kind, type) else True
    if not isinstance(value, origin):
        return False
    if issubclass(origin, tuple):
        if Ellipsis in args:
            return all(_is_instance(item, args[0]) for item in value)
        return len(value) == len(args) and all(map(_is_instance, value, args))
    if issubclass(origin, collections.abc.Mapping):
        return all(_is_instance(k, args[0]) and _is_instance(v, args[1]) for k, v in value.items())
    if issubclass(origin, (list, set, frozenset)) and args:
        return all(_is_instance(item, args[0]) for item in value)
    return True
