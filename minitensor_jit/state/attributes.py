"""What reading and setting attributes depends on."""

from __future__ import annotations

import collections
import functools
import threading
import types
from typing import Any

from minitensor import _C
from minitensor_jit.state.calls import CONTAINERS, IMMUTABLE, is_framework, is_numpy
from minitensor_jit.state.classes import HEAP_TYPE, slot_is_set
from minitensor_jit.state.contents import MOST_ITEMS, ContentReads
from minitensor_jit.state.notes import (
    ABSENT,
    Guard,
    Snapshot,
    has_python,
    in_python,
    is_gradient,
    is_plain,
    lookup,
    own_dict,
)

__all__ = ["AttributeReads"]

_TENSOR_STATE = frozenset(
    {"_version", "storage_offset", "_base", "grad_fn", "output_nr", "is_shared", "is_pinned", "storage_id", "__dict__",
     "untyped_storage", "storage", "is_inference", "is_set_to"}
)  # fmt: skip
"""Of a tensor, what a program doesn't compare."""

_VIEWS_OF_ARRAYS = frozenset({"T", "mT", "real", "imag", "flat", "base"})
"""Attributes whose contents are noted where they are read."""

# What classes may have under a name that says what reading it of an object gives.
_DESCRIPTORS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, types.MemberDescriptorType, types.GetSetDescriptorType, classmethod,
    staticmethod, property, types.MethodType, types.MethodWrapperType, type,
)  # fmt: skip


