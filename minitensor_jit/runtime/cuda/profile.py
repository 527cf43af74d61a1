"""When kernels and copies ran on GPUs: for profiles, timelines and `--hlo_profile`.

By the driver's records where CUPTI is installed (`cupti.py`), otherwise by events around each, as for `--hlo_profile`.
For events a GPU's clock is set to the host's by one event a GPU, which is waited for at the start of a profile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from minitensor import _forks
from minitensor._profile.step_stats import GpuEvent
from minitensor_jit.runtime.cuda import cupti, streams
from minitensor_jit.runtime.cuda.context import all_gpus, enter, let_go, using
from minitensor_jit.runtime.cuda.driver import driver
from minitensor_jit.runtime.cuda.program import HostCall, KernelLaunch
from minitensor_jit.runtime.cuda.roof import measure_gpu
from minitensor_jit.runtime.kernel_counters import KernelCounter, ModuleCounters

if TYPE_CHECKING:
    from minitensor_jit.runtime.cuda.executable import LoadedProgram
    from minitensor_jit.runtime.cuda.kernel_launch import Bind

__all__ = ["DeviceEvent", "active", "copy", "note_host_call", "program", "start", "stop"]


@dataclass
class DeviceEvent(GpuEvent):
    """Something that ran on a GPU, with the driver's events around it until its times are known."""

    raw: tuple[Any, Any] = (None, None)
    number: int = 0
    """What the driver's records of it are linked with."""


_lock = _forks.lock()
_events: list[DeviceEvent] | None = None
_zero: dict[int, tuple[Any, int]] = {}
"""By GPU: an event, and the host's time when it had happened."""
_activities: cupti.Activities | None = None
why_by_events = ""
"""Why the last profile was taken by events; empty if it was by the driver's records."""
_counted: list[tuple[int, Any, Any, KernelCounter]] = []
"""GPUs and pairs of events that are still to be counted."""
_COUNT_AT = 512
host_calls: dict[str, int] = {}
"""How often programs had the host compute an instruction, by the reason."""


def active() -> bool:
    """Whether a profile is being taken."""
    return _events is not None


def _event() -> Any:
    return driver().Event(0)


@contextmanager
def _between(stream: Any) -> Iterator[tuple[Any, Any]]:
    """Two events, around what is given to the stream within."""
    first, last = _event(), _event()
    first.record(stream)
    yield first, last
    last.record(stream)


def _set_clock(index: int) -> None:
    enter(index)
    event = _event()
    event.record(None)
    event.synchronize()
    _zero[index] = event, time.monotonic_ns()


def start() -> None:
    """Begin to note what runs."""
    global _events, _activities, why_by_events
    _activities, why_by_events = cupti.begin()
    if _activities is None:
        for gpu in all_gpus():
            _set_clock(gpu.index)
    _events = []


def stop() -> list[DeviceEvent]:
    """End the profile: what ran, in the order of its start. Waits for the GPUs."""
    global _events, _activities
    noted, _events = _events or [], None
    activities, _activities = _activities, None
    for index in {event.device for event in noted}:
        streams.synchronize(index)
    if activities is not None:
        spans = activities.end()
        # What has no record ran on the host.
        noted = [event for event in noted if event.number in spans]
        for event in noted:
            event.start, event.end = spans[event.number]
        return sorted(noted, key=lambda event: event.start)
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
            if not event.number and event.device not in _zero:
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
        call, arguments = step(slots)
        loaded, activities = self._loaded, _activities
        by_events = activities is None or loaded.counters is not None
        with (
            activities.number() if activities is not None else nullcontext(0) as number,
            _between(self._stream) if by_events else nullcontext((None, None)) as (first, last),
        ):
            call(*arguments, self._stream)
        launch = getattr(step, "launch", None)
        name = launch.kernel if isinstance(launch, KernelLaunch) else type(step).__name__.strip("_")
        if active():
            _note(
                DeviceEvent(
                    loaded.index,
                    self._number,
                    f"{loaded.program.name}/{name}",
                    launch.kind if isinstance(launch, KernelLaunch) else "step",
                    nbytes=launch.bytes_accessed if isinstance(launch, KernelLaunch) else 0,
                    raw=(None, None) if number else (first, last),
                    number=number,
                )
            )
        if loaded.counters is not None:
            _counted.append((loaded.index, first, last, loaded.counters.kernels[self._turn]))
        self._turn += 1


@contextmanager
def program(loaded: LoadedProgram, stream: Any) -> Iterator[_Timing]:
    """Times the steps of a program, and the whole, and counts them where counters are."""
    if loaded.counters is None:
        yield _Timing(loaded, stream)
    else:
        with _between(stream) as (first, last):
            yield _Timing(loaded, stream)
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


def counters_of(name: str, steps: Sequence[Any], index: int) -> ModuleCounters:
    """What runs of a program on a GPU are counted in: one counter for each of its outermost steps."""
    kernels = [
        KernelCounter(
            step.source or step.kernel, step.kind, step.bytes_accessed, step.operations, step.ops, step.arithmetic
        )
        if isinstance(step, KernelLaunch)
        else KernelCounter(type(step).__name__, "step", arithmetic="f32")
        for step in steps
    ]
    return ModuleCounters(name, KernelCounter(name, "cluster"), kernels, f"cuda:{index}", partial(measure_gpu, index))


@contextmanager
def copy(index: int, kind: str, nbytes: int, stream: Any) -> Iterator[None]:
    """Times a copy, where a profile is being taken."""
    if not active():
        yield
        return
    activities = _activities
    where = streams.number_of_current(index)
    if activities is not None:
        with activities.number() as number:
            yield
        _note(DeviceEvent(index, where, kind, "memcpy", nbytes=nbytes, number=number))
        return
    with _between(stream) as raw:
        yield
    _note(DeviceEvent(index, where, kind, "memcpy", nbytes=nbytes, raw=raw))


def note_host_call(step: HostCall, nbytes: int) -> None:
    """Account for an instruction that the host computed."""
    reason = step.reason or step.source or "an instruction without code"
    host_calls[reason] = host_calls.get(reason, 0) + 1
