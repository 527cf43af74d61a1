"""A recording: the core's events, and the ranges of the program's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor._profile import events as profile_events
from minitensor._profile.events import Range, begin_range, end_range

__all__ = ["Recording", "record_function"]


class record_function:  # noqa: N801  (PyTorch's name)
    """A range of a profile, as a context or around each call of a function; costs next to nothing without one."""

    def __init__(self, name: str, args: str | None = None) -> None:
        """`name` is what the profile shows; `args` is kept beside it."""
        self.name = name
        self.args = args
        self._starts: list[int] = []

    def __enter__(self) -> record_function:
        self._starts.append(begin_range())
        return self

    def __exit__(self, *_error: object) -> None:
        end_range(self.name, self._starts.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, each call of which is a range."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped


class Recording:
    """What ran between `start` and `stop`. RuntimeError where another one is taken already."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.ranges: list[Range] = []
        self.gpu_events: list[Any] = []
        self._gpu_profile: Any = None

    def start(self) -> None:
        """Begin to note kernels, launches and ranges."""
        from minitensor._jit import entry_points

        profile_events.start()
        self._gpu_profile = entry_points.cuda_module("profile") if entry_points.cuda_in_use() else None
        if self._gpu_profile is not None:
            self._gpu_profile.start()
        profile_events.note_ranges(self.ranges)

    def stop(self) -> None:
        """End it; what is still recorded and not run belongs to whoever looks at it."""
        profile_events.note_ranges(None)
        self.events = profile_events.stop()
        if self._gpu_profile is not None:
            self.gpu_events = list(self._gpu_profile.stop())
