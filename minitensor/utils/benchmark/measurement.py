"""What was timed, and how long it took."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["Measurement", "TaskSpec", "ordered_unique", "select_unit", "trim_sigfig", "unit_to_english"]

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
_NOISY = 0.1  # of the median: an interquartile range above it is warned of
_MOST_FIGURES = 5


def select_unit(seconds: float) -> tuple[str, float]:
    """Return the unit that shows a time best, and how many seconds it has."""
    for unit, size in _UNITS.items():
        if seconds >= size:
            return unit, size
    return "ns", _UNITS["ns"]


def unit_to_english(unit: str) -> str:
    """Return the name of "s", "ms", "us" or "ns"."""
    return _NAMES[unit]


def trim_sigfig(x: float, n: int) -> float:
    """Return a number rounded to ``n`` significant figures."""
    if x == 0 or not math.isfinite(x):
        return x
    return float(f"{x:.{max(n, 1) - 1}e}")


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Return the elements that differ, in the order of their first places."""
    return list(dict.fromkeys(elements))


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """The code that is timed, and what tables call it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and the label below it, or the code."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt

    def setup_str(self) -> str:
        """Return the code before the loop, as a text for people."""
        if self.setup == "pass" or not self.setup:
            return ""
        return f"setup:\n  {self.setup}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return the title and the setup."""
        return "\n".join(part for part in (self.title, self.setup_str()) if part)


class Measurement:
    """Times of several runs, ``raw_times`` in seconds, each of ``number_per_run`` executions."""

    def __init__(
        self,
        number_per_run: int,
        raw_times: list[float],
        task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ) -> None:
        self.number_per_run = number_per_run
        self.raw_times = raw_times
        self.task_spec = task_spec
        self.metadata = metadata

    def __getattr__(self, name: str) -> Any:
        # What was timed is asked here too: label, stmt and so on.
        if name != "task_spec" and hasattr(self.task_spec, name):
            return getattr(self.task_spec, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, for each run."""
        return [time / self.number_per_run for time in self.raw_times]

    def _sorted(self) -> list[float]:
        if not self.raw_times:
            raise AssertionError("Measurement has no times")
        return sorted(self.times)

    @property
    def mean(self) -> float:
        """The mean of ``times``."""
        return statistics.fmean(self._sorted())

    @property
    def median(self) -> float:
        """The median of ``times``."""
        return statistics.median(self._sorted())

    def _quantile(self, q: float) -> float:
        times = self._sorted()
        place = q * (len(times) - 1)
        below = math.floor(place)
        above = min(below + 1, len(times) - 1)
        return times[below] + (times[above] - times[below]) * (place - below)

    @property
    def iqr(self) -> float:
        """The interquartile range of ``times``."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something: those above the error of the median, 1 to 5.

        The error is taken to be 1.57 * IQR / sqrt(n), the notch of a box plot (McGill, Tukey and Larsen, 1978).
        """
        if len(self.raw_times) < 3 or self.median <= 0:
            return 1
        error = 1.57 * self.iqr / math.sqrt(len(self.raw_times)) / self.median
        return _MOST_FIGURES if error <= 0 else max(1, min(_MOST_FIGURES, math.floor(-math.log10(error)) + 1))

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary more than ``meets_confidence`` allows."""
        return len(self.raw_times) > 1 and not self.meets_confidence()

    def meets_confidence(self, threshold: float = _NOISY) -> bool:
        """Return whether the interquartile range is less than this part of the median."""
        return self.median > 0 and self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was timed."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What its row in a table is called."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @property
    def env(self) -> str:
        """What it ran in; "Unspecified env" if nobody said."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    def __repr__(self) -> str:
        spec = self.task_spec
        lines = [object.__repr__(self), spec.summarize()]
        if spec.description:
            lines.append(spec.description)
        unit, size = select_unit(self.median)
        n = len(self.raw_times)
        if n > 1:
            low, high = self._quantile(0.25) / size, self._quantile(0.75) / size
            lines.append(
                f"  {'Median: ' if n >= 3 else 'Mean: '}{(self.median if n >= 3 else self.mean) / size:.2f} {unit}"
            )
            if n >= 3:
                lines.append(f"  IQR:    {self.iqr / size:.2f} {unit} ({low:.2f} to {high:.2f})")
        else:
            lines.append(f"  {self.median / size:.2f} {unit}")
        threads = f"{spec.num_threads} thread{'s' if spec.num_threads > 1 else ''}"
        lines.append(f"  {n} measurement{'s' if n > 1 else ''}, {self.number_per_run} runs per measurement, {threads}")
        if self.has_warnings:
            lines.append(
                f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median measurement.\n"
                "           This could indicate system fluctuation."
            )
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Return one measurement for each task, with the times of all."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)

        def merged() -> Iterator[Measurement]:
            for spec, ones in groups.items():
                yield Measurement(1, [time for one in ones for time in one.times], spec)

        return list(merged())
