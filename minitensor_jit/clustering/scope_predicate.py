"""Functions that decide op by op what is compiled in a `jit_scope`, and the numbers by which traces know them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["MAX_PREDICATES", "NodeDef", "Predicate", "decide", "number_of_predicate"]

MAX_PREDICATES = 2**14 - 1


@dataclass(frozen=True, slots=True)
class NodeDef:
    """An op, as a predicate sees it."""

    name: str
    """Its name in the graph, such as "add_3"."""
    op: str
    kind: str
    """elementwise, reduction, contraction and so on: see `minitensor.ops`."""
    device: str
    attr: dict[str, Any] = field(default_factory=dict)
    """Its parameters, by name; `dtype` and `shape` are those of its first result."""


Predicate = Callable[[NodeDef], bool]

_lock = threading.Lock()
_numbers: dict[Hashable, int] = {}
_predicates: list[Predicate] = []


def number_of_predicate(predicate: Predicate) -> int:
    """The number of a predicate, from 1. Functions of the same code that closed over the same things have one number.

    RuntimeError for too many different ones.
    """
    key = _key(predicate)
    with _lock:
        number = _numbers.get(key)
        if number is None:
            if len(_predicates) == MAX_PREDICATES:
                raise RuntimeError(f"jit_scope: there are {MAX_PREDICATES} different predicates already")
            _predicates.append(predicate)
            number = _numbers[key] = len(_predicates)
        return number


def decide(number: int, node: NodeDef) -> bool:
    """What the predicate of that number says of an op."""
    return bool(_predicates[number - 1](node))


def _key(predicate: Predicate) -> Hashable:
    code = getattr(predicate, "__code__", None)
    closure = getattr(predicate, "__closure__", None) or ()
    defaults = getattr(predicate, "__defaults__", None) or ()
    kept = getattr(predicate, "__kwdefaults__", None)
    if code is None or kept:
        return id(predicate)
    cells = tuple(cell.cell_contents for cell in closure)
    if not all(isinstance(thing, (int, str, float, bytes, frozenset, type(None))) for thing in (*cells, *defaults)):
        return id(predicate)
    return code, cells, defaults
