"""How much memory a run has taken over time: sampled by a thread, more rarely the longer it goes on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from minitensor import _C

__all__ = ["MemoryCurve", "MemorySample"]

_FIRST_INTERVAL = 0.005
_MOST = 2000
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemorySample(NamedTuple):
    """Bytes that tensors take, that the allocator has from the system, and that the process has resident."""

    at: float
    allocated: int
    reserved: int
    resident: int


class MemoryCurve:
    """At most so many samples; when there are more, every second one goes and the interval doubles."""

    def __init__(self) -> None:
        self.samples: list[MemorySample] = []
        self.peak = 0
        self._interval = _FIRST_INTERVAL
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    @staticmethod
    def allocated() -> int:
        """Bytes that tensors take now."""
        return int(_C.allocator_stats()["allocated_bytes"])

    def sample(self) -> None:
        """Take one."""
        stats = _C.allocator_stats()
        try:
            with open("/proc/self/statm", "rb") as file:
                resident = int(file.read().split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            resident = 0
        self.peak = max(self.peak, stats["peak_allocated_bytes"])
        self.samples.append(MemorySample(time.monotonic(), stats["allocated_bytes"], stats["reserved_bytes"], resident))
        if len(self.samples) > _MOST:
            del self.samples[1::2]
            self._interval *= 2

    def start(self, also: Callable[[], None]) -> None:
        """Sample from here on, on a thread, which calls `also` now and then."""
        self.sample()

        def work() -> None:
            drained = time.monotonic()
            while not self._end.wait(self._interval):
                self.sample()
                if time.monotonic() - drained > 0.1:
                    also()
                    drained = time.monotonic()

        self._thread = threading.Thread(target=work, name="minitensor report", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, with a last sample."""
        self._end.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self.sample()
