"""What ran during a step: the record that a traced session run returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter

CPU_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"

GPU_DEVICE = "/job:localhost/replica:0/task:0/device:GPU"

# name, op, start in ns, end in ns, thread, file, line, source ops (name, op, file, line) of a launch, inputs, bytes
Event = tuple[
    str, str, int, int, int, str | None, int | None, list[tuple[str, str, str | None, int]] | None, list[str], int
]


@dataclass
class NodeExecStats:
    """One op that ran.

    ``inputs`` are the names of the nodes that made the operands or, where these are not known, the operands' types.
    ``source`` is the user's "file:line", or empty where it is not known. ``bytes`` is what the op reads and writes.

    ``children`` of a launch of compiled code are its kernels, if these measure themselves (``--hlo_profile``), and the
    children of a kernel its source ops; else they are its source ops. Source ops are not timed: their durations are 0.
    """

    node_name: str
    op: str
    start_us: float
    duration_us: float
    thread_id: int = 0
    inputs: list[str] = field(default_factory=list)
    source: str = ""
    children: list[NodeExecStats] = field(default_factory=list)
    bytes: int = 0


@dataclass
class DeviceStepStats:
    """What ran on one device, in the order of its start."""

    device: str
    node_stats: list[NodeExecStats] = field(default_factory=list)


@dataclass
class StepStats:
    """What ran during a step, on all devices."""

    dev_stats: list[DeviceStepStats] = field(default_factory=list)


def from_events(
    events: Iterable[Event],
    device: str = CPU_DEVICE,
    kernels: Callable[[str, int, int], list[NodeExecStats]] = lambda name, start_ns, end_ns: [],
) -> StepStats:
    """Make the record of one device from the events of the core; the second ``add`` becomes ``add_1``, and so on.

    ``kernels`` are those of the launch of that name between two times, where they are known.
    """
    nodes = []
    seen: Counter[str] = Counter()
    for name, op, start_ns, end_ns, thread, file, line, source_ops, inputs, nbytes in sorted(events, key=itemgetter(2)):
        start, duration = start_ns / 1000, (end_ns - start_ns) / 1000
        children = kernels(name, start_ns, end_ns) if source_ops else []
        children = children or [
            NodeExecStats(child_name, child_op, start, 0.0, thread, source=source_of(child_file, child_line))
            for child_name, child_op, child_file, child_line in source_ops or ()
        ]
        unique = f"{name}_{seen[name]}" if seen[name] else name
        seen[name] += 1
        nodes.append(
            NodeExecStats(unique, op, start, duration, thread, list(inputs), source_of(file, line), children, nbytes)
        )
    return StepStats([DeviceStepStats(device, nodes)])


@dataclass
class GpuEvent:
    """A kernel or a copy on a GPU. Times are nanoseconds of the host's clock."""

    device: int
    stream: int
    name: str
    kind: str
    """The sort of kernel, or `memcpy`."""
    start: int = 0
    end: int = 0
    nbytes: int = 0
    source: str = ""


def from_gpus(events: Iterable[GpuEvent]) -> list[DeviceStepStats]:
    """Make a record of every stream of every GPU, and of the copies of each: lanes as TensorFlow has them."""
    lanes: dict[str, list[NodeExecStats]] = {}
    for event in sorted(events, key=lambda event: event.start):
        gpu = f"{GPU_DEVICE}:{event.device}"
        lane = f"{gpu}/memcpy" if event.kind == "memcpy" else f"{gpu}/stream:{event.stream}"
        node = NodeExecStats(
            event.name,
            "_Copy" if event.kind == "memcpy" else event.kind or "kernel",
            event.start / 1000,
            (event.end - event.start) / 1000,
            event.stream,
            source=event.source,
            bytes=event.nbytes,
        )
        lanes.setdefault(lane, []).append(node)
    return [DeviceStepStats(lane, nodes) for lane, nodes in sorted(lanes.items())]


def source_of(file: str | None, line: int | None) -> str:
    """Return a place in the program as the record has it."""
    return f"{file}:{line}" if file else ""
