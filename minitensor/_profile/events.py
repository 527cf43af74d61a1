"""Shares the core's one profile: between whoever takes a profile, and an onlooker that sees all events meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from minitensor import _C
from minitensor._profile.step_stats import Event

__all__ = ["drain", "end_watch", "start", "stop", "watch"]

Onlooker: TypeAlias = Callable[[list[Event]], None]

_onlooker: Onlooker | None = None
_taken: list[Event] | None = None
"""What the profile has that is taken beside the onlooker; None if there is none."""


def start() -> None:
    """Begin to take a profile; RuntimeError where another one is taken already."""
    global _taken
    if _onlooker is None:
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
    if _onlooker is None:
        return [*(events or ()), *_C.stop_profile()]
    if events is None:
        raise RuntimeError("no profile is being taken")
    return events


def watch(onlooker: Onlooker) -> bool:
    """Give an onlooker all events from here on, now and then; False where a profile is being taken."""
    global _onlooker
    if _onlooker is not None:
        return False
    try:
        _C.start_profile()
    except RuntimeError:
        return False
    _onlooker = onlooker
    return True


def end_watch() -> None:
    """Give the onlooker what is left. A profile that is taken beside it goes on."""
    global _onlooker
    drain()
    _onlooker = None
    if _taken is None:
        _C.stop_profile()


def drain() -> None:
    """Give the onlooker, and who takes a profile, what there is so far."""
    if _onlooker is None:
        return
    events = list(_C.take_profile())
    if _taken is not None:
        _taken.extend(events)
    if events:
        _onlooker(events)
