"""Shares the core's one profile: between whoever takes a profile, and a listener that sees all events meanwhile.

Beside the core's events a profile has ranges, parts of the program that have a name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from minitensor import _C
from minitensor._profile.step_stats import Event

__all__ = ["Range", "begin_range", "drain", "end_range", "end_watch", "note_ranges", "start", "stop", "watch"]


class Range(NamedTuple):
    """A part of the program that has a name; times are nanoseconds of the monotonic clock, as the core's are."""

    name: str
    start: int
    end: int
    thread: int


_ranges: list[Range] | None = None  # of the profile that is taken


def note_ranges(into: list[Range] | None) -> None:
    """Have ranges noted from here on; None ends it."""
    global _ranges
    _ranges = into


def begin_range() -> int:
    """What `end_range` needs to know of the beginning of a range; -1 where nobody takes a profile."""
    return time.monotonic_ns() if _ranges is not None else -1


def end_range(name: str, start: int) -> None:
    """Note a range that began then."""
    if start >= 0 and _ranges is not None:
        _ranges.append(Range(name, start, time.monotonic_ns(), threading.get_ident()))


Listener: TypeAlias = Callable[[list[Event]], None]

_listener: Listener | None = None
_taken: list[Event] | None = None
"""What the profile has that is taken beside the listener; None if there is none."""


def start() -> None:
    """Begin to take a profile; RuntimeError where another one is taken already."""
    global _taken
    if _listener is None:
        _C.start_profile()
        return
    if _taken is not None:
        raise RuntimeError("a profile is being taken already")
    drain()
    _taken = []


def stop() -> list[Event]:
    """End it; its events."""
    global _taken
    drain()
    events, _taken = _taken, None
    if _listener is None:
        return [*(events or ()), *_C.stop_profile()]
    if events is None:
        raise RuntimeError("no profile is being taken")
    return events


def watch(listener: Listener) -> bool:
    """Give a listener all events from here on, now and then; False where a profile is being taken."""
    global _listener
    if _listener is not None:
        return False
    try:
        _C.start_profile()
    except RuntimeError:
        return False
    _listener = listener
    return True


def end_watch() -> None:
    """Give the listener what is left. A profile that is taken beside it goes on."""
    global _listener
    drain()
    _listener = None
    if _taken is None:
        _C.stop_profile()


def drain() -> None:
    """Give the listener, and who takes a profile, what there is so far."""
    if _listener is None:
        return
    events = list(_C.take_profile())
    if _taken is not None:
        _taken.extend(events)
    if events:
        _listener(events)
