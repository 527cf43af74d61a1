"""The thread that compiles while the program goes on, for `--async_compilation`."""

from __future__ import annotations

import atexit
import queue
import threading
from collections.abc import Callable

from minitensor import _forks

__all__ = ["compile_later"]

_jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
_state = _forks.lock()
_busy = _forks.lock()
"""Held while a job runs: a fork waits for it, since the child could never finish it."""
_thread: threading.Thread | None = None


def compile_later(job: Callable[[], None]) -> None:
    """Have a job run on the compiling thread. It handles its own errors."""
    global _thread
    with _state:
        if _thread is None:
            _thread = threading.Thread(target=_work, name="minitensor-compiler", daemon=True)
            _thread.start()
            atexit.register(_stop, _thread)
    _jobs.put(job)


def _work() -> None:
    while (job := _jobs.get()) is not None:
        with _busy:
            job()


def _stop(thread: threading.Thread) -> None:
    """The program ends: what was not begun is not compiled, and what was is finished."""
    if thread is not _thread or not thread.is_alive():
        return
    while not _jobs.empty():
        _jobs.get()
    _jobs.put(None)
    thread.join()


def _forget_thread() -> None:
    """In a forked child there is no such thread; what waits is begun by one of its own at the next job."""
    global _thread, _jobs
    _thread, _jobs = None, queue.SimpleQueue()


_forks.in_child(_forget_thread)
