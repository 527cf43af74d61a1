"""What asking for the class of an object depends on."""

from __future__ import annotations

import sys
import threading
from typing import Any

from minitensor import _C
from minitensor_jit.state.notes import ABSENT, Guard, Notes, lookup, own_dict

__all__ = ["HEAP_TYPE", "SPECIAL", "ClassReads", "is_shared", "slot_is_set"]

HEAP_TYPE = 1 << 9
"""A class that a program made, which may change."""
_UNARY = "neg pos invert abs bool len iter next reversed contains getitem setitem delitem missing call enter exit"
_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"
_OTHERS = (
    "eq ne lt le gt ge hash repr str format bytes int float complex index round trunc floor ceil length_hint fspath "
    "getattr getattribute setattr delattr get set delete instancecheck subclasscheck subclasshook array class_getitem "
    "init new prepare await aiter anext aenter aexit init_subclass set_name mro_entries "
    "torch_function array_function array_ufunc array_interface array_struct array_priority array_wrap dlpack "
    "dlpack_device"
)
SPECIAL = tuple(
    f"__{name}__"
    for name in (
        *_UNARY.split(), *_OTHERS.split(),
        *(before + name for name in _BINARY.split() for before in ("", "r", "i")),
    )
)  # fmt: skip
"""Methods that Python finds by itself: what an object does depends on those that its class has, and lacks."""

_MRO = type.__dict__["__mro__"]


class ClassReads(Notes):
    """Notes of what is read of classes, and of the attributes that objects have of their own."""

    def _kind(self, thing: Any) -> None:
        kind = type(thing)
        if kind.__flags__ & HEAP_TYPE:
            self._note(Guard.TYPE_OF, thing, (kind,))
            self._special(kind)
        elif kind is _C.Tensor and id(thing) not in self._tensors:
            self._note(Guard.LAYOUT, thing, ())  # another class may be assigned to it

    def _special(self, kind: type) -> None:
        if kind.__flags__ & HEAP_TYPE and kind not in self._kinds:
            self._kinds.add(kind)
            for name in SPECIAL:
                self._type_entry(kind, name, lookup(kind, name))

    def _bases(self, kind: type) -> None:
        if kind.__flags__ & HEAP_TYPE:
            self._note(Guard.SLOT, kind, (_MRO, kind.__mro__), id(_MRO))

    def _is_a(self, thing: Any, kinds: Any) -> None:
        """Whether a thing, or a class, is of one of these classes is asked for."""
        self._kind(thing)
        self._bases(type(thing))
        if isinstance(thing, type):
            self._bases(thing)
        if isinstance(kinds, tuple):
            for kind in kinds:
                self._is_a(thing, kind)
        elif isinstance(kinds, type):
            self._special(type(kinds))
            self._bases(kinds)

    def _own_entry(self, thing: Any, name: str) -> None:
        space = own_dict(thing)
        value = ABSENT if space is None else space.get(name, ABSENT)
        self._own.setdefault(id(thing), (thing, {}))[1].setdefault(name, value)
        if space is not None and is_shared(thing, space):
            self._entry(space, name, value)

    def _is_module(self, thing: Any) -> bool:
        return self._module_type is not None and isinstance(thing, self._module_type)


class _Owner:
    """Has attributes of its own."""


def _references(space: dict[str, Any] | None) -> int:
    return sys.getrefcount(space)


def _own_references(thing: Any) -> int:
    space = own_dict(thing)
    return _references(space)


_OWN_REFERENCES = _own_references(_Owner())  # of the object, and of those who ask


def is_shared(thing: Any, space: dict[str, Any]) -> bool:
    """Whether others have the dict of an object's attributes, too, which may be older than the object.

    Who asks has one name for the dict. A dict of a thread's is no other thread's.
    """
    return type(thing) is not threading.local and sys.getrefcount(space) > _OWN_REFERENCES


def slot_is_set(slot: Any, thing: Any) -> bool:
    """Whether an object has a value in a slot of its class."""
    try:
        slot.__get__(thing, type(thing))
    except AttributeError:
        return False
    return True
