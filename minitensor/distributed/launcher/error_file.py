"""How a process tells its launcher what ended it."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["record", "write_error_file"]

VARIABLE = "TORCHELASTIC_ERROR_FILE"
F = TypeVar("F", bound=Callable[..., Any])


def write_error_file(text: str) -> None:
    """Write a traceback where the launcher reads it, in torchrun's format; nothing without one, or after another."""
    path = os.environ.get(VARIABLE)
    if not path or os.path.exists(path):
        return
    lines = text.rstrip().splitlines()
    message = {
        "message": lines[-1] if lines else "",
        "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time())), "seconds": time.time()},
    }
    partial = Path(f"{path}.{os.getpid()}")
    try:
        partial.write_text(json.dumps({"message": message}))
        partial.replace(path)
    except OSError:
        return  # the error itself is more important


def record(fn: F, error_handler: Any = None) -> F:
    """Have the launcher know the exceptions that come out of a function, such as a program's ``main``."""

    @functools.wraps(fn)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        try:
            return fn(*arguments, **named)
        except SystemExit:
            raise
        except BaseException:
            write_error_file(traceback.format_exc())
            raise

    return wrapped  # type: ignore[return-value]
