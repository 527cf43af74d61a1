"""Locks that a fork waits for.

A child has the forking thread alone: a lock that another thread held would be held there for ever, over something half
done. So a fork takes all of these first, in whatever order others take them, and lets go of them in both processes. It
waits for modules that others import, too: Python leaves those locked in the child. Modules are imported when they are
needed here, so forks wait for that from the first import on, and locks that others took nevertheless are none in the
child.
"""

from __future__ import annotations

import _frozen_importlib
import _imp
import functools
import os
import sys
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

__all__ = ["in_child", "lock"]

if TYPE_CHECKING:
    from collections.abc import Callable

_locks: dict[int, weakref.ref[Any]] = {}
_module_locks: dict[str, Any] = getattr(_frozen_importlib, "_module_locks")  # noqa: B009  Python's own


class _Thread(threading.local):
    def __init__(self) -> None:
        self.forks: list[tuple[list[Any], list[Any]]] = []
        """What they hold, and what they could not wait for: a handler may fork in the middle of a fork."""
        self.begun = 0
        """How many have held it all in `_hold_first`."""


_mine = _Thread()


def lock() -> Any:
    """A lock that its thread may take again: a signal's handler may fork where it is held."""
    _register()
    made = threading.RLock()
    # No callbacks of references: an exception from outside that comes in one is lost.
    if len(_locks) >= 64 and not len(_locks) & (len(_locks) - 1):
        for key, known in list(_locks.items()):
            if known() is None:
                _locks.pop(key, None)
    reference = weakref.ref(made)
    _locks[id(reference)] = reference
    return made


def in_child(forget: Callable[[], object]) -> None:
    """Have it called in every child: what other threads did is forgotten."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def _all() -> list[Any]:
    return [made for known in list(_locks.values()) if (made := known()) is not None]


def _imports() -> list[Any]:
    """The locks of the modules that other threads are importing."""
    known = [lock for reference in list(_module_locks.values()) if (lock := reference()) is not None]
    return [lock for lock in known if lock.owner not in (None, threading.get_ident())]


_MOMENT, _PATIENCE = 0.02, 60.0


def _hold() -> None:
    held: list[Any] = []
    # Who has a lock may want any of those that are held here: it is waited for a moment, then first, with none held. A
    # handler's thread holds some already; those that it can't have are made anew in the child.
    may_wait = not any(made._is_owned() for made in _all())
    wanted: Any = None
    while True:
        if wanted is not None:
            if wanted.acquire(timeout=_PATIENCE):
                held.append(wanted)
            else:
                may_wait = False
        wanted, missing = None, []
        for made in _all():  # also those that were made since
            if any(made is other for other in held):
                continue
            if made.acquire(timeout=_MOMENT if may_wait else 0):
                held.append(made)
            elif may_wait:
                wanted = made
                break
            else:
                missing.append(made)
        # No other thread begins to import anything from here on.
        _imp.acquire_lock()
        importing = _imports() if may_wait and wanted is None else []
        if wanted is None and not importing:
            break
        _imp.release_lock()
        while held:
            held.pop().release()
        for module in importing[:1]:
            with suppress(RuntimeError):  # it waits for what this thread imports: neither can
                module.acquire()
                module.release()
                continue
            may_wait = False
    _mine.forks.append(([*held, _Imports()], missing))


class _Imports:
    release = staticmethod(_imp.release_lock)


def _hold_first() -> None:
    _hold()
    _mine.begun += 1


def _hold_last() -> None:
    if _mine.begun:
        _mine.begun -= 1
    else:  # the first lock was made since this fork began, if any was
        _hold()


def _release() -> None:
    held, _ = _mine.forks.pop() if _mine.forks else ([], [])  # a fork that began before this was registered
    for made in held:
        made.release()


def _release_in_child() -> None:
    for made in _mine.forks[-1][1] if _mine.forks else ():
        made._at_fork_reinit()
    _release()
    # What others were importing nevertheless is imported anew.
    gone = _imports()
    for name, reference in list(_module_locks.items()):
        if any(reference() is lock for lock in gone):
            _module_locks.pop(name, None)
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]


@functools.cache
def _register() -> None:
    """After `logging` has, whose lock those that hold ours may want: who registers last holds first."""
    import logging  # noqa: F401

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold_first)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_last, after_in_parent=_release, after_in_child=_release_in_child)
