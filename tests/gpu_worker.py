"""Processes that run tests on a GPU, one test at a time, for `scripts/gpu_check`.

A test that traps costs its process the GPU's context, and one that hangs never comes back: each is known by name, and
a fresh process goes on with the next. What is said of a test is said as soon as it has run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

Record = dict[str, Any]
"""`test`, `outcome` (passed, failed, skipped, died, hung), `seconds`, `text`."""

KEPT = 6000
"""Characters kept of what a test says."""
BEGINNING = 90.0
"""Seconds that a process may take to find the tests, and to end."""


# ---- in a process


class _Plugin:
    """Runs what the parent names, and says what became of it."""

    def __init__(self, pipe: Connection):
        self.pipe = pipe
        self.reports: list[pytest.TestReport] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.pipe.send(("collected", [item.nodeid for item in items]))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.pipe.send(("result", _record(report.nodeid, "failed", 0.0, str(report.longrepr))))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        while (name := self._next()) is not None:
            self.reports.clear()
            # There is no next item to tell of: it is named when this one is done.
            session.config.hook.pytest_runtest_protocol(item=items[name], nextitem=None)
            outcome = next((o for o in ("failed", "skipped") if any(r.outcome == o for r in self.reports)), "passed")
            said = [r.longreprtext for r in self.reports if r.outcome != "passed"]
            self.pipe.send(("result", _record(name, outcome, sum(r.duration for r in self.reports), "\n".join(said))))
            if outcome == "failed" and _lost():
                break
        return True

    def _next(self) -> str | None:
        self.pipe.send(("next",))
        return self.pipe.recv()


def _record(name: str, outcome: str, seconds: float, text: str) -> Record:
    return {"test": name, "outcome": outcome, "seconds": round(seconds, 3), "text": text[-KEPT:]}


def _lost() -> bool:
    from minitensor_jit.runtime.cuda import context

    return any(gpu.lost for gpu in context._gpus.values())


def _serve(pipe: Connection, arguments: list[str], log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.enable()
    with contextlib.suppress(OSError, EOFError):  # the parent has ended
        # Nothing is captured: what the driver says last would be lost with the process.
        pytest.main(["-s", "-p", "no:cacheprovider", *arguments], plugins=[_Plugin(pipe)])


# ---- in the parent


class _Process:
    """One process, the test that it is at, and since when."""

    def __init__(self, arguments: list[str], folder: str, number: int):
        self.log = Path(folder, f"{number}.log")
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, arguments, str(self.log)), daemon=False)
        self.process.start()
        other.close()
        self.test: str | None = None
        self.since = time.monotonic()
        self.ending = False

    def kill(self) -> None:
        self.process.join(1.0)  # one that has closed its pipe is about to end by itself
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-KEPT:] if self.log.exists() else ""


def run(
    arguments: list[str],
    *,
    chosen: Callable[[str], bool],
    tell: Callable[[Record], None],
    processes: int,
    until: float,
    patience: float = 150.0,
) -> int:
    """Run the tests that `arguments` of pytest name and that are `chosen`; how many are left at the time `until`.

    `tell` gets a record a test, when it has run. A test that takes longer than `patience` seconds counts as hung.
    """
    queue: deque[str] | None = None
    alive: list[_Process] = []
    broken: set[str] = set()
    started, barren = 0, 0
    arguments = [*arguments, "-o", f"faulthandler_timeout={0.8 * patience:.0f}"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            while True:
                now = time.monotonic()
                # Before it is known what there is to do, one process is enough to find out.
                busy = sum(process.test is not None for process in alive)
                wanted = 1 if queue is None else min(processes, len(queue) + busy)
                while len(alive) < wanted and now < until and barren < 3:
                    alive.append(_Process(arguments, folder, started))
                    started += 1
                if not alive or now >= until + 5:
                    return 1 if queue is None else len(queue) + busy
                ready = wait([process.pipe for process in alive], timeout=1.0)
                for process in list(alive):
                    message: tuple[Any, ...] = ()
                    if process.pipe in ready:
                        with contextlib.suppress(EOFError, OSError):
                            message = process.pipe.recv()
                    elif now - process.since <= (patience if process.test is not None else max(patience, BEGINNING)):
                        continue
                    match message:
                        case ("collected", names):
                            queue = deque(name for name in names if chosen(name)) if queue is None else queue
                        case ("result", record):
                            # A file that can't be read is one for every process.
                            if process.test is not None or record["test"] not in broken:
                                tell(record)
                            if process.test is None:
                                broken.add(record["test"])
                            process.test, barren = None, 0
                        case ("next",):
                            process.test = queue.popleft() if queue and now < until else None
                            process.ending, process.since = process.test is None, now
                            process.pipe.send(process.test)
                        case _:  # it has ended, or hangs
                            outcome = "died" if process.pipe in ready else "hung"
                            process.kill()
                            alive.remove(process)
                            if process.test is not None or queue is None or outcome == "hung":
                                text = f"status {process.process.exitcode}\n{process.said()}"
                                tell(_record(process.test or "no test", outcome, now - process.since, text))
                            if queue is None:
                                return 0
                            barren = 0 if process.test is not None or process.ending else barren + 1
        finally:
            for process in alive:
                process.kill()