class AttributeReads(ContentReads):
    """Notes of attributes that are read and set, and of containers that are changed."""

    def _call(self, function: Any, args: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def _attribute(self, thing: Any, name: str) -> None:
        kind = type(thing)
        if kind in IMMUTABLE or kind in (list, dict, tuple, set, frozenset):
            return
        if isinstance(thing, types.ModuleType):
            space = vars(thing)
            self._note(Guard.TYPE_OF, thing, (kind,))  # a class with properties may be assigned
            if kind is not types.ModuleType:
                self._kind(thing)
                self._type_entry(kind, name, lookup(kind, name))
            if name in space:
                self._entry(space, name, space[name])
            elif is_framework(thing.__name__):
                self._late.append((space, name))
            else:
                self._entry(space, name, ABSENT)
                found = space.get("__getattr__", ABSENT)
                self._entry(space, "__getattr__", found)
                if found is not ABSENT and not in_python(found):
                    self._call(found, (name,))
        elif isinstance(thing, type):
            self._kind(thing)
            found, of_kind = lookup(thing, name), lookup(kind, name)
            self._type_entry(thing, name, found)
            self._type_entry(kind, name, of_kind)
            if found is ABSENT:
                self._computed(thing, name, of_kind)
            elif isinstance(found, types.FunctionType):
                self._note(Guard.FUNCTION, found, (found.__code__, found.__defaults__, found.__kwdefaults__))
        elif isinstance(thing, _C.Tensor):
            self._tensor_attribute(thing, name)
        elif kind is super:
            owner, start = thing.__self_class__, thing.__thisclass__
            if owner is not None:
                self._bases(owner)
            mro = owner.__mro__[owner.__mro__.index(start) + 1 :] if owner is not None else ()
            for base in mro:
                found = base.__dict__.get(name, ABSENT)
                self._type_entry(base, name, lookup(base, name))
                if found is not ABSENT:
                    break
        elif isinstance(thing, types.FunctionType):
            found = lookup(kind, name)
            if name == "__dict__":
                self._instance_items(thing)
            elif found is ABSENT:
                self._own_entry(thing, name)
            else:
                self._computed(thing, name, found)
        elif isinstance(thing, types.MethodType):
            if name not in ("__self__", "__func__"):
                self._attribute(thing.__func__, name)
        elif not isinstance(
            thing, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
        ):
            self._object_attribute(thing, kind, name)

    def _computed(self, thing: Any, name: str, descriptor: Any) -> None:
        """What a class or a function has by a descriptor of its type."""
        if name == "__dict__" or (isinstance(thing, type) and not thing.__flags__ & HEAP_TYPE):
            return
        if isinstance(descriptor, (types.GetSetDescriptorType, types.MemberDescriptorType)):
            try:
                value = descriptor.__get__(thing, type(thing))
            except AttributeError:
                value = ABSENT
            self._note(Guard.SLOT, thing, (descriptor, value), id(descriptor))

    def _object_attribute(self, thing: Any, kind: type, name: str) -> None:
        if isinstance(thing, types.GeneratorType) and isinstance(lookup(kind, name), types.MethodDescriptorType):
            return
        reads = lookup(kind, "__getattribute__")
        ours = is_framework(kind.__module__)
        ours |= self._is_module(thing)
        if not (
            _C.generic_attributes(kind) or in_python(reads) or has_python(kind, "__getattr__") or ours
            or kind is threading.local
        ):  # fmt: skip
            if not (is_numpy(thing) or isinstance(thing, CONTAINERS)):
                self._unwatched(f"it reads {name} of a {kind.__name__}")
            return
        self._kind(thing)
        found = lookup(kind, name)
        self._type_entry(kind, name, found)
        if isinstance(found, property):
            self._property(thing, found)
            return
        if isinstance(found, types.MemberDescriptorType):
            value = found.__get__(thing, kind) if slot_is_set(found, thing) else ABSENT
            self._note(Guard.SLOT, thing, (found, value), id(found))
            return
        if isinstance(found, types.GetSetDescriptorType):
            if name == "__dict__":
                self._instance_items(thing)
            elif name != "__class__" and is_numpy(thing):
                self._numpy_attribute(thing, name, found)
            elif name != "__class__" and not (ours or isinstance(thing, (*CONTAINERS, BaseException))):
                if isinstance(thing, types.GeneratorType):
                    self._write(thing, f"reads {name} of a generator that was there before")
                elif isinstance(thing, functools.partial):
                    self._contents(thing)
                elif not isinstance(thing, types.MappingProxyType):
                    self._unwatched(f"it reads {name} of a {kind.__name__}")
            elif isinstance(thing, BaseException):
                self._note(Guard.SLOT, thing, (found, getattr(thing, name)), id(found))
            return
        self._special(type(found))
        reads = getattr(type(found), "__get__", None)
        if reads is not None and not (
            in_python(reads) or isinstance(found, _DESCRIPTORS) or type(found).__name__ == "_tuplegetter"
            or is_framework(type(found).__module__)
        ):  # fmt: skip
            self._unwatched(f"it reads {name} of a {kind.__name__}")
        self._own_entry(thing, name)
        if name in (own_dict(thing) or {}):
            return
        if self._is_module(thing):
            self._registered(thing, name)
        elif found is ABSENT and ours and has_python(kind, "__getattr__"):  # which is not seen to run
            self._instance_items(thing)

    def _numpy_attribute(self, thing: Any, name: str, found: types.GetSetDescriptorType) -> None:
        """An array's shape, dtype, strides and flags may be set where it lies."""
        try:
            value = getattr(thing, name)
        except AttributeError:
            value = ABSENT
        if value is ABSENT or is_plain(value) or name == "dtype":
            self._note(Guard.SLOT, thing, (found, value), id(found))
        elif name in _VIEWS_OF_ARRAYS:
            self._shapes(thing)
        else:
            self._write(thing, f"reads {name} of a {type(thing).__name__}")

    def _registered(self, module: Any, name: str) -> None:
        for registry in ("_parameters", "_buffers", "_modules"):
            members = (own_dict(module) or {}).get(registry)
            if isinstance(members, dict):
                self._own_entry(module, registry)
                self._entry(members, name, members.get(name, ABSENT))

    def _property(self, thing: Any, found: property) -> None:
        getter = found.fget
        if getter is not None and (not in_python(getter) or is_framework(getter.__module__)):
            self._call(getter, (thing,))

    def _tensor_attribute(self, tensor: Any, name: str) -> None:
        given = id(tensor) in self._tensors
        if not given:
            self._note(Guard.LAYOUT, tensor, ())
        if name in _TENSOR_STATE or (given and name in ("requires_grad", "is_leaf") and not _C.is_grad_enabled()):
            what = f"reads {name} of a tensor, which programs don't compare,"
            # The object of a gradient that only its tensor has may be made by the function.
            self._unwatched(f"it {what}") if is_gradient(tensor) else self._write(tensor, what)
            return
        found = lookup(type(tensor), name)
        self._type_entry(type(tensor), name, found)
        if hasattr(type(found), "__set__"):  # which comes before the tensor's own attributes
            return
        own = own_dict(tensor) or {}
        if not given:
            self._own_entry(tensor, name)
        # Of arguments programs know whether they have attributes, and whether these hide what the class has.
        elif name in own or (own and found is ABSENT):
            self._unwatched(f"it reads the attribute {name} of an argument")

    def _changes_attribute(self, thing: Any, name: str) -> None:
        kind = type(thing)
        what = f"sets the attribute {name} of a {kind.__name__}"
        found = lookup(kind, name)
        if isinstance(thing, _C.Tensor):
            if found is ABSENT:
                self._write(thing, what)
            return  # the core sees it
        self._kind(thing)
        if isinstance(found, property):
            if not in_python(found.fset) or is_framework(found.fset.__module__):
                self._write(thing, what)
        elif isinstance(found, types.MemberDescriptorType):
            value = found.__get__(thing, kind) if slot_is_set(found, thing) else ABSENT
            self._note(Guard.SLOT, thing, (found, value), id(found))
            self._changes(thing, what)
        elif isinstance(thing, type) or own_dict(thing) is None or hasattr(type(found), "__set__"):
            self._write(thing, what)
        else:
            self._own_entry(thing, name)
            if self._is_module(thing):
                self._registered(thing, name)
            self._changes(thing, what)

    def _changes_contents(self, container: Any, what: str | None = None) -> None:
        what = what or f"changes a {type(container).__name__}"
        if not isinstance(container, (list, dict, set, collections.deque)) or len(container) > MOST_ITEMS:
            self._write(container, what)
            return
        if id(container) not in self._held:
            if not isinstance(container, dict) or isinstance(container, collections.OrderedDict):
                self._note(Guard.ITEMS, container, tuple(container))
            if isinstance(container, dict):
                self._read.add(id(container))
                self._note(Guard.DICT_ITEMS, container, tuple(dict.items(container)))
            self._held.add(id(container))
        elif isinstance(container, dict) and "params" in container:
            # An optimizer's group: its step may have read the numbers between two writes, but a program reads those
            # that are there before and after both.
            noted = self._whole.get((Guard.DICT_ITEMS, id(container), 0))
            if noted is not None and _C.Guards([noted], ABSENT, Snapshot).check() >= 0:
                self._write(container, what)
        self._changes(container, what)
