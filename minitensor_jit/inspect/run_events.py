"""The events of a run: the first and the last of them, and how long each line of the program took."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from minitensor._jit.entry_points import _kernels_of
from minitensor._profile.step_stats import Event, NodeExecStats

__all__ = ["LineTime", "RunEvents"]

_FIRST = 1500
_LAST = 3000


@dataclass(slots=True)
class LineTime:
    """What ran by itself, eagerly, for a line of the program."""

    runs: int = 0
    nanoseconds: int = 0
    ops: dict[str, list[int]] = field(default_factory=dict)
    """By op: how often it ran, and nanoseconds."""


class RunEvents:
    """Takes events as they come, and sums them up."""

    def __init__(self) -> None:
        self.first: list[Event] = []
        self.last: deque[Event] = deque(maxlen=_LAST)
        self.count = 0
        self.eager: dict[tuple[str, int], LineTime] = {}
        """By line: the ops that ran by themselves."""
        self.launches: dict[str, list[int]] = {}
        """By cluster: how often it was launched, and nanoseconds."""
        self.kernels: dict[int, list[NodeExecStats]] = {}
        """The kernels of launches that are still known, by the launch's start."""

    def add(self, events: list[Event]) -> None:
        """Take some more."""
        for event in events:
            name, op, start, end, _, file, line, children, _, _ = event
            self.count += 1
            if len(self.first) < _FIRST:
                self.first.append(event)
            else:
                self.last.append(event)
            if op == "_JitLaunch" or children:
                known = self.launches.setdefault(name, [0, 0])
                known[0] += 1
                known[1] += end - start
                continue
            entry = self.eager.setdefault((file or "", line or 0), LineTime())
            entry.runs += 1
            entry.nanoseconds += end - start
            by_op = entry.ops.setdefault(op, [0, 0])
            by_op[0] += 1
            by_op[1] += end - start
        self._kernels(events)

    def _kernels(self, events: list[Event]) -> None:
        """Of each cluster's last launch the kernels may still be known."""
        latest = {event[0]: event for event in events if event[7]}
        for name, event in latest.items():
            if found := _kernels_of(name, event[2], event[3]):
                self.kernels[event[2]] = found

    def finish(self) -> None:
        """No more come."""
        kept = {event[2] for event in (*self.first, *self.last)}
        self.kernels = {start: found for start, found in self.kernels.items() if start in kept}
