"""Streams and events."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from minitensor import _C
from minitensor._jit import entry_points
from minitensor.cuda.devices import index_of


class Stream:
    """A queue of work on a GPU: what is given to it runs in order, beside the work of other streams.

    `with mt.cuda.stream(s):` gives what is called inside to the stream. A tensor that another stream works with too has
    to be noted by `record_stream`, or its memory may be used again too early.
    """

    def __init__(self, device: Any = None, priority: int = 0, _queue: Any = None) -> None:
        self.priority = priority
        if _queue is None:
            _queue = entry_points.cuda_module("streams").Stream.make(index_of(device), priority)
        self._queue = _queue

    @property
    def device(self) -> Any:
        """The GPU that it belongs to."""
        return _C.device("cuda", self._queue.device_index)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, for other libraries."""
        return int(self._queue.handle)

    @property
    def stream_id(self) -> int:
        """Its number on its GPU; 0 for the default one."""
        return int(self._queue.number)

    @property
    def device_index(self) -> int:
        """The number of its GPU."""
        return int(self._queue.device_index)

    def synchronize(self) -> None:
        """Wait until all that it was given is done; runs what is recorded first."""
        _C.flush("a stream's synchronize()")
        self._queue.synchronize()

    def query(self) -> bool:
        """Whether all that it was given is done."""
        _C.flush("a stream's query()")
        return bool(self._queue.query())

    def wait_event(self, event: Event) -> None:
        """What it is given from here on begins after the event."""
        _C.flush("a stream's wait_event()")
        self._queue.wait_event(event._moment)

    def wait_stream(self, stream: Stream) -> None:
        """What it is given from here on begins after all that the other was given so far."""
        _C.flush("a stream's wait_stream()")
        self._queue.wait_stream(stream._queue)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that happens when all that it was given so far is done."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def __eq__(self, other: object) -> bool:
        """Whether it is the same queue."""
        return isinstance(other, Stream) and bool(self._queue == other._queue)

    def __hash__(self) -> int:
        return hash(self._queue)

    def __repr__(self) -> str:
        """The GPU and the driver's handle."""
        return f"<minitensor.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A moment of a stream: to wait for, and with `enable_timing` to measure the time between two."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise RuntimeError("events are not shared between processes")
        entry_points.start_cuda()
        self._moment = entry_points.cuda_module("streams").Event(None, enable_timing, blocking)

    @property
    def device(self) -> Any:
        """The GPU on which it was recorded; None before that."""
        index = self._moment.device_index
        return None if index is None else _C.device("cuda", index)

    def record(self, stream: Stream | None = None) -> None:
        """Let it be the moment when all that the stream was given so far is done."""
        _C.flush("an event's record()")
        self._moment.record((current_stream() if stream is None else stream)._queue)

    def wait(self, stream: Stream | None = None) -> None:
        """What the stream is given from here on begins after it."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether it has happened."""
        return bool(self._moment.query())

    def synchronize(self) -> None:
        """Wait until it has happened."""
        self._moment.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another one."""
        return float(self._moment.milliseconds_until(end_event._moment))

    def __repr__(self) -> str:
        """Where it was recorded."""
        return f"<minitensor.cuda.Event device={self.device}>"


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread gives its work on a GPU to."""
    return Stream(_queue=entry_points.cuda_module("streams").current_stream(index_of(device)))


def default_stream(device: Any = None) -> Stream:
    """The stream that a GPU has from the beginning."""
    return Stream(_queue=entry_points.cuda_module("streams").default_stream(index_of(device)))


def set_stream(stream: Stream | None) -> None:
    """Have this thread give its work to the stream."""
    if stream is not None:
        entry_points.cuda_module("streams").set_stream(stream._queue)


class StreamContext:
    """Have this thread give its work to a stream, and `cuda` mean its GPU, for as long as the context."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> StreamContext:
        """Change the stream, and the GPU."""
        if self.stream is not None:
            context = entry_points.cuda_module("context")
            self._device = context.current_device()
            self._before = current_stream(self.stream.device_index)
            context.set_device(self.stream.device_index)
            set_stream(self.stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Change them back."""
        if self.stream is not None:
            set_stream(self._before)
            entry_points.cuda_module("context").set_device(self._device)


def stream(stream: Stream | None) -> StreamContext:
    """Have this thread give its work to the stream for as long as the context; None changes nothing."""
    return StreamContext(stream)
