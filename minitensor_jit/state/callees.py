"""What calls depend on, and what they change, of functions that are not seen to run."""

from __future__ import annotations

import _abc
import datetime
import decimal
import functools
import operator
import re
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from minitensor import _C
from minitensor_jit.state.calls import (
    BINDING_ONLY,
    CONTAINERS,
    IMMUTABLE,
    MUTATORS,
    PURE_TYPES,
    changes_first,
    is_framework,
    is_numpy,
    is_pure,
)
from minitensor_jit.state.notes import ABSENT, VIEWS, Guard, in_python, is_finalized, is_gradient, is_plain, lookup
from minitensor_jit.state.texts import TextReads, makes_text

__all__ = ["Callees"]

# What is asked of classes, or which of two things are the same, is noted for each call.
_ASKING = frozenset(
    {isinstance, issubclass, operator.is_, operator.is_not, operator.contains, operator.countOf, operator.indexOf}
)

_HEAP_TYPE = 1 << 9
_SETTINGS = frozenset(
    {"load", "save", "seed", "manual_seed", "fork_rng", "get_rng_state", "initial_seed", "get_num_threads",
     "use_deterministic_algorithms", "enable_grad_mode", "are_deterministic_algorithms_enabled",
     "is_deterministic_algorithms_warn_only_enabled", "get_deterministic_debug_mode", "get_num_interop_threads",
     "is_warn_always_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled"}
)  # fmt: skip


# Of a tensor: what they put on it is there at the next call, too.
_HOOKS = frozenset({"register_hook", "register_post_accumulate_grad_hook", "retain_grad"})
# They read the numbers of an optimizer's groups as the program does, at each call, or not at all.
_BINDING = frozenset({"step", "zero_grad", "unscale_", "bound_number"})
_HANDING = frozenset({enumerate, zip, list, tuple, reversed})
_READERS = frozenset({"len", "iter", "sum", "sorted", "any", "all", "repr", "format", "ascii", "abs", "round"})
_LOOKUPS = frozenset(
    {"get", "pop", "setdefault", "__contains__", "__getitem__", "index", "count", "remove", "discard", "add"}
)  # fmt: skip
_DECIMALS = ("decimal", "_decimal", "_pydecimal")
# Of classes: what gives something else at another time, or where more has been imported or defined.
_VARYING = frozenset({"now", "today", "utcnow", "fromtimestamp", "__subclasses__", "__dir__", "__sizeof__"})
_CLOCK = frozenset({"now", "today"})  # as NumPy's dates
_TEXTS = frozenset({"__repr__", "__str__", "__format__"})
_DIGITS = re.compile(r"[+-]?\d{1,300}(\.\d{0,300})?", re.ASCII)


def _is_exact(thing: Any) -> bool:
    """Whether a decimal is made of it whatever its context says."""
    return isinstance(thing, (int, decimal.Decimal)) or (isinstance(thing, str) and bool(_DIGITS.fullmatch(thing)))


def _flat(things: Iterable[Any]) -> Iterator[Any]:
    for thing in things:
        if isinstance(thing, (list, tuple)):
            yield from _flat(thing)
        else:
            yield thing


