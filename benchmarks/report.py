"""The results as text."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata

from benchmarks.case import OURS, Case, Goal

PACKAGES = ("minitensor", "numpy", "torch", "jax", "tensorflow-cpu", "numba", "llvmlite")


def header(command: str, cpus: list[int]) -> dict[str, str]:
    """Say when, where and with what was measured."""
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} -")
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": f"{cpu_model()}, {os.cpu_count()} CPUs, of which {len(cpus)} used",
        "load": f"{os.getloadavg()[0]:.2f} before the first round",
        "versions": f"Python {platform.python_version()}, " + ", ".join(versions),
        "command": command,
    }


def cpu_model() -> str:
    """Return the processor's name as Linux knows it, with its instruction sets for vectors."""
    name, flags = platform.machine(), ""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    name = value.strip()
                elif key.strip() == "flags":
                    flags = value
                    break
    except OSError:
        pass
    known = [flag for flag in ("avx2", "fma", "avx512f") if flag in flags.split()]
    return f"{name} ({', '.join(known)})" if known else name


def duration(seconds: float) -> str:
    """Format a time with three significant digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def rows(case: Case, medians: dict[str, float], problems: dict[str, str]) -> list[tuple[str, ...]]:
    """Return the lines of a case: contender, time, ratio, goal, whether it is met."""
    lines = []
    own_goals = [goal for goal in case.goals if goal.peer is None]
    lines.append((OURS, _time(OURS, medians, problems), "", *_own_goal(own_goals, medians)))
    for name in case.contenders:
        if name == OURS:
            continue
        goal = next((goal for goal in case.goals if goal.peer == name), None)
        ratio = f"{medians[OURS] / medians[name]:.3f}" if OURS in medians and name in medians else "-"
        lines.append((name, _time(name, medians, problems), ratio, *_peer_goal(goal, medians)))
    return lines


def _time(name: str, medians: dict[str, float], problems: dict[str, str]) -> str:
    return duration(medians[name]) if name in medians else problems.get(name, "-").strip().splitlines()[-1][:60]


def _own_goal(goals: list[Goal], medians: dict[str, float]) -> tuple[str, str]:
    return (f"<= {duration(goals[0].seconds)}", _mark(goals[0].met(medians))) if goals else ("", "")


def _peer_goal(goal: Goal | None, medians: dict[str, float]) -> tuple[str, str]:
    return (f"<= {goal.ratio:.3g}", _mark(goal.met(medians))) if goal else ("", "")


def _mark(met: bool | None) -> str:
    return "?" if met is None else "pass" if met else "FAIL"


def table(lines: list[tuple[str, ...]]) -> str:
    """Lay out lines of a case below each other."""
    widths = (12, 12, 8, 10, 5)
    return "\n".join(
        "  "
        + "  ".join(
            f"{cell:>{w}}" if i else f"{cell:<{w}}" for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
