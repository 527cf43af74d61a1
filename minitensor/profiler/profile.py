"""The profiler: when it records, and what it gives."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from minitensor._warning import warn
from minitensor.profiler.events import EventList, events_of
from minitensor.profiler.recording import Recording, record_function

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What can be profiled."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What is done at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def kineto_available() -> bool:
    """Return whether there is a recorder: the core's own, always."""
    return True


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be profiled here: the CPU, and GPUs where there are any."""
    from minitensor import cuda

    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if cuda.is_available() else {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return which action is for which step.

    After ``skip_first`` steps come cycles of ``wait`` steps without the profiler, ``warmup`` whose events are dropped
    and ``active`` that are kept, ``repeat`` of them, or without end if that is 0. ``skip_first_wait``: the first cycle
    has no wait. AssertionError for negative numbers, or without an active step.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got {wait=} (need >= 0), {warmup=} (need >= 0), {active=} "
            f"(need > 0), {repeat=} (need >= 0), {skip_first=} (need >= 0)."
        )
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return an ``on_trace_ready`` that writes traces to a folder, where TensorBoard's plugin looks for them."""

    def handle(prof: profile) -> None:
        folder = Path(dir_name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(str(folder / (f"{name}.gz" if use_gzip else name)))

    return handle


class ExecutionTraceObserver:
    """Execution traces, which replay a program's ops elsewhere, are not made: use ``mt.jit`` dumps instead."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "ExecutionTraceObserver: execution traces are not supported; export_chrome_trace has the times, and "
            "MT_JIT_FLAGS=--dump_to=DIR the graphs"
        )


class profile:  # noqa: N801  (PyTorch's name)
    """Notes every kernel, launch of compiled code and ``record_function``, with its time.

    ``activities``: by default all that can be profiled. ``schedule`` says which steps are recorded, ``on_trace_ready``
    is called with the profiler when a cycle of them ends; ``step()`` ends a step. ``record_shapes`` keeps the shapes of
    operands, ``profile_memory`` counts the bytes of results, ``with_stack`` the line of the program that called,
    ``with_flops`` the floating-point operations of ops on elements, products and convolutions. With
    ``acc_events`` events of earlier cycles stay. RuntimeError where another profile is taken.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        if wrong := [a for a in self.activities if not isinstance(a, ProfilerActivity)]:
            raise TypeError(f"activities must be ProfilerActivity, not {type(wrong[0]).__name__}")
        self._schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._recording: Recording | None = None
        self._done: list[Recording] = []
        self._step_range: record_function | None = None
        self._metadata: dict[str, Any] = {}

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def _records(self) -> bool:
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _begin(self) -> None:
        if self._recording is None:
            self._recording = Recording()
            self._recording.start()

    def _end(self) -> None:
        if self._recording is None:
            return
        recording, self._recording = self._recording, None
        recording.stop()
        if ProfilerActivity.CPU not in self.activities:
            recording.events = []
        if ProfilerActivity.CUDA not in self.activities:
            recording.gpu_events = []
        self._done = [*self._done, recording] if self.acc_events else [recording]

    def _enter_step(self) -> None:
        if self._schedule is not None and self._records():
            self._step_range = record_function(f"ProfilerStep#{self.step_num}")
            self._step_range.__enter__()

    def _leave_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__()
            self._step_range = None

    def start(self) -> None:
        """Begin, with the first step."""
        self.current_action = self._action()
        if self._records():
            self._begin()
        self._enter_step()

    def stop(self) -> None:
        """End; ``on_trace_ready`` gets what was recorded since it was called last."""
        self._leave_step()
        if self._recording is not None:
            self._end()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """End a step of the schedule."""
        self._leave_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE or not self._records():
            recorded = self._recording is not None
            self._end()
            if recorded and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if self._records():
            self._begin()
        self._enter_step()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def events(self) -> EventList:
        """Return the events of the last cycle, or of all with ``acc_events``. RuntimeError before there are any."""
        if not self._done:
            raise RuntimeError("Profiler didn't finish running")
        found = [
            event
            for recording in self._done
            for event in events_of(
                recording, record_shapes=self.record_shapes, with_stack=self.with_stack, with_flops=self.with_flops
            )
        ]
        return EventList(found, profile_memory=self.profile_memory, with_flops=self.with_flops)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the sums of events of one name; see ``EventList.key_averages``."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write lines for a flame graph. RuntimeError without ``with_stack``."""
        if not self.with_stack:
            raise RuntimeError("export_stacks() requires with_stack=True")
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value into the trace that is given as JSON."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def export_chrome_trace(self, path: str) -> None:
        """Write the trace for Perfetto and chrome://tracing; compressed if the name ends with ".gz"."""
        if not self._done:
            raise RuntimeError("Profiler didn't finish running")
        text = json.dumps(self._chrome_trace(), separators=(",", ":"))
        opener: Any = gzip.open if path.endswith(".gz") else open
        with opener(path, "wt", encoding="utf-8") as file:
            file.write(text)

    def _chrome_trace(self) -> dict[str, Any]:
        from minitensor._profile.step_stats import StepStats, from_events, from_gpus
        from minitensor.timeline import Timeline

        events = [event for recording in self._done for event in recording.events]
        kernels = [event for recording in self._done for event in recording.gpu_events]
        host = from_events(events).dev_stats
        trace: dict[str, Any] = json.loads(
            Timeline(StepStats([*host, *from_gpus(kernels)])).generate_chrome_trace_format(
                show_memory=self.profile_memory
            )
        )
        threads: dict[int, int] = {}
        for node in host[0].node_stats:
            threads.setdefault(node.thread_id, len(threads))
        for recording in self._done:
            for part in recording.ranges:
                trace["traceEvents"].append(
                    {
                        "ph": "X",
                        "cat": "user_annotation",
                        "name": part.name,
                        "pid": 0,
                        "tid": threads.setdefault(part.thread, len(threads)),
                        "ts": part.start / 1000,
                        "dur": (part.end - part.start) / 1000,
                        "args": {},
                    }
                )
        return trace | self._metadata
