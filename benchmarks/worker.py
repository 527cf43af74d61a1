"""A process that times one contender at a time, when it is told to.

Contenders are kept apart so that their thread pools and allocators cannot disturb each other; a worker that waits uses
no processor.
"""

from __future__ import annotations

import contextlib
import gc
import math
import multiprocessing
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.case import Timed, load_cases

# Before a round: OpenMP's threads, those of the contender before, spin for some milliseconds after their last work.
SETTLE = 0.02
# Calls before the first that counts.
WARM = 5


class Worker:
    """The parent's side: sends orders to a process and returns its answers."""

    def __init__(self, name: str, patience: float) -> None:
        """`patience` is how many seconds an answer may take."""
        self.name = name
        self._patience = patience
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), name=name, daemon=True)
        self._process.start()
        other.close()

    def prepare(self, case: str, min_time: float, piece: float = math.inf) -> str | None:
        """Set a case up and find out how often to repeat it; return what stands against it.

        If `piece` is less than `min_time`, a round is as many loops of `piece` seconds, of which the shortest counts.
        """
        return self._ask(("prepare", case, self.name, min_time, piece))

    def round(self) -> float:
        """Return the seconds of one iteration."""
        return self._ask(("round",))

    def drop(self) -> None:
        """Free the case's data."""
        self._ask(("drop",))

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(("quit",))
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()

    def _ask(self, order: tuple[Any, ...]) -> Any:
        try:
            self._pipe.send(order)
            if not self._pipe.poll(self._patience):
                self._process.kill()
                self._process.join()
                return f"the process ended: it was silent for {self._patience:.0f} s"
            return self._pipe.recv()
        except (EOFError, BrokenPipeError):
            self._process.join()
            return f"the process ended with status {self._process.exitcode}"


def _serve(pipe: Connection) -> None:
    cases = load_cases()
    timed: Timed | None = None
    number, end = 1, 0.0
    while True:
        order, *args = pipe.recv()
        if order == "quit":
            return
        try:
            if order == "prepare":
                case, name, min_time, piece = args
                timed = cases[case].contenders[name]()
                number = _calibrate(timed, min(min_time, piece))
                end = min_time if piece < min_time else 0.0
                answer = None
            elif order == "round":
                time.sleep(SETTLE)
                if timed.batch != 1:
                    timed.seconds(timed.batch or 1)  # wakes this one's own threads up
                answer = _shortest(timed, number, end)
            else:
                timed, answer = None, None
                gc.collect()
        except ModuleNotFoundError as error:
            answer = f"not installed: {error.name}"
        except Exception:
            answer = traceback.format_exc(limit=-4)
        pipe.send(answer)


def _shortest(timed: Timed, number: int, seconds: float) -> float:
    """Return the time of an iteration in the fastest of as many loops as take `seconds`, or in the only one."""
    end = time.perf_counter() + seconds
    best = timed.seconds(number) / number
    while time.perf_counter() < end:
        best = min(best, timed.seconds(number) / number)
    return best


def _calibrate(timed: Timed, min_time: float) -> int:
    """Warm up, and return how many iterations take about ``min_time``."""
    if isinstance(timed.batch, int) and timed.batch == 1:
        timed.seconds(1)
        return 1
    # The first calls record and compile, the second one of an optimizer's step again.
    timed.seconds(WARM)
    if timed.batch:
        timed.seconds(2 * timed.batch)
    number = 1
    while True:
        seconds = timed.seconds(number)
        if seconds >= min_time / 10 or number >= 10**8:
            break
        number *= 4
    number = max(1, math.ceil(number * min_time / max(seconds, 1e-9)))
    # Full batches only: how long one is may change the time of an iteration.
    return math.ceil(number / timed.batch) * timed.batch if timed.batch else number
