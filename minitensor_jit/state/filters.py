"""Guards that a user leaves out: what a filter of `compile(options={"guard_filter_fn": ...})` sees of each."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from minitensor import _C
from minitensor_jit.state.notes import ABSENT, Guard, own_dict

__all__ = ["GuardFilter", "GuardFilterEntry", "chosen"]

_Guard = tuple[int, Any, Any]
_BY_KEY = (Guard.ENTRIES, Guard.OWN, Guard.TYPE)
_KINDS = {
    Guard.TYPE_OF: "TYPE_MATCH",
    Guard.ITEMS: "EQUALS_MATCH",
    Guard.DICT_ITEMS: "EQUALS_MATCH",
    Guard.SLOT: "EQUALS_MATCH",
    Guard.BYTES: "EQUALS_MATCH",
    Guard.RESULT: "EQUALS_MATCH",
    Guard.FUNCTION: "CLOSURE_MATCH",
    Guard.LENGTH: "SEQUENCE_LENGTH",
    Guard.LAYOUT: "TENSOR_MATCH",
}


class _Missing:
    """The value of a guard on what isn't there."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = _Missing()


@dataclasses.dataclass(frozen=True)
class GuardSource:
    """Where that is which a guard compares."""

    of_module: bool
    of_framework_module: bool

    def is_unspecialized_nn_module(self) -> bool:
        """Whether it belongs to an `nn.Module`: an attribute, a parameter, a dict of its hooks."""
        return self.of_module

    def is_unspecialized_builtin_nn_module(self) -> bool:
        """Whether it belongs to a module of a class that the framework has, such as `nn.Linear`."""
        return self.of_framework_module


@dataclasses.dataclass(frozen=True)
class OriginalGuard:
    """A guard, by the attributes that filters look at."""

    name: str
    source: GuardSource


@dataclasses.dataclass(frozen=True)
class GuardFilterEntry:
    """What a filter is told of a guard.

    `name` is a global variable as `G['name']`, and otherwise says what it is of which class. `value` is what was there,
    if `has_value`. `guard_type` is one of "TENSOR_MATCH" (shape, strides, dtype, device and wish for gradients),
    "CONSTANT_MATCH" (a number or text), "ID_MATCH" (which object), "TYPE_MATCH", "CLOSURE_MATCH" (a function's code and
    defaults, a variable of an outer function), "EQUALS_MATCH" (a container's contents), "SEQUENCE_LENGTH" and
    "DICT_CONTAINS" (a name that isn't there). `is_global`: whether it is a global variable or was reached from one.
    """

    name: str
    has_value: bool
    value: Any
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: OriginalGuard


GuardFilter = Callable[[Sequence[GuardFilterEntry]], Sequence[bool]]


def chosen(guards: Sequence[_Guard], keep: GuardFilter, owners: Mapping[int, tuple[Any, Any]]) -> list[_Guard]:
    """The guards for which the filter says True.

    `owners` has, by the id of a dict of attributes, it and its object. RuntimeError for a filter that doesn't return a
    bool for each entry.
    """
    parts = list(_parts(guards))
    reached = _reached(parts)
    of_module, of_framework = _of_modules(parts, owners)
    entries = [
        _entry(part, id(part[1]) in reached, GuardSource(id(part[1]) in of_module, id(part[1]) in of_framework))
        for part in parts
    ]
    answers = list(keep(entries))
    if len(answers) != len(entries):
        raise RuntimeError(f"guard_filter_fn: expected {len(entries)} answers, one a guard, got {len(answers)}")
    if wrong := next((one for one in answers if type(one) is not bool), None):
        raise RuntimeError(f"guard_filter_fn: expected bools, got {type(wrong).__name__}")
    joined: dict[tuple[int, int], _Guard] = {}
    whole: list[_Guard] = []
    for (kind, thing, what), answer in zip(parts, answers, strict=True):
        if not answer:
            continue
        if kind in _BY_KEY:
            before = joined.get((kind, id(thing)), (kind, thing, ()))[2]
            joined[kind, id(thing)] = kind, thing, before + what
        else:
            whole.append((kind, thing, what))
    return [*joined.values(), *whole]


def _parts(guards: Iterable[_Guard]) -> Iterator[_Guard]:
    """Guards of one name each, where a guard compares several."""
    for kind, thing, what in guards:
        if kind in _BY_KEY:
            yield from ((kind, thing, (one,)) for one in what)
        else:
            yield kind, thing, what


def _values(part: _Guard) -> Iterable[Any]:
    kind, _, what = part
    if kind in _BY_KEY or kind == Guard.DICT_ITEMS:
        return [value for _, value in what]
    if kind == Guard.SLOT:
        return what[1:]
    return what if kind in (Guard.ITEMS, Guard.CELL) else ()


def _reached(parts: Sequence[_Guard]) -> set[int]:
    """The ids of the namespaces of modules, and of what is reached from their variables by what is compared."""
    found = {id(vars(module)) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)}
    found |= {id(thing) for kind, thing, _ in parts if kind == Guard.ENTRIES and "__builtins__" in thing}
    by_thing: dict[int, list[_Guard]] = {}
    for part in parts:
        by_thing.setdefault(id(part[1]), []).append(part)
    left = [number for number in by_thing if number in found]
    while left:
        for part in by_thing.get(left.pop(), ()):
            for value in _values(part):
                for one in (value, own_dict(value)):
                    if id(one) in by_thing and id(one) not in found:
                        found.add(id(one))
                        left.append(id(one))
    return found


def _of_modules(parts: Sequence[_Guard], owners: Mapping[int, tuple[Any, Any]]) -> tuple[set[int], set[int]]:
    """The ids of modules and what only they have, all of them and those of the framework's classes."""
    nn = sys.modules.get("minitensor.nn")
    everything: set[int] = set()
    framework: set[int] = set()
    if nn is None:
        return everything, framework
    for _, thing, _ in parts:
        module = owners[id(thing)][1] if id(thing) in owners else thing
        if not isinstance(module, nn.Module):
            continue
        space = own_dict(module) or {}
        ids = {id(module), id(space), id(thing)}
        for value in space.values():
            if isinstance(value, (dict, list, set)):
                ids.add(id(value))
            for one in (value, *(value.values() if isinstance(value, dict) else ())):
                if isinstance(one, _C.Tensor):
                    ids.add(id(one))
        everything |= ids
        if type(module).__module__.startswith("minitensor."):
            framework |= ids
    return everything, framework


def _entry(part: _Guard, is_global: bool, source: GuardSource) -> GuardFilterEntry:
    kind, thing, what = part
    value: Any = thing
    if kind in _BY_KEY:
        key, value = what[0]
        space = kind == Guard.ENTRIES and is_global and "__builtins__" in thing
        name = f"G[{key!r}]" if space else f"{key} of a {type(thing).__name__}"
        guard_type = _type_of(value)
    elif kind == Guard.CELL:
        value, name, guard_type = what[0], "a variable of an outer function", "CLOSURE_MATCH"
    else:
        name, guard_type = f"a {type(thing).__name__}", _KINDS[Guard(kind)]
    missing = value is ABSENT
    return GuardFilterEntry(
        name, not missing, MISSING if missing else value, guard_type, (guard_type,), is_global,
        OriginalGuard(name, source),
    )  # fmt: skip


def _type_of(value: Any) -> str:
    if value is ABSENT:
        return "DICT_CONTAINS"
    return "CONSTANT_MATCH" if type(value) in (int, float, bool, str, bytes, complex, type(None)) else "ID_MATCH"
