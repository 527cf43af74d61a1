"""What reading the contents of containers, arrays and objects depends on."""

from __future__ import annotations

import collections
import decimal
import functools
import gc
import operator
import sys
import types
import warnings
from collections.abc import Iterable
from typing import Any

from minitensor import _C
from minitensor_jit.state.calls import CONTAINERS, IMMUTABLE, PURE_TYPES, is_framework, is_numpy
from minitensor_jit.state.classes import HEAP_TYPE, SPECIAL, ClassReads, is_shared, slot_is_set
from minitensor_jit.state.notes import ABSENT, VIEWS, Guard, in_python, is_gradient, is_plain, lookup, own_dict
from minitensor_jit.state.settings import named_by, parts_of, value_of

__all__ = ["MOST_DEPTH", "MOST_ITEMS", "ContentReads"]

MOST_ITEMS = 10_000
"""Items of a container that are compared at each call."""
MOST_DEPTH = 8
"""Containers in one another whose items are compared."""
_DEEP = "it reads containers that are nested deeply"
# What calling a module reads in C++, and looking for its attributes.
_MODULE_NAMES = [
    "_parameters",
    "_buffers",
    "_modules",
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_compiled_call_impl",
]
_MOST_BYTES = 1 << 16
_OWNERS = frozenset((*IMMUTABLE, *PURE_TYPES, *CONTAINERS, object, type, BaseException, Exception))
_CALLS = frozenset({operator.attrgetter, operator.methodcaller})


def _warning_settings() -> tuple[Any, ...]:
    """What becomes of warnings, and who gets them."""
    names = ("defaultaction", "showwarning", "_showwarnmsg_impl")
    return (*warnings.filters, *(getattr(warnings, name, None) for name in names))


def _numpy_settings() -> tuple[Any, ...]:
    """What NumPy does where numbers overflow or are divided by zero: nothing, warn, raise or call."""
    np = sys.modules["numpy"]  # who computes with it has imported it
    return (*np.geterr().values(), np.geterrcall(), *_warning_settings())


