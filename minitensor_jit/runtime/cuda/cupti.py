"""When kernels and copies ran, by the driver's own records: CUPTI's Activity API, where its package is installed.

Each launch or copy gets a number before the driver is called (an external correlation). The driver's records of that
call have a number of their own, which a record of correlation links with ours. Facts are from NVIDIA's documentation of
CUPTI and of `cupti-python` 13, whose module `cupti.cupti` has the C functions by their names.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Activities", "begin"]

_BUFFER_BYTES = 4 << 20
_ANY_NUMBER_OF_RECORDS = 0
_FLUSH_FORCED = 1
# A correlation is that of a call of the driver's interface, so records of such calls are needed for it.
_KINDS = ("EXTERNAL_CORRELATION", "DRIVER", "CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET")


class Activities:
    """What the driver records while a profile is taken."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        self._numbers = itertools.count(1)
        self._ours = int(cupti.ExternalCorrelationKind.CUSTOM0)
        self._linked: dict[int, int] = {}
        self._spans: list[tuple[int, int, int]] = []
        self._enabled: list[Any] = []
        cupti.activity_register_callbacks(_wanted, self._completed)
        try:
            for name in _KINDS:
                kind = getattr(cupti.ActivityKind, name)
                cupti.activity_enable(kind)
                self._enabled.append(kind)
            self._zero = cupti.get_timestamp(), time.monotonic_ns()
        except cupti.cuptiError:
            self._disable()
            raise

    def _completed(self, records: list[Any]) -> None:
        kinds = self._cupti.ActivityKind
        for record in records:
            if record.kind == kinds.EXTERNAL_CORRELATION:
                if int(record.external_kind) == self._ours:
                    self._linked[record.correlation_id] = record.external_id
            elif record.kind != kinds.DRIVER and record.end:
                # Where both times are 0 the driver has none.
                self._spans.append((record.correlation_id, record.start, record.end))

    def _disable(self) -> None:
        for kind in self._enabled:
            self._cupti.activity_disable(kind)
        self._enabled.clear()

    @contextmanager
    def number(self) -> Iterator[int]:
        """A number for what this thread gives to a GPU within."""
        number = next(self._numbers)
        kind = self._cupti.ExternalCorrelationKind.CUSTOM0
        self._cupti.activity_push_external_correlation_id(kind, number)
        try:
            yield number
        finally:
            self._cupti.activity_pop_external_correlation_id(kind)

    def end(self) -> dict[int, tuple[int, int]]:
        """No more records: for each number from when to when it ran, in nanoseconds of the host's clock.

        The GPUs have done everything.
        """
        self._cupti.activity_flush_all(_FLUSH_FORCED)
        self._disable()
        theirs, ours = self._zero
        found: dict[int, tuple[int, int]] = {}
        for correlation, start, end in self._spans:
            number = self._linked.get(correlation)
            if number is None:
                continue
            start, end = start - theirs + ours, end - theirs + ours
            known = found.get(number)
            found[number] = (start, end) if known is None else (min(known[0], start), max(known[1], end))
        return found


def _wanted() -> tuple[int, int]:
    return _BUFFER_BYTES, _ANY_NUMBER_OF_RECORDS


def begin() -> tuple[Activities | None, str]:
    """The driver's records from now on; or None and why there are none."""
    try:
        cupti = importlib.import_module("cupti.cupti")
    except ImportError as error:
        return None, f"the package cupti-python can't be used ({error})"
    try:
        return Activities(cupti), ""
    except (cupti.cuptiError, RuntimeError) as error:
        # Another profiler may have it, the user may lack the right to, or the library may be too old for the package.
        return None, f"CUPTI refuses: {error}"
