"""The lines of the program: how many of their ops were compiled, how long they took, and why not more was."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minitensor_jit.inspect.report_page.table import Table
from minitensor_jit.inspect.run_events import LineTime

__all__ = ["lines_of", "sources_of"]

_LARGEST_SOURCE = 400_000
_MOST_SOURCES = 30


@dataclass
class _Line:
    compiled: int = 0
    eager: int = 0
    compiled_seconds: float = 0.0
    eager_seconds: float = 0.0
    ops: dict[str, list[int]] = field(default_factory=dict)
    """By op: how often it ran compiled, and eagerly."""
    clusters: dict[str, None] = field(default_factory=dict)
    reasons: dict[int, None] = field(default_factory=dict)

    def count(self, op: str, compiled: int, eager: int) -> None:
        self.compiled += compiled
        self.eager += eager
        counts = self.ops.setdefault(op, [0, 0])
        counts[0] += compiled
        counts[1] += eager


def lines_of(
    account: dict[str, Any],
    profile: dict[str, Any] | None,
    eager: dict[tuple[str, int], LineTime],
    files: Table[str],
) -> list[dict[str, Any]]:
    """Every line of the program that called an op, those that took longest first.

    The time of a kernel is divided among the ops that were fused into it, in equal parts.
    """
    found: dict[tuple[str, int], _Line] = {}

    def at(row: dict[str, Any]) -> _Line:
        return found.setdefault((row["file"] or "", row["line"] or 0), _Line())

    for cluster in account["clusters"]:
        for row in cluster["ops"]:
            at(row).count(row["op"], row["count"] * cluster["runs"], 0)
            at(row).clusters[cluster["names"][0]] = None
    for number, group in enumerate(account["eager"]):
        for row in group["ops"]:
            at(row).count(row["op"], 0, row["count"])
            at(row).reasons[number] = None
    for cluster in profile["clusters"] if profile is not None else ():
        for kernel in cluster["kernels"]:
            for row in kernel["ops"]:
                at(row).compiled_seconds += kernel["seconds"] / len(kernel["ops"])
    recorded = set(found)
    for (file, line), time in eager.items():
        entry = found.setdefault((file, line), _Line())
        entry.eager_seconds += time.nanoseconds / 1e9
        if (file, line) not in recorded:
            # What was never recorded is not in the account.
            for op, (runs, _) in time.ops.items():
                entry.count(op, 0, runs)
    ordered = sorted(found.items(), key=lambda item: -(item[1].compiled_seconds + item[1].eager_seconds))
    return [
        {
            "file": files(file) if file else -1,
            "line": line,
            "compiled": one.compiled,
            "eager": one.eager,
            "compiled_seconds": one.compiled_seconds,
            "eager_seconds": one.eager_seconds,
            "ops": one.ops,
            "clusters": list(one.clusters),
            "reasons": list(one.reasons),
        }
        for (file, line), one in ordered
    ]


def sources_of(files: Iterable[str]) -> dict[int, list[str]]:
    """The texts of the program's files, by their number, without those of libraries."""
    found: dict[int, list[str]] = {}
    library = os.path.dirname(os.__file__)
    for number, file in enumerate(files):
        if len(found) >= _MOST_SOURCES or file.startswith((library, "<")) or "/site-packages/" in file:
            continue
        path = Path(file)
        try:
            if path.stat().st_size <= _LARGEST_SOURCE:
                found[number] = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
    return found
