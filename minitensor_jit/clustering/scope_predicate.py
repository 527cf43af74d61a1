"""Functions that decide op by op what is compiled in a `jit_scope`, and the numbers by which traces know them."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from minitensor import _forks

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

_lock = _forks.lock()
_numbers: dict[Hashable, int] = {}
# As they were given, and as they were then.
_predicates: list[tuple[Predicate, Predicate]] = []


def number_of_predicate(predicate: Predicate) -> int:
    """The number of a predicate, from 1. Functions of the same code that closed over equal things have one number.

    RuntimeError for too many different ones.
    """
    key, kept = _frozen(predicate)
    with _lock:
        number = _numbers.get(key)
        if number is None:
            if len(_predicates) == MAX_PREDICATES:
                raise RuntimeError(f"jit_scope: there are {MAX_PREDICATES} different predicates already")
            _predicates.append((predicate, kept))
            number = _numbers[key] = len(_predicates)
        return number


def decide(number: int, node: NodeDef) -> bool:
    """What the predicate of that number says of an op."""
    predicate, kept = _predicates[number - 1]
    key, _ = _frozen(predicate)
    if _numbers.get(key) != number:  # what it closed over has changed since
        return bool(kept(node))
    answer = bool(predicate(node))
    after, _ = _frozen(predicate)
    if after != key:  # it notes what it is asked, and is the same all the same
        with _lock:
            _numbers.setdefault(after, number)
    return answer


_PLAIN = (int, str, bytes, complex, type(None), bool, type(Ellipsis))


def _frozen(thing: Any) -> tuple[Hashable, Any]:
    """What a thing is known by, and it as it is now, with containers of its own."""
    kind = type(thing)
    if kind in _PLAIN:
        return (kind, thing), thing
    if kind is float:
        return (kind, thing.hex()), thing  # by bits: 0.0 and -0.0 differ, and NaN is itself
    if kind in (list, tuple):
        parts = [_frozen(item) for item in thing]
        return (kind, *(key for key, _ in parts)), kind(kept for _, kept in parts)
    if kind in (set, frozenset):
        parts = [_frozen(item) for item in thing]
        return (kind, frozenset(key for key, _ in parts)), kind(kept for _, kept in parts)
    if kind is dict:
        keys, values = [_frozen(key) for key in thing], [_frozen(value) for value in thing.values()]
        known = tuple((key, value) for (key, _), (value, _) in zip(keys, values, strict=True))
        return (kind, *known), {key: value for (_, key), (_, value) in zip(keys, values, strict=True)}
    if kind is types.MethodType:
        function, kept = _frozen(thing.__func__)
        return (kind, function, id(thing.__self__)), types.MethodType(kept, thing.__self__)
    if kind is functools.partial:
        parts = [_frozen(part) for part in (thing.func, thing.args, thing.keywords)]
        function, args, keywords = (kept for _, kept in parts)
        return (kind, *(key for key, _ in parts)), functools.partial(function, *args, **keywords)
    if kind is types.FunctionType and not _is_recursive(thing):
        cells = [_frozen(cell.cell_contents) for cell in thing.__closure__ or ()]
        defaults, named = _frozen(thing.__defaults__), _frozen(thing.__kwdefaults__)
        closure = tuple(types.CellType(kept) for _, kept in cells)
        kept = types.FunctionType(thing.__code__, thing.__globals__, thing.__name__, defaults[1], closure)
        kept.__kwdefaults__ = named[1]
        return (kind, thing.__code__, id(thing.__globals__), *(key for key, _ in cells), defaults[0], named[0]), kept
    # By which object it is, which is kept, so that no other can have its id.
    return (kind, id(thing)), thing


def _is_recursive(function: types.FunctionType) -> bool:
    """Whether what a function closed over leads back to it, or isn't there yet."""
    on_way: list[Any] = []

    def leads_back(found: Any) -> bool:
        if any(found is one for one in on_way):
            return True
        if isinstance(found, types.FunctionType):
            cells = found.__closure__ or ()
            try:
                parts = [cell.cell_contents for cell in cells]
            except ValueError:
                return True
            parts += [found.__defaults__, found.__kwdefaults__]
        elif isinstance(found, functools.partial):
            parts = [found.func, found.args, found.keywords]
        elif isinstance(found, types.MethodType):
            parts = [found.__func__]
        elif type(found) is dict:
            parts = list(found.values())
        else:
            parts = list(found) if type(found) in (list, tuple, set, frozenset) else []
        on_way.append(found)
        back = any(leads_back(part) for part in parts)
        on_way.pop()
        return back

    return leads_back(function)
