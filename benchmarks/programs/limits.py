"""What the flags may cost a program, and what they must win where there is something to win."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping

EAGER = "eager"
AMONG_WINNERS = 0.7
"""The geometric mean of the ratios of programs that have something to win, from disk."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """A run with the flags may take the larger of `ratio` times the eager time and `extra` seconds more."""

    ratio: float
    extra: float

    def met(self, seconds: float, eager: float) -> bool:
        """Whether it took no longer."""
        return seconds <= max(self.ratio * eager, eager + self.extra)


LIMITS = {
    "level 1": Limit(1.05, 0.05),
    "level 1 again": Limit(1.02, 0.02),
    "level 2": Limit(1.1, 0.15),
    "level 2 again": Limit(1.02, 0.02),
}
"""The runs with the flags by name; those named "again" find what the run before them left on disk."""


def missed(medians: Mapping[str, float]) -> list[str]:
    """Return the names of the runs that took too long."""
    return [name for name, limit in LIMITS.items() if name in medians and not limit.met(medians[name], medians[EAGER])]


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the mean of ratios; NaN if there are none."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def summary(medians: Mapping[str, Mapping[str, float]], winners: set[str]) -> list[str]:
    """Return a line for each run with the flags: how many programs met its limit, and the means."""
    lines = []
    for name, limit in LIMITS.items():
        ratios = {program: times[name] / times[EAGER] for program, times in medians.items() if name in times}
        if not ratios:
            continue
        good = sum(limit.met(medians[program][name], medians[program][EAGER]) for program in ratios)
        mean = geometric_mean(ratio for program, ratio in ratios.items() if program in winners)
        median, worst = statistics.median(ratios.values()), max(ratios.values())
        lines.append(
            f"{name:<14} {good} of {len(ratios)} within max({limit.ratio:g}x, +{limit.extra * 1e3:.0f} ms); "
            f"median {median:.3f}, worst {worst:.2f}; those with something to win {mean:.3f}"
        )
    return lines


def winners_met(medians: Mapping[str, Mapping[str, float]], winners: set[str]) -> bool:
    """Whether those that have something to win do so at either level; true if there are none."""
    for way in LIMITS:
        ratios = [
            times[way] / times[EAGER] for program, times in medians.items() if program in winners and way in times
        ]
        if way.endswith("again") and geometric_mean(ratios) > AMONG_WINNERS:
            return False
    return True
