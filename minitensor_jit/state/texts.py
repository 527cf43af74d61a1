"""What texts depend on: of objects, the names in them that Python itself puts there; of numbers and dates, settings."""

from __future__ import annotations

import _string
import collections
import datetime
import functools
import gc
import sys
import types
from collections.abc import Iterable
from typing import Any

from minitensor_jit.state.attributes import AttributeReads
from minitensor_jit.state.calls import IMMUTABLE, is_framework, is_numpy
from minitensor_jit.state.classes import HEAP_TYPE
from minitensor_jit.state.contents import MOST_DEPTH, MOST_ITEMS
from minitensor_jit.state.notes import ABSENT, VIEWS, Guard, in_python, lookup

__all__ = ["TextReads", "makes_text"]

_MAKERS = (str, repr, ascii, format)
_DATES = (datetime.date, datetime.time)  # a datetime is a date
# Shorter numbers are converted whatever `sys.set_int_max_str_digits` allows.
_FREE_DIGITS = sys.int_info.str_digits_check_threshold
_LONG = 10**_FREE_DIGITS
_NAMES = tuple(type.__dict__[name] for name in ("__qualname__", "__name__"))
_FUNCTION_NAME = types.FunctionType.__dict__["__qualname__"]


def makes_text(things: Iterable[Any]) -> bool:
    """Whether a function that makes texts is among what is handed on."""
    return any(thing is maker for thing in things for maker in _MAKERS)


def _numpy_texts() -> tuple[Any, ...]:
    """How NumPy writes its numbers."""
    return tuple(sys.modules["numpy"].get_printoptions().values())


def _fields(template: str) -> list[Any]:
    try:
        return list(_string.formatter_parser(template))
    except ValueError:  # which formatting raises, too
        return []


class TextReads(AttributeReads):
    """Notes of what texts of objects are made of."""

    def _text(self, thing: Any, depth: int = 0) -> None:
        """A text of a thing is made, whose contents are noted already."""
        kind = type(thing)
        if kind is int:
            self._digits(abs(thing) >= _LONG)
        if kind in IMMUTABLE or depth > MOST_DEPTH:
            return
        parts: Iterable[Any] = ()
        if isinstance(thing, type):
            self._names(thing)
        elif isinstance(thing, types.FunctionType):
            self._computed(thing, "__qualname__", _FUNCTION_NAME)
        elif isinstance(thing, types.MethodType):
            parts = thing.__func__, thing.__self__
        elif isinstance(thing, types.ModuleType):
            for name in ("__spec__", "__name__", "__loader__", "__file__"):
                self._entry(vars(thing), name, vars(thing).get(name, ABSENT))
        elif isinstance(thing, (list, tuple, set, frozenset, collections.deque)):
            parts = tuple(thing)[:MOST_ITEMS]
        elif isinstance(thing, dict):
            parts = (*dict.keys(thing), *dict.values(thing))[:MOST_ITEMS]
        elif isinstance(thing, VIEWS):
            parts = gc.get_referents(thing)
        elif isinstance(thing, functools.partial):
            parts = thing.func, thing.args, thing.keywords
        elif isinstance(thing, BaseException):
            parts = (thing.args,)
        elif isinstance(thing, types.SimpleNamespace):
            parts = tuple(vars(thing).values())
        elif isinstance(thing, types.GenericAlias):
            parts = thing.__origin__, thing.__args__
        elif isinstance(thing, types.UnionType):
            parts = thing.__args__
        elif isinstance(thing, (staticmethod, classmethod)):
            parts = (thing.__func__,)
        maker = lookup(kind, "__repr__")
        if not isinstance(thing, type) and (not in_python(maker) or is_framework(maker.__module__)):
            self._names(kind)
        if self._is_module(thing):
            parts = thing.children()
        elif is_numpy(thing):
            self._note(Guard.RESULT, _numpy_texts, (_numpy_texts(),))
        for part in parts:
            self._text(part, depth + 1)

    def _names(self, kind: type) -> None:
        if kind.__flags__ & HEAP_TYPE:
            for descriptor in _NAMES:
                self._note(Guard.SLOT, kind, (descriptor, descriptor.__get__(kind)), id(descriptor))
            self._type_entry(kind, "__module__", lookup(kind, "__module__"))

    def _digits(self, many: bool) -> None:
        """A number of that many digits becomes a text, or the reverse: a setting may forbid it."""
        if many:
            self._note(Guard.RESULT, sys.get_int_max_str_digits, (sys.get_int_max_str_digits(),))

    def _number(self, text: Any) -> None:
        """A number is made of a text."""
        if isinstance(text, (str, bytes, bytearray)):
            self._digits(len(text) > _FREE_DIGITS)

    def _by_format(self, thing: Any, spec: Any) -> None:
        """A text of a thing is made as a format says."""
        self._text(thing)
        if isinstance(spec, str) and spec and (spec.endswith("n") or isinstance(thing, _DATES)):
            self._unwatched("it formats by the locale, which can't be watched")

    def _of_date(self, date: Any, name: str, args: tuple[Any, ...]) -> None:
        """A method of a date or a time is called: what a naive one means is the time zone's."""
        aware = getattr(date, "tzinfo", None) is not None
        if name in ("strftime", "__format__") or (
            name in ("timestamp", "astimezone") and not (aware and (args or name == "timestamp"))
        ):
            self._unwatched(f"it calls {type(date).__name__}.{name}, which depends on the locale or the time zone")

    def _formats(self, template: str, args: tuple[Any, ...]) -> None:
        """What a template reads of what it is filled with: a part of each is watched, not parts of parts."""
        for _, field, spec, _ in _fields(template):
            if field is None:
                continue
            first, rest = _string.formatter_field_name_split(field)
            steps = tuple(rest)
            if spec:
                self._formats(spec, args)
                for thing in args or (None,):
                    self._by_format(thing, spec)
            if len(steps) > 1 or (steps and not args):
                self._unwatched("it formats what is in parts of its arguments")
            elif steps and steps[0][0]:
                # Of what is named, or numbered by its place, it may be each.
                for thing in args[first : first + 1] if isinstance(first, int) else args:
                    self._attribute(thing, steps[0][1])