class ContentReads(ClassReads):
    """Notes of what is read of contents."""

    def _passed(self, function: Any) -> None:
        raise NotImplementedError

    def _refused(self) -> Exception:
        raise NotImplementedError

    def _instance_items(self, thing: Any) -> None:
        space = own_dict(thing)
        if space is not None and (id(thing), self._handed) not in self._opened:
            self._opened[id(thing), self._handed] = thing
            # Who asks for the dict has it, too: if there are more references than the object's, others are looked for.
            shared = is_shared(thing, space) and any(
                other is not thing and not isinstance(other, types.FrameType) for other in gc.get_referrers(space)
            )
            self._owners[id(space)] = space, thing
            items = tuple(space.items())
            self._note(Guard.DICT_ITEMS, thing, items)
            if shared:
                self._shared.add(id(space))
                self._note(Guard.DICT_ITEMS, space, items)
            for value in space.values():
                self._contents(value, 1)

    def _module(self, module: Any) -> None:
        """A module that the framework's code gets: all of it that this code may read."""
        if id(module) in self._modules:
            return
        self._modules.add(id(module))
        kind = type(module)
        self._kind(module)
        for name in ("forward", "__call__"):
            self._type_entry(kind, name, lookup(kind, name))
        space = own_dict(module) or {}
        if is_framework(kind.__module__):
            self._note(Guard.DICT_ITEMS, module, tuple(space.items()))
            values: Iterable[Any] = list(space.values())
        else:
            names = _names_of(kind)  # type: ignore[arg-type]
            for name in names:
                self._own_entry(module, name)
                self._type_entry(kind, name, lookup(kind, name))
            values = [space[name] for name in names if name in space]
        for value in values:
            if not self._is_module(value):
                self._contents(value, 1)

    def _warns(self) -> None:
        """A filter makes it an error."""
        self._note(Guard.RESULT, _warning_settings, (_warning_settings(),))

    def _computes_with_numpy(self) -> None:
        self._note(Guard.RESULT, _numpy_settings, (_numpy_settings(),))

    def _dict_item(self, container: dict[Any, Any], key: Any) -> None:
        if type(container).__getitem__ is not dict.__getitem__ and not isinstance(
            container, (collections.OrderedDict, collections.defaultdict, collections.Counter)
        ):
            return  # the user's: it is seen to run
        self._kind(container)
        if not is_plain(key):
            self._contents(container)
            self._contents(key)
            self._key(key)
            return
        if key in container:
            self._entry(container, key, container[key])
            return
        self._entry(container, key, ABSENT)
        if isinstance(container, collections.defaultdict):
            self._write(container, "makes an item of a defaultdict")

    def _operand(self, thing: Any) -> None:
        self._contents(thing)
        self._known(thing)

    def _known(self, thing: Any) -> None:
        """What an operator does with it must be known, or be seen to run."""
        kind = type(thing)
        if kind is decimal.Decimal:
            self._unwatched("it computes with decimals, whose context can't be watched")
        if (
            kind in IMMUTABLE
            or kind in PURE_TYPES
            or isinstance(thing, (tuple, frozenset, type, _C.Tensor, *CONTAINERS))
        ):
            self._kind(thing)
            return
        if is_framework(kind.__module__):
            return
        if is_numpy(thing):
            self._computes_with_numpy()
            return
        if isinstance(thing, (types.GeneratorType, types.FunctionType, types.MethodType, types.ModuleType)):
            return
        if kind.__flags__ & HEAP_TYPE:
            self._kind(thing)
            if all(map(_is_known, map(functools.partial(lookup, kind), SPECIAL))):
                return
        elif hasattr(kind, "__next__") or isinstance(thing, VIEWS):
            return
        self._unwatched(f"it uses a {kind.__name__}")

    def _identity(self, *things: Any) -> None:
        """Whether things are the same is asked for: of arguments programs don't compare that."""
        tensors = [thing for thing in things if isinstance(thing, _C.Tensor)]
        if len(tensors) == 2 and any(id(t) in self._tensors for t in tensors):
            for tensor in tensors:
                if id(tensor) not in self._tensors:
                    self._write(tensor, "asks whether an argument is a certain tensor,")
        if len(tensors) == 2 and any(map(is_gradient, tensors)):
            self._unwatched("it asks whether a gradient is a certain tensor")
        if any(id(thing) in self._given for thing in things) and all(
            isinstance(thing, (tuple, list, dict, set)) for thing in things
        ):
            self._unwatched("it asks whether a container among its arguments is a certain one")

    def _key(self, thing: Any) -> None:
        if isinstance(thing, _C.Tensor):
            self._unwatched("it looks for a tensor in a container")

    def _contents(self, thing: Any, depth: int = 0) -> None:
        kind = type(thing)
        if kind in _CALLS:
            self._unwatched(f"it hands a {kind.__name__} on")
        if kind in IMMUTABLE or kind is type:
            return
        if depth > MOST_DEPTH:
            self._unwatched(_DEEP)
        elif isinstance(thing, (list, set, frozenset, tuple, collections.deque)):
            if len(thing) > MOST_ITEMS:
                self._unwatched(f"it reads a {kind.__name__} of {len(thing):,} items")
                return
            items = tuple(thing)
            if not isinstance(thing, (tuple, frozenset)):
                self._note(Guard.ITEMS, thing, items)
            for item in items:
                self._contents(item, depth + 1)
        elif isinstance(thing, dict):
            if len(thing) > MOST_ITEMS:
                self._unwatched(f"it reads a {kind.__name__} of {len(thing):,} items")
                return
            if isinstance(thing, collections.OrderedDict) and dict.__len__(thing) > 1:  # it has an order of its own
                self._note(Guard.ITEMS, thing, tuple(thing))
            if not self._handed:
                self._read.add(id(thing))
            self._note(Guard.DICT_ITEMS, thing, tuple(dict.items(thing)))
            for item in (*dict.keys(thing), *dict.values(thing)):
                self._contents(item, depth + 1)
        elif isinstance(thing, VIEWS):
            for inner in gc.get_referents(thing):
                self._contents(inner, depth)
        elif isinstance(thing, _C.Tensor):
            if id(thing) not in self._tensors:
                self._note(Guard.LAYOUT, thing, ())
        elif kind.__name__ == "ndarray" or isinstance(thing, (*CONTAINERS, memoryview)):
            self._bytes(thing)
        elif isinstance(thing, types.SimpleNamespace):
            self._instance_items(thing)
        elif isinstance(thing, BaseException):  # its text
            self._kind(thing)
            arguments = lookup(BaseException, "args")
            self._note(Guard.SLOT, thing, (arguments, thing.args), id(arguments))
            for member in _members_of(kind):  # type: ignore[arg-type]
                value = member.__get__(thing, kind) if slot_is_set(member, thing) else ABSENT
                self._note(Guard.SLOT, thing, (member, value), id(member))
                self._contents(value, depth + 1)
            self._contents(thing.args, depth + 1)
        elif isinstance(thing, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            known = thing.__objclass__ in IMMUTABLE or thing.__objclass__ in (tuple, frozenset)
            if not known or thing in (str.format, str.format_map):  # whose templates read attributes
                self._unwatched(f"it hands {thing.__objclass__.__name__}.{thing.__name__} on")
        elif isinstance(thing, types.BuiltinFunctionType):
            self._passed(thing)
        elif isinstance(thing, functools.partial):
            for name in ("func", "args", "keywords"):
                descriptor = lookup(functools.partial, name)
                self._note(Guard.SLOT, thing, (descriptor, getattr(thing, name)), id(descriptor))
            self._contents(thing.args, depth + 1)
            self._contents(thing.keywords, depth + 1)
            self._contents(thing.func, depth + 1)
        elif hasattr(kind, "__next__") and (is_framework(kind.__module__) or not in_python(lookup(kind, "__next__"))):
            self._write(thing, "takes items from an iterator that was there before")
        elif self._is_module(thing):
            if depth <= 1:
                self._module(thing)
        elif isinstance(thing, types.MethodType):
            if is_framework(getattr(thing.__func__, "__module__", None)):  # it is not seen to be called
                owner = thing.__self__
                self._derived(owner) if isinstance(owner, type) else self._contents(owner, depth)
        elif isinstance(thing, (type, types.FunctionType, types.ModuleType)):
            return
        elif is_framework(kind.__module__) and kind.__flags__ & HEAP_TYPE:
            self._instance_items(thing)
        elif not is_framework(kind.__module__):
            self._kind(thing)
            if any(is_framework(base.__module__) for base in kind.__mro__):  # whose methods are not seen to run
                self._derived(kind)
                self._instance_items(thing)
            if callable(thing) and not in_python(lookup(kind, "__call__")) and not is_numpy(thing):
                self._unwatched(f"it hands a {kind.__name__} on")
            elif _has_bytes(thing):
                self._bytes(thing)

    def _handed_on(self, thing: Any) -> None:
        """The contents of what is handed on to code that reads numbers of optimizers at each call, or item by item."""
        before, self._handed = self._handed, True
        try:
            self._contents(thing)
        finally:
            self._handed = before

    def _attributes(self, thing: Any, depth: int = 0) -> None:
        """What code that is not seen to run may read of objects of the user's, in containers and in data classes."""
        kind = type(thing)
        items: Iterable[Any] = ()
        if isinstance(thing, (list, tuple)):
            items = tuple(thing)
        elif isinstance(thing, dict):
            items = tuple(dict.values(thing))
        elif (
            kind.__flags__ & HEAP_TYPE
            and not isinstance(thing, (type, _C.Tensor))
            and not is_framework(kind.__module__)
            and not is_numpy(thing)
            and not self._is_module(thing)
        ):
            self._kind(thing)
            self._derived(kind)
            self._instance_items(thing)
            slots: list[Any] = []
            for base in kind.__mro__:
                for found in base.__dict__.values():
                    if isinstance(found, types.MemberDescriptorType) and base.__flags__ & HEAP_TYPE:
                        value = found.__get__(thing, kind) if slot_is_set(found, thing) else ABSENT
                        self._note(Guard.SLOT, thing, (found, value), id(found))
                        slots.append(value)
            if "__dataclass_fields__" in vars(kind):
                items = (*(own_dict(thing) or {}).values(), *slots)
        for item in items if depth < MOST_DEPTH else ():
            self._attributes(item, depth + 1)
        if items and depth >= MOST_DEPTH:
            self._unwatched(_DEEP)

    def _settings_of(self, code: types.CodeType, space: dict[str, Any]) -> None:
        """Note the settings that code of the framework's touches, which begins to run."""
        for module, path in named_by(code, space):
            owner, name, value = value_of(module, path)
            parts = parts_of(module, path)
            if parts is not None:
                self._owners[id(parts)] = parts, owner  # it may be made only now
                self._note(Guard.RESULT, parts, (parts(),))
                continue
            present = value if name in vars(owner) else ABSENT
            if isinstance(owner, types.ModuleType):
                self._entry(vars(owner), name, present)
            elif isinstance(owner, type):
                self._type_entry(owner, name, present)
            else:
                self._own_entry(owner, name)
            self._setting_parts(value)

    def _setting_parts(self, value: Any, depth: int = 0) -> None:
        """What registries and stacks hold; what is in them is not changed, but replaced."""
        if isinstance(value, (list, set)):
            self._note(Guard.ITEMS, value, tuple(value))
        elif isinstance(value, dict):
            self._note(Guard.DICT_ITEMS, value, tuple(value.items()))
        elif depth == 0 and is_framework(type(value).__module__) and (own := own_dict(value)) is not None:
            self._owners[id(own)] = own, value
            self._note(Guard.DICT_ITEMS, own, tuple(own.items()))
            for part in own.values():
                self._setting_parts(part, 1)

    def _derived(self, kind: type) -> None:
        """What the framework's code may read of a class of the user's that is derived of one of its own."""
        if is_framework(kind.__module__) or not any(is_framework(base.__module__) for base in kind.__mro__):
            return
        if issubclass(kind, _C.Tensor) or (self._module_type is not None and issubclass(kind, self._module_type)):
            return
        self._bases(kind)
        for name in dict.fromkeys(name for base in kind.__mro__ if base is not object for name in vars(base)):
            self._type_entry(kind, name, lookup(kind, name))

    def _length(self, thing: Any) -> None:
        self._known(thing)
        if type(thing) in (list, dict, set, collections.deque, collections.OrderedDict, bytearray):
            self._note(Guard.LENGTH, thing, (len(thing),))
        else:
            self._contents(thing)

    def _bytes(self, array: Any) -> None:
        if _C.wrote_shared() and self._refusal is None:
            self._refusal = self._refused()
            return
        with memoryview(array) as view:
            if view.nbytes > _MOST_BYTES or "O" in view.format or not view.contiguous:
                self._unwatched(f"it reads a {type(array).__name__} that is too large or not contiguous")
                return
            self._note(Guard.BYTES, array, (view.tobytes("A"),))
        self._note(Guard.TYPE_OF, array, (type(array),))
        if hasattr(array, "dtype"):
            self._shapes(array)

    def _shapes(self, array: Any) -> None:
        for name in ("shape", "dtype", "strides"):
            descriptor = lookup(type(array), name)
            self._note(Guard.SLOT, array, (descriptor, getattr(array, name)), id(descriptor))


def _is_known(found: Any) -> bool:
    """Whether a method is seen to run, or is of a type that is known."""
    owner = getattr(found, "__objclass__", None)
    if owner is None:
        owner = getattr(found, "__self__", None) if isinstance(found, types.BuiltinFunctionType) else None
    return owner is None or owner in _OWNERS or not isinstance(owner, type) or is_framework(owner.__module__)


def _has_bytes(thing: Any) -> bool:
    try:
        memoryview(thing).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


@functools.cache
def _members_of(kind: Any) -> tuple[Any, ...]:
    """What exceptions of Python's own have beside their arguments, such as a file's name or a line."""
    bases = [base for base in kind.__mro__ if base is not BaseException and not base.__flags__ & HEAP_TYPE]
    return tuple(found for base in bases for found in vars(base).values() if type(found) is types.MemberDescriptorType)


@functools.cache
def _names_of(kind: Any) -> tuple[str, ...]:
    """Of an object of the user's, the attributes that the framework's classes below its own read."""
    names: set[str] = {"forward", *_MODULE_NAMES}
    for base in kind.__mro__:
        if is_framework(base.__module__):
            for found in vars(base).values():
                if in_python(found):
                    names.update(found.__code__.co_names)
    return tuple(sorted(names - {"__dict__"}))
