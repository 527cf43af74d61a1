"""Ctrl-C while a library computes, which asks for no signals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, which a signal's handler can end by raising, as Ctrl-C does, while it is in a library.

    Python runs handlers in the main thread only, so there the function gets a thread of its own to compute in while
    this one waits. What can't be stopped then goes on, but nobody waits for it, except the library at the end of the
    process.
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

    # A daemon: the end of the interpreter doesn't wait for it.
    threading.Thread(target=work, name="minitensor: linear algebra", daemon=True).start()
    done.wait()
    if errors:
        raise errors[0]
    return results[0]
