"""What compiled code that was made for `--hlo_profile` counts about itself: runs and nanoseconds, kernel by kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["KernelCounter", "ModuleCounters"]

SourceOp = tuple[str, str, int]
"""An op of the user's program, its file and line; "" and 0 where they are not known."""


_NEVER = 2**63 - 1


def _cells() -> Any:
    return (ctypes.c_int64 * 5)(0, 0, _NEVER, 0, 0)


@dataclass(slots=True)
class KernelCounter:
    """One kernel, or call of the runtime: what it is, what it should cost, and what it took."""

    name: str
    kind: str
    """How it was made: loop, row, column, dot, ..."""
    nbytes: int = 0
    """What one run reads and writes."""
    flops: int = 0
    """How many operations on elements one run does; a function such as exp counts as one."""
    ops: tuple[SourceOp, ...] = ()
    arithmetic: str = ""
    """What a GPU does its operations with; empty on the host."""
    cells: Any = field(default_factory=_cells, repr=False)
    """Nanoseconds, runs, and nanoseconds of the fastest run; when the last run began, by the monotonic clock, and its
    nanoseconds. The code changes them, atomically."""

    @property
    def address(self) -> int:
        """Where the counts are."""
        return ctypes.addressof(self.cells)

    @property
    def nanoseconds(self) -> int:
        """How long all runs took."""
        return int(self.cells[0])

    @property
    def runs(self) -> int:
        """How often it ran."""
        return int(self.cells[1])

    @property
    def fastest(self) -> int:
        """How many nanoseconds the fastest run took; 0 if there was none."""
        return int(self.cells[2]) if self.cells[1] else 0

    @property
    def last(self) -> tuple[int, int]:
        """When the last run began and ended, by the system's monotonic clock; on the host only."""
        begin, taken = int(self.cells[3]), int(self.cells[4])
        return begin, begin + taken

    def add(self, nanoseconds: int) -> None:
        """Count one run."""
        self.cells[0] += nanoseconds
        self.cells[1] += 1
        self.cells[2] = min(self.cells[2], nanoseconds)

    def clear(self) -> None:
        """Begin anew."""
        self.cells[:] = [0, 0, _NEVER, 0, 0]


@dataclass(slots=True)
class ModuleCounters:
    """The counts of one compiled module. It must live as long as the code, which has the addresses."""

    name: str
    whole: KernelCounter
    kernels: list[KernelCounter] = field(default_factory=list)
    device: str = "cpu"
    """What it runs on."""
    roof: Callable[[], Any] | None = field(default=None, repr=False)
    """Measures what a GPU can do; None for the host."""
