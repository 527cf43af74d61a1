"""Nested arguments: tuples, lists and dicts of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["flatten", "map_leaves"]


def flatten(value: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves, and what puts others in their places."""
    leaves: list[Any] = []

    def take(node: Any) -> Callable[[list[Any]], Any]:
        if isinstance(node, dict):
            parts = {key: take(item) for key, item in node.items()}
            return lambda values: type(node)({key: part(values) for key, part in parts.items()})
        if isinstance(node, (tuple, list)):
            items = [take(item) for item in node]
            if isinstance(node, tuple) and hasattr(node, "_fields"):
                return lambda values: type(node)(*(item(values) for item in items))
            kind = tuple if isinstance(node, tuple) and type(node) is not tuple else type(node)
            return lambda values: kind(item(values) for item in items)
        place = len(leaves)
        leaves.append(node)
        return lambda values: values[place]

    rebuild = take(value)
    return leaves, rebuild


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
