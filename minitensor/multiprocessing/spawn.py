"""Several processes that run one function."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):  # noqa: N818  (PyTorch's name)
    """A process did not end well."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception, whose traceback is the message."""


class ProcessExitedException(ProcessException):
    """A process was killed, or exited with another code than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(function: Callable[..., Any], number: int, args: tuple[Any, ...], report: Any) -> None:
    try:
        function(number, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        report.send(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[Any], reports: list[Any]) -> None:
        self.processes = processes
        self._reports = reports
        self.sentinels = {process.sentinel: number for number, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their numbers."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one or more to end; True if all have. If one has not ended well, end the others and raise why.

        ``grace_period`` is how many seconds the others have after they were asked to end, before they are killed.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout=timeout):
            number = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[number].join()
            if self.processes[number].exitcode != 0:
                failed = number
                break
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + (30 if grace_period is None else grace_period)
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._raise(failed)
        return False

    def _raise(self, number: int) -> None:
        process = self.processes[number]
        text = None
        if self._reports[number].poll():
            try:
                text = self._reports[number].recv()
            except EOFError:
                text = None
        if text is not None:
            message = f"\n\n-- Process {number} terminated with the following error:\n{text}"
            raise ProcessRaisedException(message, number, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {number} terminated with signal {name}", number, process.pid, code, name
            )
        raise ProcessExitedException(f"process {number} terminated with exit code {code}", number, process.pid, code)


class SpawnContext(ProcessContext):
    """The same by its older name."""


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(number, *args)`` in so many processes. Waits for them if ``join``, else returns a context."""
    context = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for number in range(nprocs):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, number, args, theirs), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        processes.append(process)
        reports.append(mine)
    made = ProcessContext(processes, reports)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """:func:`start_processes`, by new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
