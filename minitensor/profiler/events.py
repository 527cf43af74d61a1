"""The events of a profile, what they add up to, and how many operations they took."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from minitensor._C import float32
from minitensor.ops import ROWS
from minitensor.profiler.recording import Recording
from minitensor.profiler.torch_names import aten_name

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "events_of"]

_BYTES = {"pred": 1, "bf16": 2}


class DeviceType(Enum):
    """Where an event ran."""

    CPU = 0
    CUDA = 1


class Interval:
    """When an event began and ended, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return how long it took."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


class _Times:
    """What events and their sums say of times; those of GPUs are `device`'s."""

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds of one call on a GPU."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cuda_time_total(self) -> float:
        """`device_time_total`."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """`self_device_time_total`."""
        return self.self_device_time_total


class FunctionEvent(_Times):
    """A call of an op, a launch of compiled code, a kernel on a GPU, or a range of `record_function`."""

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        device_type: DeviceType = DeviceType.CPU,
        input_shapes: Iterable[Any] = (),
        stack: Iterable[str] = (),
        cpu_memory_usage: int = 0,
        flops: int | None = None,
        is_user_annotation: bool = False,
    ) -> None:
        self.id = id
        self.name = self.key = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.device_type = device_type
        self.input_shapes = list(input_shapes)
        self.stack = list(stack)
        self.own_memory = cpu_memory_usage
        self.flops = flops
        self.is_user_annotation = is_user_annotation
        self.count = 1
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds, with what it called."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0.0

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds, without what it called."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds on a GPU."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CUDA else 0.0

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """`device_time_total`: nothing on a GPU calls."""
        return self.device_time_total

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes of its results."""
        return self.own_memory

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of the results, with those of what it called."""
        return self.own_memory + sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type=DeviceType.{self.device_type.name} "
            f"cpu_time={time_text(self.cpu_time)} start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Times):
    """Events of one name, and what they add up to."""

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0
        self.input_shapes: list[Any] | str = ""
        self.stack: list[str] = []
        self.device_type = DeviceType.CPU
        self.is_user_annotation = False

    def add(self, event: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or the sum of others."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.device_time_total += event.device_time_total
        self.self_device_time_total += event.self_device_time_total
        self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.flops += event.flops or 0
        return self

    def __iadd__(self, event: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(event)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={time_text(self.self_cpu_time_total)} "
            f"cpu_time={time_text(self.cpu_time)}  self_cuda_time={time_text(self.self_device_time_total)} "
            f"cuda_time={time_text(self.device_time)} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list[Any]):
    """Events in the order of their beginning, or sums of them."""

    def __init__(self, events: Iterable[Any] = (), *, profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory
        self._with_flops = with_flops

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all, each without what it called."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the sums of events of one name, and of one list of shapes or one place of the program as asked for."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: list[Any] = [event.key, event.device_type, event.is_user_annotation]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            key += event.stack[:group_by_stack_n]
            into = found.setdefault(tuple(key), FunctionEventAvg(event.key))
            into.add(event)
            into.device_type, into.is_user_annotation = event.device_type, event.is_user_annotation
            if group_by_input_shapes:
                into.input_shapes = event.input_shapes
            into.stack = event.stack[:group_by_stack_n]
        return EventList(found.values(), profile_memory=self._profile_memory, with_flops=self._with_flops)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return the events as a table, the largest `sort_by` first: an attribute such as "cpu_time_total"."""
        from minitensor.profiler.tables import table

        widths = max_name_column_width, max_shapes_column_width, max_src_column_width
        return table(self, sort_by, row_limit, widths, header, top_level_events_only, self._profile_memory)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line "place;name microseconds" for each event whose place is known, as flame graphs are made of."""
        if metric not in ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"):
            raise ValueError(f"metric should be one of: self_cpu_time_total, self_cuda_time_total, not {metric}")
        sums: dict[str, int] = {}
        for event in self:
            if event.stack and (value := int(getattr(event, metric))) > 0:
                line = ";".join(part.replace(" ", "_").replace(";", ",") for part in (*event.stack[::-1], event.key))
                sums[line] = sums.get(line, 0) + value
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line} {value}\n" for line, value in sums.items())

    def __str__(self) -> str:
        return self.table()


def time_text(microseconds: float) -> str:
    """Return a time with its unit."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:.3f}{unit}"
    return f"{microseconds:.3f}us"


def _meta(text: str) -> tuple[list[int], int]:
    """The sizes of "f32[2, 3]", and its bytes."""
    dtype, _, sizes = text.partition("[")
    shape = [int(n) for n in re.findall(r"\d+", sizes)]
    digits = re.search(r"\d+", dtype)
    item = _BYTES.get(dtype) or (int(digits.group()) // 8 if digits else 1)
    return shape, item * math.prod(shape)


def _flops(op: str, shapes: list[list[int]], elements: int) -> int | None:
    """By the rule of the op's row; an op on elements is one operation for each."""
    row = ROWS.get(op)
    if row is None:
        return None
    if row.flops is not None:
        return int(row.flops(elements, *shapes))
    return elements if row.kind == "elementwise" else None


def events_of(recording: Recording, *, record_shapes: bool, with_stack: bool, with_flops: bool) -> list[FunctionEvent]:
    """Make events of what was noted, each below the one around it on its thread."""
    found: list[FunctionEvent] = []
    of_torch = repr(float32).startswith("torch.")
    for name, op, start, end, thread, file, line, _children, inputs, nbytes in recording.events:
        metas = [_meta(text) for text in inputs]
        result = max(nbytes - sum(size for _, size in metas), 0) if metas or op != "_JitLaunch" else 0
        shapes = [shape for shape, _ in metas]
        if of_torch and name == op:
            name = aten_name(op, shapes)
        item = metas[0][1] // (math.prod(shapes[0]) or 1) if metas else 0
        found.append(
            FunctionEvent(
                len(found),
                name,
                thread,
                start / 1000,
                end / 1000,
                input_shapes=shapes if record_shapes else (),
                stack=[f"{file}({line})"] if with_stack and file else (),
                cpu_memory_usage=result,
                flops=_flops(op, shapes, result // item) if with_flops and item else None,
            )
        )
    for part in recording.ranges:
        found.append(
            FunctionEvent(
                len(found), part.name, part.thread, part.start / 1000, part.end / 1000, is_user_annotation=True
            )
        )
    found.sort(key=lambda event: (event.time_range.start, -event.time_range.end, -event.is_user_annotation))
    around: dict[int, list[FunctionEvent]] = {}
    for number, event in enumerate(found):
        event.id = number + 1
        stack = around.setdefault(event.thread, [])
        while stack and stack[-1].time_range.end < event.time_range.end:
            stack.pop()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
        stack.append(event)
    for event in recording.gpu_events:
        place = [event.source] if with_stack and event.source else []
        made = FunctionEvent(
            len(found) + 1, event.name, event.stream, event.start / 1000, event.end / 1000, DeviceType.CUDA, stack=place
        )
        found.append(made)
    return found


def bytes_text(nbytes: int) -> str:
    """Return a number of bytes with its unit."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= factor:
            return f"{nbytes / factor:.2f} {unit}"
    return f"{nbytes} B"
