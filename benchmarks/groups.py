"""Cases in groups: their lines, the groups' means, and what misses its goal."""

from __future__ import annotations

import statistics

from benchmarks.case import OURS, Case
from benchmarks.op_case import GROUPS
from benchmarks.report import duration


def line(case: Case, figures: dict[str, float], problems: dict[str, str]) -> str:
    """Return the one line of a case: name, our time, torch's time, ratio, and a mark if it is above its limit."""
    if OURS not in figures or "torch" not in figures:
        problem = next(iter(problems.values()), "-").strip().splitlines()[-1]
        return f"{case.name:<42} {next(iter(problems), '')}: {problem[:100]}"
    ratio = figures[OURS] / figures["torch"]
    mark = " !" if ratio > GROUPS[case.group].highest else ""
    return f"{case.name:<42} {duration(figures[OURS]):>9} {duration(figures['torch']):>9} {ratio:7.3f}{mark}"


def _by_group(cases: dict[str, Case], ratios: dict[str, float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, ratio in ratios.items():
        found.setdefault(cases[name].group, {})[name] = ratio
    return found


def _met(group: str, ratios: dict[str, float]) -> tuple[bool, bool]:
    goal = GROUPS[group]
    return statistics.geometric_mean(ratios.values()) <= goal.mean, max(ratios.values()) <= goal.highest


def all_met(cases: dict[str, Case], ratios: dict[str, float]) -> bool:
    """Return whether every group keeps its mean and its limit."""
    return all(all(_met(group, found)) for group, found in _by_group(cases, ratios).items())


def summary(cases: dict[str, Case], ratios: dict[str, float]) -> str:
    """Return a table of the groups, and the cases above their limits, worst first."""
    lines = [
        "| group | cases | geometric mean | goal | highest | limit | above the limit |",
        "|---|---|---|---|---|---|---|",
    ]
    above: list[tuple[float, str]] = []
    for group, found in _by_group(cases, ratios).items():
        goal = GROUPS[group]
        mean, highest = statistics.geometric_mean(found.values()), max(found.values())
        missed = [(ratio, name) for name, ratio in found.items() if ratio > goal.highest]
        mean_met, _ = _met(group, found)
        shown = f"{mean:.3f}" if mean_met else f"**{mean:.3f}**"
        shown_highest = f"**{highest:.2f}**" if missed else f"{highest:.2f}"
        lines.append(
            f"| {group} | {len(found)} | {shown} | {goal.mean:g} | {shown_highest} | {goal.highest:g} | {len(missed)} |"
        )
        above += missed
    if above:
        lines.append("\nAbove the limit of the group:")
        lines += [f"  {name:<42} {ratio:6.2f}" for ratio, name in sorted(above, reverse=True)]
    return "\n".join(lines)
