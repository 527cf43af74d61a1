"""When kernels and copies ran on cards, by events around each: for profiles, timelines and `--hlo_profile`.

The card's clock is set to the host's by one event a card, which is waited for at the start of a profile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitensor.step_stats import CardEvent
from minitensor_jit.codegen.nvptx.program import HostCall, KernelLaunch
from minitensor_jit.runtime.cuda import streams
from minitensor_jit.runtime.cuda.context import all_cards, enter, let_go, using
from minitensor_jit.runtime.cuda.driver import driver
from minitensor_jit.runtime.kernel_counters import KernelCounter, ModuleCounters

if TYPE_CHECKING:
    from minitensor_jit.runtime.cuda.executable import Bind, LoadedProgram

__all__ = ["DeviceEvent", "active", "copy", "note_host_call", "program", "start", "stop"]


@dataclass
class DeviceEvent(CardEvent):
    """Something that ran on a card, with the driver's events around it until its times are known."""

    raw: tuple[Any, Any] = (None, None)


_lock = threading.Lock()
_events: list[DeviceEvent] | None = None
_zero: dict[int, tuple[Any, int]] = {}
"""By card: an event, and the host's time when it had happened."""
_counted: list[tuple[int, Any, Any, KernelCounter]] = []
"""Cards and pairs of events that are still to be counted."""
_COUNT_AT = 512
host_calls: dict[str, int] = {}
"""How often programs had the host compute an instruction, by the reason."""


def active() -> bool:
    """Whether a profile is being taken."""
    return _events is not None


def _event() -> Any:
    return driver().Event(0)


def _set_clock(index: int) -> None:
    enter(index)
    event = _event()
    event.record(None)
    event.synchronize()
    _zero[index] = event, time.monotonic_ns()


def start() -> None:
    """Begin to note what runs."""
    global _events
    for card in all_cards():
        _set_clock(card.index)
    _events = []


def stop() -> list[DeviceEvent]:
    """End the profile: what ran, in the order of its start. Waits for the cards."""
    global _events
    noted, _events = _events or [], None
    for index in {event.device for event in noted}:
        streams.synchronize(index)
    for event in noted:
        enter(event.device)
        zero, at = _zero[event.device]
        first, last = event.raw
        event.start = at + round(1e6 * zero.time_till(first))
        event.end = max(at + round(1e6 * zero.time_till(last)), event.start)
        event.raw = (None, None)
        let_go(event.device, first, last)
    for index, (zero, _) in _zero.items():
        let_go(index, zero)
    _zero.clear()
    return sorted(noted, key=lambda event: event.start)


def _note(event: DeviceEvent) -> None:
    with _lock:
        if _events is not None:
            if event.device not in _zero:
                _set_clock(event.device)
            _events.append(event)


class _Timing:
    """The run of one program."""

    def __init__(self, loaded: LoadedProgram, stream: Any) -> None:
        self._loaded = loaded
        self._stream = stream
        self._number = streams.number_of_current(loaded.index)
        self._turn = 0

    def step(self, step: Bind, slots: Sequence[int]) -> None:
        """Run a step between two events."""
        first, last = _event(), _event()
        call, arguments = step(slots)
        first.record(self._stream)
        call(*arguments, self._stream)
        last.record(self._stream)
        launch = getattr(step, "launch", None)
        loaded = self._loaded
        name = launch.kernel if isinstance(launch, KernelLaunch) else type(step).__name__.strip("_")
        if active():
            _note(
                DeviceEvent(
                    loaded.index,
                    self._number,
                    f"{loaded.program.name}/{name}",
                    launch.kind if isinstance(launch, KernelLaunch) else "step",
                    nbytes=launch.bytes_accessed if isinstance(launch, KernelLaunch) else 0,
                    raw=(first, last),
                )
            )
        if loaded.counters is not None:
            _counted.append((loaded.index, first, last, loaded.counters.kernels[self._turn]))
        self._turn += 1


@contextmanager
def program(loaded: LoadedProgram, stream: Any) -> Iterator[_Timing]:
    """Times the steps of a program, and the whole, and counts them where counters are."""
    first = _event()
    first.record(stream)
    yield _Timing(loaded, stream)
    if loaded.counters is not None:
        last = _event()
        last.record(stream)
        _counted.append((loaded.index, first, last, loaded.counters.whole))
        if len(_counted) >= _COUNT_AT:
            settle_counters()


def settle_counters() -> None:
    """Add what ran to the counters; waits for it."""
    counted, _counted[:] = list(_counted), []
    while counted:
        index, first, last, counter = counted.pop()
        with using(index):
            last.synchronize()
            counter.add(round(1e6 * first.time_till(last)))
        let_go(index, first, last)
        del first, last


def counters_of(name: str, steps: Sequence[Any]) -> ModuleCounters:
    """What runs of a program are counted in: one counter for each of its outermost steps."""
    kernels = [
        KernelCounter(step.source or step.kernel, step.kind, step.bytes_accessed, step.operations)
        if isinstance(step, KernelLaunch)
        else KernelCounter(type(step).__name__, "step")
        for step in steps
    ]
    return ModuleCounters(name, KernelCounter(name, "cluster"), kernels)


@contextmanager
def copy(index: int, kind: str, nbytes: int, stream: Any) -> Iterator[None]:
    """Times a copy, where a profile is being taken."""
    if not active():
        yield
        return
    first, last = _event(), _event()
    first.record(stream)
    yield
    last.record(stream)
    number = streams.number_of_current(index)
    _note(DeviceEvent(index, number, kind, "memcpy", nbytes=nbytes, raw=(first, last)))


def note_host_call(step: HostCall, nbytes: int) -> None:
    """Account for an instruction that the host computed."""
    reason = step.reason or step.source or "an instruction without code"
    host_calls[reason] = host_calls.get(reason, 0) + 1
