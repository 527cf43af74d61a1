"""What an observed function reads of Python's state and what it changes, as a log, and the guards that come of it."""

from __future__ import annotations

import collections
import copy
import enum
import gc
import sys
import threading
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any
from weakref import ref

from minitensor import _C
from minitensor_jit.state.calls import IMMUTABLE

__all__ = [
    "ABSENT",
    "VIEWS",
    "Guard",
    "Notes",
    "has_python",
    "in_python",
    "is_finalized",
    "is_gradient",
    "is_plain",
    "lookup",
    "own_dict",
]


class _Absent:
    """Stands for what isn't there."""


ABSENT = _Absent()
_IMMUTABLE_TYPE = 1 << 8
_MOST_PARTS = 10_000
_CONTAINERS = {dict, list, tuple, set, collections.deque}
_GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class Snapshot(dict[Any, Any]):
    """What an object is that is known by its class, here under None, and its attributes."""

    def __init__(self, thing: Any) -> None:
        """The dicts and sets among the attributes are copied, since they change."""
        attributes = vars(thing).items()
        super().__init__((k, copy.copy(v) if isinstance(v, (dict, set)) else v) for k, v in attributes)
        self[None] = type(thing)


class Guard(enum.IntEnum):
    """Kinds of guards, as csrc/bindings/jit/state/guards.cpp knows them."""

    ENTRIES = 0
    OWN = 1
    CELL = 2
    TYPE = 3
    TYPE_OF = 4
    ITEMS = 5
    DICT_ITEMS = 6
    SLOT = 7
    FUNCTION = 8
    BYTES = 9
    LENGTH = 10
    LAYOUT = 11
    RESULT = 12


# An instruction, by its code and its place there.
_Place = tuple[types.CodeType, int] | None

VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType)


