"""Streams and events. A thread gives its work on a GPU to that GPU's current stream, at first the default one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minitensor import _C, _forks
from minitensor_jit.runtime.cuda.context import (
    check,
    current_device,
    enter,
    keep_for_ever,
    let_go,
    recent_launches,
    using,
)
from minitensor_jit.runtime.cuda.driver import driver

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "default_stream",
    "number_of_current",
    "stream_object",
    "synchronize",
    "use_stream",
]

_lock = _forks.lock()
_streams: dict[tuple[int, int], Any] = {}
"""PyCUDA's streams by GPU and number; the number 0 stands for the default stream, which is None there."""
keep_for_ever(_streams)
_numbers: dict[int, Iterator[int]] = {}


class Stream:
    """A queue of work on a GPU, which runs in the order in which it is given; streams run beside each other."""

    def __init__(self, device: int, number: int) -> None:
        self.device_index = device
        self.number = number

    @staticmethod
    def make(device: int, priority: int = 0) -> Stream:
        """A new stream of a GPU."""
        enter(device)
        with _lock:
            number = next(_numbers.setdefault(device, itertools.count(1)))
        _streams[device, number] = driver().Stream()
        return Stream(device, number)

    @property
    def raw(self) -> Any:
        """PyCUDA's stream; None for the default one."""
        return stream_object(self.device_index, self.number)

    @property
    def handle(self) -> int:
        """The driver's handle; 0 for the default stream."""
        return 0 if self.raw is None else int(self.raw.handle)

    def synchronize(self) -> None:
        """Wait until all that was given to it is done."""
        synchronize(self.device_index, self.number)

    def query(self) -> bool:
        """Whether all that was given to it is done."""
        enter(self.device_index)
        if self.raw is not None:
            return bool(self.raw.is_done())
        marker = Event(self.device_index)
        marker.record(self)
        return marker.query()

    def wait_event(self, event: Event) -> None:
        """What is given to it from here on begins after the event."""
        if event.raw is None:
            return
        enter(self.device_index)
        if self.raw is not None:
            self.raw.wait_for_event(event.raw)
        else:
            # The default stream has no such call in PyCUDA: the host waits.
            check(self.device_index, "waiting for an event", event.raw.synchronize)

    def wait_stream(self, other: Stream) -> None:
        """What is given to it from here on begins after all that the other was given so far."""
        self.wait_event(other.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """An event that happens when all that was given to it so far is done."""
        event = Event(self.device_index) if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        """Whether it is the same queue."""
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device_index, self.number) == (other.device_index, other.number)

    def __hash__(self) -> int:
        return hash((self.device_index, self.number))


class Event:
    """A moment of a stream. Which GPU the thread has entered stays as it is."""

    def __init__(self, device: int | None = None, timing: bool = False, blocking: bool = False) -> None:
        self.device_index = device
        self.timing = timing
        self.blocking = blocking
        self.raw: Any = None

    def __del__(self, let_go: Callable[..., None] = let_go) -> None:
        if self.raw is not None and self.device_index is not None:
            let_go(self.device_index, self.raw)

    def record(self, stream: Stream) -> None:
        """Let it be the moment when all that the stream was given so far is done."""
        self.device_index = stream.device_index
        with using(self.device_index):
            if self.raw is None:
                flags = driver().event_flags
                self.raw = driver().Event(
                    (0 if self.timing else int(flags.DISABLE_TIMING))
                    | (int(flags.BLOCKING_SYNC) if self.blocking else 0)
                )
            self.raw.record(stream.raw)

    def query(self) -> bool:
        """Whether it has happened."""
        if self.raw is None or self.device_index is None:
            return True
        with using(self.device_index):
            return bool(self.raw.query())

    def synchronize(self) -> None:
        """Wait until it has happened."""
        if self.raw is None or self.device_index is None:
            return
        with using(self.device_index):
            check(self.device_index, None, self.raw.synchronize)

    def milliseconds_until(self, end: Event) -> float:
        """The time between two events that were made with `timing`."""
        if self.raw is None or end.raw is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.timing and end.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return float(self.raw.time_till(end.raw))


def stream_object(device: int, number: int) -> Any:
    """PyCUDA's stream of that number; None for the default one."""
    return _streams[device, number] if number else None


def number_of_current(device: int) -> int:
    """The number of the stream that this thread gives its work to."""
    return int(_C.cuda_stream(device))


def current_stream(device: int | None = None) -> Stream:
    """The stream that this thread gives its work to."""
    device = current_device() if device is None else device
    return Stream(device, number_of_current(device))


def default_stream(device: int | None = None) -> Stream:
    """The stream that is there from the beginning."""
    return Stream(current_device() if device is None else device, 0)


def set_stream(stream: Stream) -> None:
    """Have this thread give its work on the stream's GPU to it."""
    _C.flush("a change of the stream")
    _C.set_cuda_stream(stream.device_index, stream.number)


@contextmanager
def use_stream(stream: Stream) -> Iterator[Stream]:
    """Have this thread give its work to the stream, for as long as the context."""
    before = current_stream(stream.device_index)
    set_stream(stream)
    try:
        yield stream
    finally:
        set_stream(before)


def synchronize(device: int, number: int | None = None) -> None:
    """Wait until a stream, or all of a GPU, has done what it was given; CudaError names what failed."""
    enter(device)
    d = driver()
    call = d.Context.synchronize if not number else stream_object(device, number).synchronize
    check(device, None, call)
    if number is None:
        recent_launches(device).clear()
