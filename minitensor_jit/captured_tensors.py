"""Whether a function reaches a tensor of its arguments by itself as well: by its closure, globals, defaults or object.

In what is recorded of a call `f(w)` where `f` also reads `w` from outside, the two can't be told apart. A later call
with another argument has to, so of such a call no program may be kept. (Another tensor over the memory of an argument
is found by the recorder, which sees what ops get.)
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from minitensor import _C

__all__ = ["reaches"]

_MOST = 20_000
"""Objects that are looked at; what a function reaches is rarely more than some hundred."""
_PLAIN = (str, bytes, int, float, complex, type(None), types.BuiltinFunctionType)
_BY_ANY_NAME = frozenset(
    {"getattr", "vars", "__dict__", "__getattribute__", "attrgetter", "methodcaller", "eval", "exec"}
)


def reaches(fn: Any, tensors: Sequence[Any]) -> bool:
    """Whether one of the tensors can be reached from a function. Also true if it reaches too many objects to tell."""
    wanted = {id(t) for t in tensors}
    seen: set[int] = set()
    # Objects that are made on the way have to stay until the end: ids are used again.
    alive: list[Any] = [fn]
    names: set[str] = set()
    kinds: dict[type, list[tuple[str, Any]]] = {}
    at = 0
    while at < len(alive):
        for found in alive[at:]:
            at += 1
            if id(found) in seen:
                continue
            seen.add(id(found))
            if isinstance(found, _C.Tensor):
                if id(found) in wanted:
                    return True
                continue
            if isinstance(found, types.FunctionType) and _is_users(found):
                names.update(_names(found.__code__))
            kind = found if isinstance(found, type) else type(found)
            if kind not in kinds:
                kinds[kind] = _methods(kind)
            alive.extend(one for one in _inside(found) if not isinstance(one, _PLAIN))
            if len(alive) > _MOST:
                return True
        # Methods run where code names them, and operators without a name. A framework calls what it pleases.
        for kind, methods in kinds.items():
            known = names.isdisjoint(_BY_ANY_NAME) and all(_is_users(base) for base in kind.__mro__[:-1])
            called = [one for one in methods if not known or one[0] in names or one[0].startswith("__")]
            alive.extend(method for _, method in called)
            kinds[kind] = [one for one in methods if one not in called]
    return False


def _is_users(found: Any) -> bool:
    return (found.__module__ or "").partition(".")[0] not in ("minitensor", "minitensor_jit", "builtins")


def _methods(kind: type) -> list[tuple[str, Any]]:
    """The functions among the attributes of a user's class and its bases."""
    found: list[tuple[str, Any]] = []
    for base in kind.__mro__:
        for name, one in vars(base).items() if _is_users(base) else ():
            if isinstance(one, property):
                one = one.fget
            elif isinstance(one, (classmethod, staticmethod)):
                one = one.__func__
            if isinstance(one, (types.FunctionType, functools.partialmethod, functools.cached_property)):
                found.append((name, one))
    return found


def _inside(found: Any) -> Iterator[Any]:
    """What an object leads to."""
    if isinstance(found, types.ModuleType):
        return
    if isinstance(found, type):
        yield from _attributes(found)
    elif isinstance(found, (list, tuple, set, frozenset, deque)):
        yield from found
    elif isinstance(found, dict):
        yield from found.values()
    elif isinstance(found, types.CellType):
        with contextlib.suppress(ValueError):  # it is empty
            yield found.cell_contents
    elif isinstance(found, types.FunctionType):
        if not _is_users(found):
            return
        closed = [value for cell in found.__closure__ or () for value in _inside(cell)]
        yield from closed
        yield from found.__defaults__ or ()
        yield from (found.__kwdefaults__ or {}).values()
        names = set(_names(found.__code__))
        # Of modules what the code names; they may be in modules that it names.
        spaces = [found.__globals__, *(vars(value) for value in closed if isinstance(value, types.ModuleType))]
        most = len(spaces) + len(names)
        for space in spaces:
            for name in names & space.keys():
                yield space[name]
                if isinstance(space[name], types.ModuleType) and len(spaces) < most:
                    spaces.append(vars(space[name]))
        yield found.__dict__
    elif isinstance(found, types.MethodType):
        yield found.__self__
        yield found.__func__
    elif isinstance(found, functools.partial):
        yield found.func
        yield found.args
        yield found.keywords
    else:
        yield getattr(found, "__dict__", None)
        for kind in type(found).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                yield getattr(found, name, None)
        yield from _attributes(type(found))


def _attributes(kind: type) -> Iterator[Any]:
    """Tensors and containers among the attributes of a class."""
    for base in kind.__mro__:
        yield from (one for one in vars(base).values() if isinstance(one, (_C.Tensor, list, tuple, dict)))


def _names(code: types.CodeType) -> Iterator[str]:
    """Of globals and attributes that code mentions, that of functions inside it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
