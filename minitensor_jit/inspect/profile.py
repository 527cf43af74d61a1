"""The profile of compiled code, for `--hlo_profile`: where the time went, by cluster and by kernel.

Modules that were compiled to measure themselves are entered with `register`; `HloProfile` is what they counted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from minitensor import _forks
from minitensor_jit.inspect.machine import Machine, measure
from minitensor_jit.runtime.kernel_counters import KernelCounter, ModuleCounters

__all__ = ["HloProfile", "clear", "kernels_between", "register"]

_lock = _forks.lock()
_modules: list[ModuleCounters] = []


def register(counters: ModuleCounters) -> None:
    """Enter a module; its counts are kept when its code is forgotten."""
    with _lock:
        _modules.append(counters)


def clear() -> None:
    """Begin anew: all counts are zero, and modules that ran before are forgotten unless they run again."""
    with _lock:
        for module in _modules:
            for counter in (module.whole, *module.kernels):
                counter.clear()


def kernels_between(name: str, begin: int, end: int) -> list[KernelCounter]:
    """The kernels of a launch, if it was the last one of its cluster, in the order in which they began.

    `begin` and `end` are nanoseconds of the system's monotonic clock around it.
    """
    with _lock:
        modules = [m for m in _modules if m.name == name and m.whole.runs]
    for module in modules:
        if begin <= module.whole.last[0] <= end:
            ran = [k for k in module.kernels if k.runs and begin <= k.last[0] and k.last[1] <= end]
            return sorted(ran, key=lambda k: k.last)
    return []


class Roof(Protocol):
    """What a machine, or a GPU, can do."""

    def seconds(self, nbytes: int, flops: int, arithmetic: str, /) -> float:
        """The least time for so many bytes and operations."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What `json` can write of it."""
        ...


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel's counts at one time."""

    name: str
    kind: str
    runs: int
    seconds: float
    fastest: float
    nbytes: int
    flops: int
    ops: tuple[tuple[str, str, int], ...]
    arithmetic: str

    @property
    def each(self) -> float:
        """Seconds of one run."""
        return self.seconds / self.runs if self.runs else 0.0

    def roofline(self, roof: Roof) -> float:
        """The least time for its bytes and flops, as a share of what its fastest run took."""
        return roof.seconds(self.nbytes, self.flops, self.arithmetic) / self.fastest if self.fastest else 0.0


@dataclass(frozen=True, slots=True)
class _Cluster:
    name: str
    runs: int
    seconds: float
    kernels: tuple[_Kernel, ...]
    device: str
    roof: Callable[[], Roof] | None


def _kernel(counter: KernelCounter) -> _Kernel:
    return _Kernel(
        counter.name,
        counter.kind,
        counter.runs,
        counter.nanoseconds / 1e9,
        # A clock that shows the same twice: it took less than a step of it.
        max(counter.fastest, 1) / 1e9,
        counter.nbytes,
        counter.flops,
        counter.ops,
        counter.arithmetic,
    )


