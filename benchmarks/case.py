"""What a benchmark case is: contenders that do the same, and goals for ours.

A case is a class with one static method a contender, named after it. The method prepares the data and returns what is
timed: a :class:`Snippet` of Python, or a :class:`Script` for a fresh interpreter. It runs in a process of its own for
each contender.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks import cases

OURS = "minitensor"

# Set by ``benchmarks.run --cpu-time``, in the environment because contenders are processes of their own.
CPU_TIME = "MINITENSOR_BENCHMARKS_CPU_TIME"


class Timed(Protocol):
    """Something that can run ``number`` times and tell how many seconds that took."""

    batch: int | None

    def seconds(self, number: int) -> float:
        """Return the seconds of ``number`` runs."""
        ...


class Snippet:
    """A statement, timed as it stands in a loop, without a call around it.

    ``setup`` runs before each loop. A loop has at most ``batch`` iterations; it runs within ``around()``, whose entry
    and exit are not timed.
    """

    def __init__(
        self,
        statement: str,
        *,
        setup: str = "pass",
        around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
        batch: int | None = None,
        **names: Any,
    ) -> None:
        self.batch = batch
        self._around = around
        clock = time.thread_time if os.environ.get(CPU_TIME) else time.perf_counter
        self._timer = timeit.Timer(statement, setup, clock, names)

    def seconds(self, number: int) -> float:
        """Run the statement ``number`` times."""
        total = 0.0
        while number > 0:
            size = min(number, self.batch or number)
            with self._around():
                total += self._timer.timeit(size)
            number -= size
        return total


class Queued:
    """A statement that gives a device work, timed with ``wait()``, which returns when all of it is done."""

    batch: int | None = None

    def __init__(self, statement: str, wait: Callable[[], object], **names: Any) -> None:
        self._timer = timeit.Timer(statement, globals=names)
        self._wait = wait

    def seconds(self, number: int) -> float:
        """Run the statement ``number`` times, one after the other on the device."""
        self._wait()
        start = time.perf_counter()
        self._timer.timeit(number)
        self._wait()
        return time.perf_counter() - start


class Script:
    """A program for a fresh interpreter, which prints the seconds that count."""

    batch: int | None = 1

    def __init__(self, code: str) -> None:
        self._code = code

    def seconds(self, number: int) -> float:
        """Run the program ``number`` times."""
        return sum(
            float(subprocess.run([sys.executable, "-c", self._code], check=True, capture_output=True, text=True).stdout)
            for _ in range(number)
        )


@dataclass(frozen=True)
class Goal:
    """Ours takes at most ``ratio`` of the peer's time, or, without a peer, at most ``seconds``."""

    peer: str | None = None
    ratio: float | None = None
    seconds: float | None = None

    def measured(self, medians: dict[str, float]) -> float | None:
        """Return the ratio or the seconds that count, or None if a contender is missing."""
        ours = medians.get(OURS)
        if ours is None or self.peer is None:
            return ours
        theirs = medians.get(self.peer)
        return None if theirs is None else ours / theirs

    def met(self, medians: dict[str, float]) -> bool | None:
        """Return whether the goal is met, or None if it can't be told."""
        measured = self.measured(medians)
        limit = self.ratio if self.peer else self.seconds
        return None if measured is None or limit is None else measured <= limit


@dataclass(frozen=True)
class Case:
    """A named case; ``contenders`` make what is timed."""

    name: str
    title: str
    goals: tuple[Goal, ...]
    contenders: dict[str, Callable[[], Timed]] = field(repr=False)
    group: str = ""
    device: str = "cpu"
    alone: bool = False  # in processes of its own, since it sets what they are started with


@dataclass(frozen=True)
class GroupGoal:
    """What the ratios of a group's cases to torch have to keep: their geometric mean, and each of them."""

    mean: float
    highest: float


CASES: dict[str, Case] = {}  # filled by load_cases()


def case(title: str, *goals: Goal, device: str = "cpu", alone: bool = False) -> Callable[[type], type]:
    """Register a class as a case of a device; its name is the class's. See `Case` for the rest."""

    def register(cls: type) -> type:
        contenders = {name: getattr(cls, name) for name in vars(cls) if not name.startswith("_")}
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")
        CASES[name] = Case(name, title, goals, contenders, device=device, alone=alone)
        return cls

    return register


def load_cases() -> dict[str, Case]:
    """Import the modules with cases and return all cases by name."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"benchmarks.cases.{module.name}")
    return CASES


def at_most(ratio: float, of: str) -> Goal:
    """Ours takes at most this part of the peer's time."""
    return Goal(peer=of, ratio=ratio)


def at_least(part: float, of: str) -> Goal:
    """Ours does at least this part of the peer's work in the same time."""
    return Goal(peer=of, ratio=1 / part)


def within(seconds: float) -> Goal:
    """Ours takes at most this time."""
    return Goal(seconds=seconds)
