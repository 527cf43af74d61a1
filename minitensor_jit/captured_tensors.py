"""Whether a function reaches tensors of its arguments by itself as well: by its closure, globals, defaults or object.

In what is recorded of a call `f(w)` where `f` also reads `w` from outside, the two can't be told apart. A later call
with another argument has to, so of such a call no program may be kept.
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


def reaches(fn: Any, tensors: Sequence[Any]) -> bool:
    """Whether one of the tensors, or one that shows the same memory in the same way, can be reached from a function.

    Also true if the function reaches too many objects to tell.
    """
    wanted = {_shown(t) for t in tensors}
    if not wanted:
        return False
    seen: set[int] = set()
    # Objects that are made on the way have to stay until the end: ids are used again.
    alive: list[Any] = [fn]
    for found in alive:
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, _C.Tensor):
            if _shown(found) in wanted:
                return True
            continue
        alive.extend(one for one in _inside(found) if not isinstance(one, _PLAIN))
        if len(alive) > _MOST:
            return True
    return False


def _shown(tensor: Any) -> tuple[Any, ...]:
    return tensor._storage_id(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


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
        if (found.__module__ or "").partition(".")[0] == "minitensor":
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
        yield vars(type(found)).get("__call__")


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
