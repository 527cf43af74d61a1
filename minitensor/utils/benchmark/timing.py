"""The timer."""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable
from enum import Enum
from typing import Any

import minitensor
from minitensor import cuda
from minitensor._C import get_num_threads, set_num_threads
from minitensor.utils.benchmark.measurement import Measurement, TaskSpec

__all__ = ["Language", "Timer", "timer"]


class Language(Enum):
    """What the code that is timed is written in."""

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """Return the time in seconds, after all that GPUs were given has run."""
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


class Timer:
    """Times a statement as Python's ``timeit`` does, with so many threads of the library, after a warm-up.

    ``stmt`` runs after ``setup`` with the names of ``globals``, and ``minitensor`` under its own. ``label``,
    ``sub_label``, ``description`` and ``env`` are what tables call it. NotImplementedError for C++.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        names = {Language.PYTHON: Language.PYTHON, "py": Language.PYTHON, "python": Language.PYTHON}
        if language not in names:
            raise NotImplementedError(f"Timer: statements in Python are timed, not in {language}")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._timer = timeit.Timer(stmt, setup or "pass", timer, {"minitensor": minitensor} | (globals or {}))
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _time(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Return the time of ``number`` executions."""
        self._time(number=max(int(number // 100), 2))
        return Measurement(number, [self._time(number)], self._task_spec)

    def _block(self, min_run_time: float) -> int:
        """How many executions take long enough to be timed: a thousandth of the whole, or more."""
        self._time(2)
        number = 1
        while True:
            taken = self._time(number)
            if taken >= min_run_time / 1000 and taken >= 1e-4:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Return times of blocks of executions until together they took ``min_run_time`` seconds."""
        number = self._block(min_run_time)
        return self._collect(number, min_run_time, callback, lambda _: True)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """The same until the interquartile range is below ``threshold`` of the median, or ``max_run_time`` is over."""
        number = self._block(min_run_time)

        def enough(times: list[float]) -> bool:
            return len(times) > 3 and Measurement(number, times, self._task_spec).meets_confidence(threshold)

        return self._collect(number, min_run_time, callback, enough, max_run_time)

    def _collect(
        self,
        number: int,
        least: float,
        callback: Callable[[int, float], Any] | None,
        enough: Callable[[list[float]], bool],
        most: float = float("inf"),
    ) -> Measurement:
        times: list[float] = []
        while sum(times) < least or (not enough(times) and sum(times) < most):
            times.append(self._time(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """NotImplementedError: `blocked_autorange` takes its place."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def collect_callgrind(self, *_args: Any, **_kwargs: Any) -> Any:
        """NotImplementedError: instructions are not counted."""
        raise NotImplementedError(
            "Timer.collect_callgrind: instructions are not counted; run the script under `valgrind --tool=callgrind`"
        )
