"""Nested arguments, by the trees of `minitensor.utils._pytree`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor.utils._pytree import tree_flatten

__all__ = ["flatten", "map_leaves"]


def flatten(value: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves, and what puts others in their places."""
    leaves, spec = tree_flatten(value)
    return leaves, spec.unflatten


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """The same structure with the function's results in place of the leaves."""
    leaves, rebuild = flatten(value)
    return rebuild([function(leaf) for leaf in leaves])


def broadcast(prefix: Any, value: Any) -> list[Any] | None:
    """For each leaf of `value` the part of `prefix` that stands for it; None if the structures do not match."""
    if isinstance(value, (tuple, list)) and isinstance(prefix, type(value)):
        if len(prefix) != len(value):
            return None
        parts = [broadcast(p, v) for p, v in zip(prefix, value, strict=True)]
    elif isinstance(value, dict) and isinstance(prefix, dict):
        if set(prefix) != set(value):
            return None
        parts = [broadcast(prefix[key], v) for key, v in value.items()]
    elif isinstance(prefix, (tuple, list, dict)):
        return None
    else:
        return [prefix] * len(flatten(value)[0])
    if any(part is None for part in parts):
        return None
    return [p for part in parts if part is not None for p in part]