class HloProfile:
    """What compiled code has counted so far. Prints as a table; `to_json()` for programs."""

    def __init__(self, machine: Callable[[], Machine] = measure) -> None:
        gpus = sys.modules.get("minitensor_jit.runtime.cuda.profile")
        if gpus is not None:
            gpus.settle_counters()
        with _lock:
            found = [
                _Cluster(
                    module.name,
                    module.whole.runs,
                    module.whole.nanoseconds / 1e9,
                    tuple(_kernel(counter) for counter in module.kernels if counter.runs),
                    module.device,
                    module.roof,
                )
                for module in _modules
                if module.whole.runs
            ]
        self._clusters = sorted(found, key=lambda cluster: -cluster.seconds)
        self._machine = machine

    def _roofs(self) -> dict[str, Roof]:
        """By the device, of those that have run something."""
        ask = {cluster.device: cluster.roof or self._machine for cluster in self._clusters}
        return {device: ask[device]() for device in sorted(ask)}

    @property
    def seconds(self) -> float:
        """The time spent in compiled code."""
        return sum(cluster.seconds for cluster in self._clusters)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as objects that `json` can write."""
        roofs = self._roofs()
        return {
            "version": 1,
            "seconds": self.seconds,
            "machine": roofs["cpu"].to_json() if "cpu" in roofs else None,
            "gpus": {name: roof.to_json() for name, roof in roofs.items() if name != "cpu"},
            "clusters": [
                {
                    "name": cluster.name,
                    "device": cluster.device,
                    "runs": cluster.runs,
                    "seconds": cluster.seconds,
                    "kernels": [
                        {
                            "name": kernel.name,
                            "kind": kernel.kind,
                            "runs": kernel.runs,
                            "seconds": kernel.seconds,
                            "fastest_seconds": kernel.fastest,
                            "bytes_per_run": kernel.nbytes,
                            "flops_per_run": kernel.flops,
                            "roofline": kernel.roofline(roofs[cluster.device]),
                            "ops": [{"op": op, "file": file or None, "line": line} for op, file, line in kernel.ops],
                        }
                        for kernel in cluster.kernels
                    ],
                }
                for cluster in self._clusters
            ],
        }

    def text(self, root: str | None = None, limit: int = 24) -> str:
        """Return the profile for people.

        Files are named relative to `root`, by default the working directory; lists are cut at `limit` lines.
        """
        if not self._clusters:
            return "HLO profile: no compiled code has run that was made to measure itself (--hlo_profile).\n"
        roofs = self._roofs()
        runs = sum(cluster.runs for cluster in self._clusters)
        lines = [
            f"HLO profile: {_time(self.seconds)} in compiled code, {runs:,} runs of {len(self._clusters):,} clusters",
            *(f"The roof{'' if name == 'cpu' else ' of ' + name}: {roof}" for name, roof in roofs.items()),
        ]
        for cluster in self._clusters[:limit]:
            share = 100 * cluster.seconds / self.seconds if self.seconds else 0.0
            lines += [
                "",
                f"{cluster.name}: {share:.1f} % of the time, {_time(cluster.seconds)} in {cluster.runs:,} runs, "
                f"{_time(cluster.seconds / cluster.runs)} each",
                *_table(cluster, roofs[cluster.device], os.getcwd() if root is None else root, limit),
            ]
        if len(self._clusters) > limit:
            lines += ["", f"... and {len(self._clusters) - limit:,} clusters more"]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


_HEADER = ("time", "each", "fastest", "bytes", "GB/s", "flops", "Gflop/s", "roofline", "kernel", "")


def _table(cluster: _Cluster, roof: Roof, root: str, limit: int) -> list[str]:
    kernels = sorted(cluster.kernels, key=lambda kernel: -kernel.seconds)
    rows = [_HEADER]
    for kernel in kernels[:limit]:
        share = 100 * kernel.seconds / cluster.seconds if cluster.seconds else 0.0
        rows.append(
            (
                f"{share:.1f} %",
                _time(kernel.each),
                _time(kernel.fastest),
                f"{kernel.nbytes:,}",
                f"{kernel.nbytes / kernel.fastest / 1e9:.1f}",
                f"{kernel.flops:,}",
                f"{kernel.flops / kernel.fastest / 1e9:.1f}",
                f"{100 * kernel.roofline(roof):.0f} %",
                kernel.name,
                f"({kernel.kind})" + (f" x{kernel.runs / cluster.runs:g}" if kernel.runs != cluster.runs else ""),
            )
        )
    numbers = 8  # columns that stand at the right
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines: list[str] = []
    for place, row in enumerate(rows):
        cells = [
            cell.rjust(width) if column < numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
        if place:
            lines += [f"      {line}" for line in _sources(kernels[place - 1].ops, root)]
    if len(kernels) > limit:
        lines.append(f"  ... and {len(kernels) - limit:,} kernels more")
    rest = cluster.seconds - sum(kernel.seconds for kernel in kernels)
    if rest > 0:
        share = 100 * rest / cluster.seconds
        lines.append(f"  {share:.1f} % between the kernels")
    return lines


def _sources(ops: Sequence[tuple[str, str, int]], root: str) -> list[str]:
    """A line for each line of the program: the ops of it that the kernel has."""
    by_place: dict[tuple[str, int], list[str]] = {}
    for op, file, line in ops:
        names = by_place.setdefault((file, line), [])
        if op not in names:
            names.append(op)
    prefix = root.rstrip(os.sep) + os.sep
    return [
        f"{file.removeprefix(prefix) + ':' + str(line) if file else '(unknown place)'}  {', '.join(names)}"
        for (file, line), names in sorted(by_place.items())
    ]


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