def lookup(kind: type, name: str) -> Any:
    """What a class and its bases have under a name, as it stands there."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return ABSENT


def is_finalized(kind: type) -> bool:
    """Whether code in Python runs where an object of a class goes."""
    return in_python(lookup(kind, "__del__"))


def _holds_finalized(thing: Any, depth: int) -> bool:
    """Whether a container or an object has such objects or generators, or containers of them."""
    if isinstance(thing, dict):
        parts: Any = dict.values(thing)
    elif isinstance(thing, (list, tuple, set, collections.deque)):
        parts = thing
    else:
        parts = () if depth else (own_dict(thing) or {}).values()
    if not 0 < len(parts) <= _MOST_PARTS or depth > 3:
        return False
    kinds = set(map(type, parts))
    if any(issubclass(kind, _GENERATORS) or is_finalized(kind) for kind in kinds):
        return True
    return not kinds.isdisjoint(_CONTAINERS) and any(_holds_finalized(part, depth + 1) for part in parts)


def own_dict(thing: Any) -> dict[str, Any] | None:
    """Return the dict of an object's attributes, if it has one; of a `threading.local` this thread's."""
    if type(thing) is threading.local:
        return thing.__dict__
    try:
        found = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


def in_python(function: Any) -> bool:
    """Whether a function is seen to run."""
    return isinstance(function, types.FunctionType)


def is_plain(thing: Any) -> bool:
    """Whether a thing never changes, and is compared by what it is."""
    return type(thing) in IMMUTABLE or (type(thing) is tuple and all(map(is_plain, thing)))


def is_gradient(thing: Any) -> bool:
    """Whether it is one that a tensor from outside had when the function that is recorded began."""
    return any(gradient is thing for gradient in _C.gradients_before())


def has_python(kind: type, *names: str) -> bool:
    """Whether a class has one of these methods, in Python."""
    return any(in_python(lookup(kind, name)) for name in names)


def _where(place: _Place) -> str:
    if place is None:
        return ""
    code, at = place
    line = next((line for i, (line, *_) in enumerate(code.co_positions()) if i == at), None)
    return "" if line is None else f" ({code.co_filename}:{line})"


class Notes:
    """The log of one run."""

    def __init__(self, arguments: Any) -> None:
        self.reason: str | None = None
        self._module_type: type | None = None
        self._young: list[Any] = []
        self._place: _Place = None
        self._entries: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self._own: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self._types: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self._whole: dict[tuple[int, int, int], tuple[int, Any, Any]] = {}
        # With what is done, and where: there are many, and few are told of.
        self._writes: list[tuple[Any, str, _Place]] = []
        self._undone: list[tuple[Any, str, _Place]] = []
        self._held: set[int] = set()  # containers that are written, whose contents of before are noted
        # Dicts that are noted whole since the function may know of each item, and whether what is noted now is only
        # handed on, to code that reads the numbers of an optimizer's groups at each call, or item by item.
        self._read: set[int] = set()
        self._handed = False
        self._named: list[Any] = []  # by `id`
        self._imported: list[str] = []
        self._late: list[tuple[dict[str, Any], str]] = []
        self._made: list[Any] = []
        self._given = {id(part) for part in _containers(arguments)}
        self._tensors = {id(t) for t in _tensors_of(arguments)}
        self._modules: set[int] = set()
        self._opened: dict[tuple[int, bool], Any] = {}  # objects whose attributes are all noted, as handed on or read
        self._kinds: set[type] = set()
        self._guards: list[tuple[int, Any, Any]] = []
        self._refusal: Exception | None = None
        # The collector does not know a dict of numbers and texts, and learns of it when something else is put in:
        # those that were there before are young then, too.
        self._unknown: dict[int, Any] = {}
        self._made_ids: set[int] = set()
        self._made_count = 0
        self._owners: dict[int, tuple[Any, Any]] = {}  # of dicts that are attributes of objects
        self._shared: set[int] = set()  # of these, those that others have too

    # ---- what is noted

    def _unwatched(self, what: str) -> None:
        if self.reason is None:
            self.reason = what + _where(self._place)
            self._release()

    def _release(self) -> None:
        """Hold nothing any more, where no notes are needed: what the function drops is to go when it is dropped."""
        for notes in (self._entries, self._own, self._types, self._whole, self._opened, self._unknown, self._owners):
            notes.clear()
        for held in (self._writes, self._undone, self._named, self._late, self._made, self._guards, self._young):
            held.clear()
        self._made_ids.clear()
        self._made_count = 0
        _C.hold_nothing()

    def _seen(self, thing: Any) -> None:
        if isinstance(thing, dict) and not gc.is_tracked(thing):
            self._made_ids.update(id(made) for made in self._made[self._made_count :])
            self._made_count = len(self._made)
            if id(thing) not in self._made_ids:
                self._unknown.setdefault(id(thing), thing)

    def _drops(self, thing: Any) -> bool:
        """Whether something is changed that has what would go later than it is dropped, since it is noted: give up."""
        if not _holds_finalized(thing, 0):
            return False
        self._unwatched("it changes what has objects with finalizers")
        return True

    def _write(self, thing: Any, what: str) -> None:
        if self._drops(thing):
            return
        self._seen(thing)
        # A generator that the function makes and drops is closed there, which may run code of it.
        self._writes.append((ref(thing) if isinstance(thing, _GENERATORS) else thing, what, self._place))

    def _changes(self, thing: Any, what: str) -> None:
        """What has a guard on how it was is written, which is no change if it is so again at the end."""
        if self._drops(thing):
            return
        if id(thing) in self._given:
            self._write(thing, what)
        else:
            self._seen(thing)
            self._undone.append((thing, what, self._place))

    def _entry(self, space: dict[Any, Any], key: Any, value: Any) -> None:
        if id(space) in self._held:
            return
        self._seen(space)
        self._entries.setdefault(id(space), (space, {}))[1].setdefault(key, value)

    def _type_entry(self, kind: type, name: str, value: Any) -> None:
        if not kind.__flags__ & _IMMUTABLE_TYPE:  # (Tensor's attributes can be set, too)
            self._types.setdefault(id(kind), (kind, {}))[1].setdefault(name, value)

    def _note(self, kind: int, thing: Any, what: tuple[Any, ...], part: int = 0) -> None:
        if id(thing) in self._held and kind in (Guard.ITEMS, Guard.DICT_ITEMS, Guard.LENGTH):
            return
        self._seen(thing)
        self._whole.setdefault((kind, id(thing), part), (kind, thing, what))

    def _own_of_result(self, part: Any, outside: Callable[[Any], bool]) -> str | None:
        """What of a result every call makes anew, and no program does."""
        if isinstance(part, _C.Tensor):
            if id(part) in self._tensors:
                return None
            if own_dict(part):
                return "a tensor with attributes of its own"
            return None if type(part) is _C.Tensor else f"a {type(part).__name__}"
        if is_plain(part) or not isinstance(part, Hashable) or outside(part):
            return None
        return f"a {type(part).__name__} that it makes"

    def _read_argument(self, guards: list[tuple[int, Any, Any]]) -> bool:
        """Whether guards compare a tensor of the arguments; gradients of before that they compare are pinned.

        There are thousands of parts in a step of a library's.
        """
        tensors, gradients = self._tensors, {id(gradient): gradient for gradient in _C.gradients_before()}
        waiting = [what for _, _, what in guards] if tensors or gradients else []
        for parts in waiting:
            ids = set(map(id, parts))
            if not tensors.isdisjoint(ids):
                return True
            for pinned in ids & gradients.keys():
                _C.pin_gradient(gradients.pop(pinned))
            waiting += [part for part in parts if isinstance(part, (tuple, frozenset))]
        return False

    def _judge(self, result: Any) -> None:
        before = {id(thing) for thing in self._young}
        inside = {id(thing) for thing in _C.young_objects()} - before
        inside.update(id(thing) for thing in self._made)

        def outside(thing: Any) -> bool:
            if id(thing) in self._owners and id(thing) not in self._shared:
                thing = self._owners[id(thing)][1]
            return id(thing) not in inside or id(thing) in self._unknown

        for thing, what, place in self._writes:
            if type(thing) is ref:
                thing = thing()
                if thing is None:  # of before it were somebody's, who had to be noted to let go of it
                    continue
            if outside(thing):
                self.reason = f"it {what}{_where(place)}"
                return
        if any(not outside(options) for options in _C.changed_items()):
            self.reason = "it changes options of an optimizer that it makes"
            return
        if any(not outside(thing) for thing in self._named):
            self.reason = "it calls builtins.id of what it makes"
            return
        returned: set[int] = set()
        for part in _containers(result):
            if isinstance(part, tuple):
                continue
            if outside(part) or id(part) in returned:
                self.reason = f"it returns a {type(part).__name__} that others have too"
                return
            returned.add(id(part))
        for part in _parts(result):
            own = self._own_of_result(part, outside)
            if own is not None:
                self.reason = f"it returns {own}"
                return
        for name in dict.fromkeys(self._imported):
            self._entry(sys.modules, name, sys.modules.get(name, ABSENT))
        for space, name in self._late:
            self._entry(space, name, space.get(name, ABSENT))
        guards: list[tuple[int, Any, Any]] = []
        for kind, found in ((Guard.ENTRIES, self._entries), (Guard.OWN, self._own), (Guard.TYPE, self._types)):
            for thing, entries in found.values():
                if outside(thing) and id(thing) not in self._given:
                    guards.append((kind, thing, tuple(entries.items())))
        guards.extend(g for g in self._whole.values() if outside(g[1]) and id(g[1]) not in self._given)
        if not guards:
            return
        guards = _without_bound(guards, self._read)
        # In what was recorded the two can't be told apart, and the next call may have another argument.
        if self._read_argument(guards):
            self.reason = "the function also reads an argument by itself"
            return
        broken = _C.Guards(guards, ABSENT, Snapshot).check()
        if broken >= 0:
            changed = guards[broken][1]
            self.reason = next(
                (f"it {what}{_where(place)}" for thing, what, place in self._undone if thing is changed),
                f"what it reads changes while it runs: {_name_of(guards[broken])}",
            )
        else:
            self._guards = _with_snapshots(guards)

    def _as_guards(self) -> Any:
        """The guards as the core compares them; None without any."""
        return _C.Guards(self._guards, ABSENT, Snapshot) if self._guards else None


def _with_snapshots(guards: list[tuple[int, Any, Any]]) -> list[tuple[int, Any, Any]]:
    """Guards where modules that only hold parameters are known by what they hold.

    Keras makes them anew with the same parameters at each `fit` and `evaluate`.
    """
    nn = sys.modules.get("minitensor.nn")
    if nn is None:
        return guards
    kinds = (nn.ParameterDict, nn.ParameterList)
    found: dict[int, tuple[Any, Snapshot]] = {}

    def known(value: Any) -> Any:
        if type(value) not in kinds:
            return value
        return found.setdefault(id(value), (value, Snapshot(value)))[1]

    kept: list[tuple[int, Any, Any]] = []
    for kind, thing, what in guards:
        if kind in (Guard.ENTRIES, Guard.OWN, Guard.DICT_ITEMS):
            what = tuple((key, known(value)) for key, value in what)
        elif kind in (Guard.ITEMS, Guard.CELL):
            what = tuple(map(known, what))
        kept.append((kind, thing, what))
    if not found:
        return guards
    parts = {id(part) for module, _ in found.values() for part in (module, *vars(module).values())
             if part is module or isinstance(part, (dict, set))}  # fmt: skip
    return [guard for guard in kept if id(guard[1]) not in parts]


def _without_bound(guards: list[tuple[int, Any, Any]], read: set[int]) -> list[tuple[int, Any, Any]]:
    """Guards without the numbers that the program itself reads at each call, but for what the function read of them."""
    bound: dict[int, set[Any]] = {}
    for space, key in _C.bound_items():
        bound.setdefault(id(space), set()).add(key)
    kept: list[tuple[int, Any, Any]] = []
    for kind, thing, what in guards:
        keys = bound.get(id(thing))
        if keys and kind == Guard.DICT_ITEMS and id(thing) not in read:
            kept.append((Guard.LENGTH, thing, (len(thing),)))
            what = tuple((key, value) for key, value in what if key not in keys)
            kind = Guard.ENTRIES
        kept.append((kind, thing, what))
    return kept


def _containers(value: Any) -> Iterator[Any]:
    """Those in a value, as often as they are in it. Into each it is looked once: they may have themselves in them."""
    waiting, seen = [value], set()
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, (tuple, list, dict, set)):
            yield thing
            if id(thing) not in seen:
                seen.add(id(thing))
                waiting.extend(reversed(tuple(thing.values() if isinstance(thing, dict) else thing)))


def _parts(value: Any) -> Iterator[Any]:
    """What is in containers, keys too, or is none."""
    if not isinstance(value, (tuple, list, dict, set)):
        yield value
    for container in _containers(value):
        for part in container.values() if isinstance(container, dict) else container:
            if not isinstance(part, (tuple, list, dict, set)):
                yield part
        for key in container if isinstance(container, dict) else ():
            yield from _parts(key)


def _tensors_of(value: Any) -> Iterator[Any]:
    if isinstance(value, _C.Tensor):
        yield value
    for part in _containers(value):
        yield from (t for t in (part.values() if isinstance(part, dict) else part) if isinstance(t, _C.Tensor))


def _name_of(guard: tuple[int, Any, Any]) -> str:
    kind, thing, what = guard
    if kind in (Guard.ENTRIES, Guard.OWN, Guard.TYPE):
        for name, value in what:
            space = thing if kind == Guard.ENTRIES else vars(thing) if kind == Guard.TYPE else own_dict(thing) or {}
            if space.get(name, ABSENT) is not value:
                return f"{name} of a {type(thing).__name__}"
    return f"a {type(thing).__name__}"
