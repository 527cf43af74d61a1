"""Ctrl-C while a library computes, which asks for no signals."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from minitensor import _C, _forks

__all__: list[str] = []

# Those that compute, whether somebody waits for them or an interrupt has left them alone.
_computing: set[Any] = set()


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, which a signal's handler can end by raising, as Ctrl-C does, while it is in a library.

    Python runs handlers in the main thread only, so there the function gets a thread of its own to compute in while
    this one waits. What can't be stopped then goes on, but nobody waits for it before the end of the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    done = threading.Lock()  # taken until it is
    done.acquire()
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function(*arguments))
        except BaseException as error:
            errors.append(error)
        finally:
            _computing.discard(done)
            done.release()

    _computing.add(done)  # before it starts, for an interrupt may come at any time from then on
    try:
        threading.Thread(target=work, name="minitensor: linear algebra", daemon=True).start()
    except RuntimeError:  # the system gives no more threads
        work()
    try:
        done.acquire()
    except BaseException as interruption:
        _C._note_interruption(interruption)
        raise
    if errors:
        raise errors[0]
    if not results:  # a handler that forked has returned in the child, where nobody computes it
        return function(*arguments)
    return results[0]


def _wait_for_the_rest() -> None:
    """A library whose memory is taken away at the end of the process while it computes crashes."""
    try:
        for done in list(_computing):
            done.acquire()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more must not cut short what is written now
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(130)  # as a shell says of a program that was interrupted; nothing of the process runs any more


atexit.register(_wait_for_the_rest)


def _in_child() -> None:
    """Their threads are the parent's: nobody waits for one."""
    while _computing:
        done = _computing.pop()
        if done.locked():
            done.release()


_forks.in_child(_in_child)
