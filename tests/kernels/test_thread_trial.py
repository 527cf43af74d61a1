"""Whether several threads are faster is tried out (csrc/core/process/thread_trial.h): here by a clock of our own."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "csrc"
UNKNOWN, ALONE, TOGETHER, WAKE = range(4)
# What a test calls, by the times that it gives.
INTERFACE = """
#include "core/process/thread_trial.h"
using mt::ThreadTrial;
static ThreadTrial::Time at(long ns) { return ThreadTrial::Time(std::chrono::nanoseconds(ns)); }
extern "C" {
ThreadTrial* make() { return new ThreadTrial; }
void drop(ThreadTrial* trial) { delete trial; }
int begin(ThreadTrial* trial, long body, long n, long ns, bool frequent, bool brief) {
    return static_cast<int>(trial->begin({reinterpret_cast<const void*>(body), n, 1, 2}, at(ns), frequent, brief));
}
void end(ThreadTrial* trial, long ns) { trial->end(at(ns)); }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("trial")
    (folder / "interface.cpp").write_text(INTERFACE)
    command = [*shlex.split(os.environ.get("CXX", "g++")), "-std=c++20", "-O1", "-fPIC", "-shared", f"-I{SOURCES}"]
    sources = [folder / "interface.cpp", SOURCES / "core/process/thread_trial.cpp"]
    subprocess.run([*command, *sources, "-o", folder / "trial.so"], check=True)
    library = ctypes.CDLL(str(folder / "trial.so"))
    library.make.restype = ctypes.c_void_p
    library.begin.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_long]
    library.begin.argtypes += [ctypes.c_bool, ctypes.c_bool]
    library.end.argtypes = [ctypes.c_void_p, ctypes.c_long]
    library.drop.argtypes = [ctypes.c_void_p]
    return library


Cost = tuple[float, float]  # microseconds of a loop itself, and of what comes after it


class Program:
    """A program whose loops take what a test says, alone and together, on a clock of its own."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.trial = library, library.make()
        self.now = 1_000_000_000.0
        self.frequent = self.brief = True

    def loop(self, alone: Cost, together: Cost, kind: int = 1) -> int:
        """Run one; what was chosen for it."""
        chosen: int = self.library.begin(self.trial, 8 * kind, kind, int(self.now), self.frequent, self.brief)
        itself, after = together if chosen in (TOGETHER, WAKE) else alone
        self.now += 1000 * itself
        self.library.end(self.trial, int(self.now))
        self.now += 1000 * after
        return chosen

    def run(self, milliseconds: float, alone: Cost, together: Cost) -> Counter[int]:
        """So long; the time of each choice, in per cent."""
        times: Counter[int] = Counter()
        ends = self.now + 1e6 * milliseconds
        while self.now < ends:
            began = self.now
            chosen = self.loop(alone, together)
            times[chosen] += self.now - began  # type: ignore[assignment]
        return Counter({k: round(100 * t / sum(times.values()), 1) for k, t in times.items()})  # type: ignore[misc]


@pytest.fixture
def program(library: ctypes.CDLL) -> Iterator[Program]:
    made = Program(library)
    yield made
    library.drop(made.trial)


def _settled(program: Program, loops: Callable[[], object]) -> int:
    """What is chosen after a trial."""
    ends = program.now + 20e6
    while program.now < ends:
        loops()
    return program.loop((5, 1), (5, 1))


def test_the_faster_way_is_chosen(program: Program) -> None:
    assert _settled(program, lambda: program.loop((10, 2), (6, 2))) == TOGETHER


def test_one_thread_is_enough_where_several_save_nothing(program: Program) -> None:
    assert _settled(program, lambda: program.loop((10, 2), (10, 2))) == ALONE


def test_what_comes_after_a_loop_counts(program: Program) -> None:
    """It has to fetch what the loop wrote from another core's cache."""
    assert _settled(program, lambda: program.loop((10, 2), (6, 7))) == ALONE


@pytest.mark.parametrize("faster", [ALONE, TOGETHER])
def test_a_pause_counts_in_part(program: Program, faster: int) -> None:
    """Otherwise a program's other work, which happens to come after the faster one here, would hide any difference."""
    turns = iter(range(10**9))

    def loop() -> None:
        quick, slow = (6.0, 2.0 + 60 * (next(turns) % 10 == 0)), (10.0, 2.0)
        program.loop(*((quick, slow) if faster == ALONE else (slow, quick)))

    assert _settled(program, loop) == faster


def test_loops_are_compared_with_their_kind(program: Program) -> None:
    """More of the long ones happen to run together; each is a little faster so."""
    choices: Counter[int] = Counter()

    def loops() -> None:
        chosen = program.loop((10, 1), (8, 1), kind=1)
        for _ in range(3 if chosen == WAKE else 1):
            choices[program.loop((40, 1), (32, 1), kind=2)] += 1

    assert _settled(program, loops) == TOGETHER
    assert choices[WAKE] > choices[ALONE] > 0


def test_kinds_count_by_their_loops(program: Program) -> None:
    """Many short ones are faster together; of a few longer ones, each loses more than one of the others wins."""
    turns = iter(range(10**9))

    def loops() -> None:
        program.loop((10, 1), (7, 1), kind=1)
        if next(turns) % 12 == 0:
            program.loop((20, 1), (30, 1), kind=2)

    assert _settled(program, loops) == TOGETHER


def test_what_changes_is_found_out_again(program: Program) -> None:
    """As where a virtual machine's CPUs move."""
    near, far = (6.0, 2.0), (12.0, 8.0)
    assert _settled(program, lambda: program.loop((10, 2), near)) == TOGETHER
    program.run(1600, (10, 2), far)
    assert program.loop((10, 2), far) == ALONE
    program.run(1600, (10, 2), near)
    assert program.loop((10, 2), near) == TOGETHER


def test_trials_take_little_time(program: Program) -> None:
    """In each of them half of the time goes one way."""
    shares = program.run(3000, (20, 4), (30, 6))
    assert shares[ALONE] > 98.5
    assert 0.2 < shares[WAKE] < 1.5
    program.run(1600, (20, 4), (10, 4))
    assert program.run(3000, (20, 4), (10, 4))[TOGETHER] > 98


def test_rare_loops_are_not_tried(program: Program) -> None:
    program.frequent = False
    assert set(program.run(1600, (10, 200), (1, 1))) == {UNKNOWN}


def test_longer_loops_that_are_rare_wake_threads_up(program: Program) -> None:
    """Whatever the brief ones before them showed; and their times are no part of a trial."""
    assert _settled(program, lambda: program.loop((10, 2), (15, 3))) == ALONE
    program.frequent = program.brief = False
    assert set(program.run(4000, (400, 2000), (200, 2000))) == {WAKE}
    program.frequent = program.brief = True
    assert _settled(program, lambda: program.loop((10, 2), (15, 3))) == ALONE


def test_a_trial_without_loops_is_abandoned(program: Program) -> None:
    """The verdict before it stays, and the next trial comes soon."""
    assert _settled(program, lambda: program.loop((10, 2), (6, 2))) == TOGETHER
    program.now += 3e9
    assert program.loop((10, 200_000), (10, 2)) == ALONE, "no trial began"
    assert program.loop((10, 2), (10, 2)) == TOGETHER
    program.run(150, (6, 2), (10, 2))
    assert program.loop((6, 2), (10, 2)) == ALONE
