"""Ctrl-C while a library computes, which asks for no signals."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

__all__: list[str] = []

# Set when what an interrupt has left computing is done.
_abandoned: list[threading.Event] = []


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, which a signal's handler can end by raising, as Ctrl-C does, while it is in a library.

    Python runs handlers in the main thread only, so there the function gets a thread of its own to compute in while
    this one waits. What can't be stopped then goes on, but nobody waits for it before the end of the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    done = threading.Event()
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function(*arguments))
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=work, name="minitensor: linear algebra", daemon=True).start()
    try:
        done.wait()
    except BaseException:
        _abandoned.append(done)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _wait_for_the_abandoned() -> None:
    """A library whose memory is taken away at the end of the process while it computes crashes."""
    try:
        for done in _abandoned:
            done.wait()
    except KeyboardInterrupt:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(130)  # as a shell says of a program that was interrupted; nothing of the process runs any more


atexit.register(_wait_for_the_abandoned)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandoned.clear)  # their threads are the parent's
