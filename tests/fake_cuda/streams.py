"""Streams and events: queues of work, and moments in them."""

from __future__ import annotations

import itertools
import weakref
from functools import partial

from .contexts import Owned, _gpu
from .enums import event_flags
from .errors import failure
from .gpus import Gpu, Queue, Work, alone, when_alone

_numbers = itertools.count(1)


class Stream(Owned):
    def __init__(self, flags: int = 0):
        super().__init__()
        self._gpu = _gpu("cuStreamCreate")
        self._queue = Queue(next(_numbers))
        self._gpu.add(self._queue)
        self.handle = 0x57000 + self._queue.number
        weakref.finalize(self, when_alone, partial(self._gpu.remove, self._queue))

    def synchronize(self) -> None:
        self._gpu.check_alive("cuStreamSynchronize")
        self._gpu.finish_queue(self._queue, "cuStreamSynchronize")

    @alone
    def is_done(self) -> bool:
        """False while there is work; each question lets some of it be done."""
        self._gpu.check_alive("cuStreamQuery")
        waiting = self._queue.waiting()
        if not waiting:
            return True
        self._gpu.finish(waiting[0], "cuStreamQuery")
        return False

    def wait_for_event(self, event: Event) -> None:
        self._gpu.check_alive("cuStreamWaitEvent")
        if event._work is not None and not event._work.done:
            self._gpu.give("wait", lambda: None, self._queue, (event._work,))


def _queue(gpu: Gpu, stream: Stream | None) -> Queue:
    if stream is None:
        return gpu.queues[0]
    if not isinstance(stream, Stream):
        raise TypeError(f"a Stream or None, not {type(stream).__name__}")
    if stream._gpu is not gpu:
        raise failure("stream", "INVALID_HANDLE", "it belongs to another context")
    return stream._queue


class Event(Owned):
    def __init__(self, flags: int = 0):
        super().__init__()
        self._gpu = _gpu("cuEventCreate")
        self._timing = not int(flags) & int(event_flags.DISABLE_TIMING)
        self._work: Work | None = None

    def record(self, stream: Stream | None = None) -> Event:
        if _gpu("cuEventRecord") is not self._gpu:
            raise failure("cuEventRecord", "INVALID_HANDLE", "it belongs to another context")
        self._work = self._gpu.give("event", lambda: None, _queue(self._gpu, stream))
        return self

    def synchronize(self) -> Event:
        self._gpu.check_alive("cuEventSynchronize")
        if self._work is not None:
            self._gpu.finish(self._work, "cuEventSynchronize")
        return self

    @alone
    def query(self) -> bool:
        """False while it's to come; each question lets some work be done."""
        self._gpu.check_alive("cuEventQuery")
        if self._work is None or self._work.done:
            return True
        first = self._work
        while any(not w.done for w in first.after):
            first = next(w for w in first.after if not w.done)
        self._gpu.finish(first, "cuEventQuery")
        return False

    def time_till(self, end: Event) -> float:
        """Milliseconds."""
        for event in (self, end):
            if event._work is None or not event._timing:
                raise failure("cuEventElapsedTime", "INVALID_HANDLE")
            if not event._work.done:
                raise failure("cuEventElapsedTime", "NOT_READY")
        return (end._work.finished_at - self._work.finished_at) * 1e3

    def time_since(self, start: Event) -> float:
        return start.time_till(self)