class Callees(TextReads):
    """Notes of what is called."""

    # ---- calls

    def _passed(self, function: Any) -> None:
        if function in _ASKING:
            self._unwatched(f"it hands {function.__name__} on")
        if not is_pure(function) and not isinstance(function.__self__, (type(None), types.ModuleType)):
            self._method(function.__self__, function.__name__, ())
        elif not is_pure(function) and not is_numpy(function) and not is_framework(function.__module__):
            self._unwatched(f"it hands {function.__name__} on")

    def _call(self, function: Any, args: tuple[Any, ...]) -> None:
        kind = type(function)
        if kind is types.FunctionType:
            if is_framework(function.__module__):
                self._framework(function.__name__, args)
            elif function.__module__ in ("importlib", "importlib._bootstrap"):
                self._imports_module(args)
        elif kind is types.MethodType:
            self._call(function.__func__, (function.__self__, *args))
        elif isinstance(function, type):
            self._constructs(function, args)
        elif isinstance(function, functools.partial):
            self._contents(function)
            self._call(function.func, (*function.args, *args))
        elif kind is types.BuiltinFunctionType:
            owner = function.__self__
            if is_framework(function.__module__) or is_framework(type(owner).__module__):
                self._framework(function.__name__, args)
            elif owner is None or isinstance(owner, types.ModuleType):
                self._builtin(function, args)
            else:
                self._method(owner, function.__name__, args)
        elif kind in (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType):
            if args:
                self._method(args[0], function.__name__, args[1:])
        elif kind is types.MethodWrapperType:
            self._method(function.__self__, function.__name__, args)
        elif is_framework(kind.__module__) or self._is_module(function):
            if self._is_module(function):
                self._module(function)
            else:
                self._contents(function)
            self._framework(getattr(function, "__name__", kind.__name__), args)
        elif is_numpy(function):
            self._numpy(getattr(function, "__name__", ""), args)
        elif kind.__name__ == "attrgetter":
            for name in function.__reduce__()[1]:
                if "." in name:
                    self._unwatched("it calls an attrgetter of several parts")
                self._attribute(args[0], name)
        elif kind.__name__ == "itemgetter":
            self._contents(args)
        elif in_python(found := lookup(kind, "__call__")):
            self._kind(function)
            self._type_entry(kind, "__call__", found)
        else:
            self._unwatched(f"it calls a {kind.__name__}")

    def _builtin(self, function: Any, args: tuple[Any, ...]) -> None:
        name = function.__name__
        if function is isinstance or function is issubclass:
            self._is_a(*args)
        elif function in BINDING_ONLY:
            for thing in args if function is not print else ():
                self._kind(thing)
        elif function is operator.is_ or function is operator.is_not:
            self._identity(*args)
        elif function is operator.contains:
            self._operand(args[0])
            self._key(args[1])
        elif function.__module__ == "_abc":
            if name == "_abc_init":
                return
            if name not in ("_abc_instancecheck", "_abc_subclasscheck"):
                self._unwatched(f"it calls {name}")
            self._is_a(args[1], args[0])
            self._note(Guard.RESULT, _abc.get_cache_token, (_abc.get_cache_token(),))
        elif function.__module__ == "_warnings" and name in ("warn", "warn_explicit"):
            self._warns()
        elif name == "pack_into":
            self._write(args[1], f"changes a {type(args[1]).__name__}")
        elif function is getattr or function is hasattr:
            if isinstance(args[1], str):
                self._attribute(args[0], args[1])
        elif function is setattr or function is delattr:
            if isinstance(args[1], str):
                self._changes_attribute(args[0], args[1])
        elif function is next:
            kind = type(args[0])  # the framework's own code isn't seen to run
            if is_framework(kind.__module__) or not in_python(lookup(kind, "__next__")):
                self._write(args[0], "takes items from an iterator that was there before")
        elif function is len:
            self._length(args[0])
        elif name == "__build_class__":
            self._makes_class(args[2:])
        elif function is vars and args:
            self._instance_items(args[0])
        elif function is hash and is_plain(args[0]):
            return
        elif function is id and id(args[0]) not in self._tensors | self._given and not is_plain(args[0]):
            if is_gradient(args[0]):
                self._unwatched("it asks whether a gradient is a certain tensor")
            self._named.append(args[0])
        elif function is weakref.proxy:
            self._unwatched("it makes a weak reference")
        elif is_pure(function):
            if type(args[0] if args else None) not in IMMUTABLE and name in _READERS:
                self._known(args[0])
            if changes_first(function):
                self._changes_contents(args[0])
            for thing in args:
                self._contents(thing)
            if name in ("repr", "ascii", "format"):
                self._by_format(args[0], args[1] if name == "format" and len(args) > 1 else "")
            elif makes_text(args):
                self._text(args)
        elif is_numpy(function):
            self._numpy(name, args)
        else:
            module = function.__module__
            self._unwatched(
                f"it calls {module + '.' if module else ''}{name}, and what that depends on can't be watched"
            )

    def _numpy(self, name: str, args: tuple[Any, ...]) -> None:
        self._computes_with_numpy()
        for thing in args:
            self._contents(thing)
        if name in ("copyto", "place", "put", "putmask", "fill_diagonal", "shuffle", "at"):
            self._write(args[0], "changes an ndarray")
        elif name in ("fromfile", "load", "loadtxt", "genfromtxt", "save", "memmap", "getbufsize"):
            self._unwatched(f"it calls numpy.{name}")
        if any(isinstance(thing, str) and thing in _CLOCK for thing in _flat(args)):
            self._unwatched(f"it calls numpy.{name} with the clock")

    def _method(self, owner: Any, name: str, args: tuple[Any, ...]) -> None:
        kind = type(owner)
        if isinstance(owner, _C.Tensor) or is_framework(kind.__module__):
            self._framework(name, (owner, *args) if not isinstance(owner, _C.Tensor) else args)
            return
        if name == "__call__" and self._is_module(owner):
            self._module(owner)
            self._framework(name, args)
            return
        if name == "__getattribute__" and args and isinstance(args[0], str):
            self._attribute(owner, args[0])
            return
        if name in ("__setattr__", "__delattr__") and args and isinstance(args[0], str):
            self._changes_attribute(owner, args[0])
            return
        if isinstance(owner, type):
            self._of_class(owner, name, args)
            return
        if kind.__module__ in _DECIMALS:
            self._unwatched(f"it calls {kind.__name__}.{name}, which depends on a context that can't be watched")
        if isinstance(owner, str) and name in ("format", "format_map"):
            self._formats(owner, args if name == "format" else ())
            self._text(args)
        if isinstance(owner, (*CONTAINERS, tuple, frozenset)) and name in _LOOKUPS and args:
            self._key(args[0])
        if isinstance(owner, CONTAINERS) or kind.__name__ == "ndarray":
            self._kind(owner)
            if (
                isinstance(owner, dict)
                and name in ("get", "__getitem__", "__contains__")
                and is_plain(args[0] if args else ())
            ):
                self._dict_item(owner, args[0]) if name == "__getitem__" else self._entry(
                    owner, args[0], dict.get(owner, args[0], ABSENT)
                )
                return
            if name in MUTATORS:
                self._changes_contents(owner)
            elif name in ("tofile", "dump"):
                self._unwatched(f"it calls {kind.__name__}.{name}")
            elif name != "__init__":
                self._contents(owner)
            self._contents(args)
            return
        if name in ("__next__", "send", "throw", "close") and not in_python(lookup(kind, name)):
            self._write(owner, "takes items from an iterator that was there before")
            return
        if kind.__name__ in ("RLock", "lock") and name in ("__enter__", "__exit__", "acquire", "release"):
            return
        if name.startswith("__reduce") or name == "__getstate__":
            self._unwatched("it copies or pickles an object")
            return
        if name in _VARYING and lookup(object, name) is not ABSENT:
            self._unwatched(f"it calls {kind.__name__}.{name}")
        elif name in _TEXTS:
            self._text(owner)
        elif name in ("__mod__", "__rmod__"):
            self._text(args)
        if isinstance(owner, (datetime.date, datetime.time)):
            self._of_date(owner, name, args)
        plain = kind in IMMUTABLE or isinstance(owner, (tuple, frozenset, str, int, float, *VIEWS, BaseException))
        found = lookup(object, name)
        if plain or is_numpy(owner) or (found is not ABSENT and lookup(kind, name) is found):
            self._contents(owner)
            self._contents(args)
            return
        if kind in PURE_TYPES:
            self._contents(owner)
            self._contents(args)
            return
        self._unwatched(f"it calls {kind.__name__}.{name}, and what that depends on can't be watched")

    def _constructs(self, kind: type, args: tuple[Any, ...]) -> None:
        if self._notices_ends(kind):
            return
        self._kind(kind)
        if kind is type and len(args) == 1:
            self._kind(args[0])
            return
        if kind is bool and args:
            self._length(args[0])
            return
        if kind in PURE_TYPES or issubclass(kind, BaseException) or kind.__module__ == "itertools":
            if kind.__flags__ & _HEAP_TYPE:
                self._special(kind)
            for thing in args:
                self._handed_on(thing) if kind in _HANDING and type(thing) in (list, tuple) else self._contents(thing)
            if kind is str or makes_text(args):
                self._text(args)
            elif kind is int and args:
                self._number(args[0])
            elif kind is type:
                self._makes_class(args[1:])
            elif kind is decimal.Decimal and not all(map(_is_exact, args)):
                self._unwatched("it makes a Decimal, and what that depends on can't be watched")
            return
        if issubclass(kind, type):
            self._makes_class(args[1:])
        if is_framework(kind.__module__):
            self._framework(kind.__name__, args)
        elif is_numpy(kind):
            self._numpy(kind.__name__, args)
        elif kind.__flags__ & _HEAP_TYPE:
            for name in ("__new__", "__init__"):
                self._type_entry(kind, name, lookup(kind, name))
            self._derived(kind)
            new = lookup(kind, "__new__")
            if not isinstance(new, (staticmethod, types.FunctionType)) and new is not object.__new__:
                base = getattr(new, "__self__", None)
                if base not in PURE_TYPES and not (isinstance(base, type) and is_framework(base.__module__)):
                    self._unwatched(f"it makes a {kind.__name__}")
                for thing in args:
                    self._contents(thing)
        else:
            self._unwatched(f"it makes a {kind.__name__}")

    def _notices_ends(self, kind: type) -> bool:
        """Whether something is made that sees when objects go; those that are noted would go later."""
        if issubclass(kind, weakref.ref):
            self._unwatched("it makes a weak reference")
        elif is_finalized(kind):
            self._unwatched(f"it makes a {kind.__name__}, which has a finalizer")
        else:
            return False
        return True

    def _of_class(self, kind: type, name: str, args: tuple[Any, ...]) -> None:
        """A method of a class is called that is not in Python."""
        self._contents(args)
        if name in _VARYING:
            self._unwatched(f"it calls {kind.__name__}.{name}")
        elif name == "mro":
            self._bases(kind)
        elif name in ("__instancecheck__", "__subclasscheck__") and args:
            self._is_a(args[0], kind)
        elif name == "__call__":
            self._constructs(kind, args)
        elif name in _TEXTS:
            self._text(kind)
        else:
            self._special(kind)  # it may make one of the class, as `fromkeys` does
            if issubclass(kind, int):
                self._number(args[0] if args else None)

    def _makes_class(self, things: tuple[Any, ...]) -> None:
        """A class is made: of bases, by a metaclass, with what its names stand for."""
        for thing in things:
            if isinstance(thing, tuple):
                self._makes_class(thing)
            elif isinstance(thing, dict):
                for value in tuple(dict.values(thing)):
                    self._kind(value)
            else:
                self._kind(thing)
                if isinstance(thing, type):
                    self._special(thing)
                    self._bases(thing)
                else:
                    self._attribute(thing, "__mro_entries__")

    def _imports_module(self, args: tuple[Any, ...]) -> None:
        name = args[0] if args else None
        if not isinstance(name, str) or name not in sys.modules or any(args[1:]):
            self._unwatched("it imports a module")
        else:
            self._imported.append(name)

    def _framework(self, name: str, args: tuple[Any, ...]) -> None:
        setting = name in _SETTINGS or (name.startswith("set_") and name not in ("set_", "set_grad_enabled"))
        if setting and not (args and isinstance(args[0], _C.Tensor)):
            self._unwatched(f"it calls {name}")
        if name in ("__setattr__", "__delattr__") and len(args) > 1 and isinstance(args[1], str):
            self._changes_attribute(args[0], args[1])
        if name == "__next__" and args:
            self._write(args[0], "takes items from an iterator that was there before")
        if name in _HOOKS and args and isinstance(args[0], _C.Tensor):
            self._write(args[0], "puts a hook on a tensor that was there before")
        for thing in args:
            self._handed_on(thing) if name in _BINDING else self._contents(thing)
            self._attributes(thing)
            if isinstance(thing, type):
                self._derived(thing)
