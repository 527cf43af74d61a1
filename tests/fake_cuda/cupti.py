"""A stand-in for the part of `cupti-python` 13 that we call, for emulated GPUs: `with installed_cupti() as cupti:`.

Names, arguments and the fields of records are those of the package's stubs (`cupti/cupti.pyi`). What an emulated GPU
does is recorded when it's done; records wait in a buffer until they are flushed. As the driver does it, the records of
correlations are those of calls of its interface: without these there are none.
"""

from __future__ import annotations

import enum
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

from .gpus import Gpu


class ActivityKind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    MEMCPY2 = 22
    EXTERNAL_CORRELATION = 39


class ExternalCorrelationKind(enum.IntEnum):
    INVALID = 0
    UNKNOWN = 1
    OPENACC = 2
    CUSTOM0 = 3
    CUSTOM1 = 4
    CUSTOM2 = 5


class cuptiError(Exception):  # noqa: N801 - the package's name
    pass


CLOCK_AHEAD = 10**15
"""CUPTI's clock isn't the host's."""


class Cupti(ModuleType):
    """The module `cupti.cupti`."""

    ActivityKind, ExternalCorrelationKind = ActivityKind, ExternalCorrelationKind
    cuptiError = cuptiError  # noqa: N815 - the package's name

    def __init__(self) -> None:
        super().__init__("cupti.cupti")
        self.enabled: set[ActivityKind] = set()
        self.refused: set[ActivityKind] = set()
        """What can't be enabled."""
        self.requests = 0
        self._callbacks = None
        self._buffer: list[SimpleNamespace] = []
        self._correlations = itertools.count(1)
        self._threads = threading.local()

    def activity_register_callbacks(self, func_buffer_requested, func_buffer_completed) -> None:
        self._callbacks = func_buffer_requested, func_buffer_completed

    def activity_enable(self, kind: int) -> None:
        if kind in self.refused:
            raise cuptiError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
        self.enabled.add(ActivityKind(kind))

    def activity_disable(self, kind: int) -> None:
        self.enabled.discard(ActivityKind(kind))

    def activity_flush_all(self, flag: int) -> None:
        assert flag in (0, 1)
        if self._buffer:
            requested, completed = self._callbacks
            size, records = requested()
            assert size >= 1024
            assert records == 0
            self.requests += 1
            done, self._buffer = self._buffer, []
            completed(done)

    def get_timestamp(self) -> int:
        return time.monotonic_ns() + CLOCK_AHEAD

    def _pushed(self) -> list[tuple[int, int]]:
        if not hasattr(self._threads, "stack"):
            self._threads.stack = []
        return self._threads.stack

    def activity_push_external_correlation_id(self, kind: int, id: int) -> None:
        self._pushed().append((int(kind), id))

    def activity_pop_external_correlation_id(self, kind: int) -> int:
        found, id = self._pushed().pop()
        assert found == kind
        return id

    def watch(self, gpu: Gpu, what: str, run, queue):
        """Notes a call of the driver, and what the GPU then does."""
        word = what.split()[0]
        kind = {"launch": ActivityKind.CONCURRENT_KERNEL, "memset": ActivityKind.MEMSET}.get(word, ActivityKind.MEMCPY)
        if word not in ("launch", "memset", "htod", "dtoh", "dtod") or not self.enabled:
            return run
        correlation, at = next(self._correlations), self.get_timestamp()
        if ActivityKind.DRIVER in self.enabled:
            if ActivityKind.EXTERNAL_CORRELATION in self.enabled:
                self._buffer += [
                    SimpleNamespace(
                        kind=int(ActivityKind.EXTERNAL_CORRELATION), correlation_id=correlation, external_id=id,
                        external_kind=external,
                    )
                    for external, id in dict(self._pushed()).items()
                ]  # fmt: skip
            self._buffer.append(
                SimpleNamespace(
                    kind=int(ActivityKind.DRIVER), correlation_id=correlation, start=at, end=self.get_timestamp()
                )
            )

        def timed() -> None:
            start = self.get_timestamp()
            run()
            if kind in self.enabled:
                self._buffer.append(
                    SimpleNamespace(
                        kind=int(kind), correlation_id=correlation, start=start, end=self.get_timestamp(),
                        device_id=gpu.index, stream_id=queue.number, name=what.split()[-1],
                    )
                )  # fmt: skip

        return timed


@contextmanager
def installed_cupti() -> Iterator[Cupti]:
    """Puts the stand-in into `sys.modules` as `cupti`."""
    names = ("cupti", "cupti.cupti")
    before = {name: sys.modules.get(name) for name in names}
    package, module = ModuleType("cupti"), Cupti()
    package.__path__, package.cupti = [], module
    sys.modules.update({"cupti": package, "cupti.cupti": module})
    Gpu.watch = module.watch
    try:
        yield module
    finally:
        Gpu.watch = None
        for name, old in before.items():
            if old is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = old
