"""The report of a whole program, for `--report=FILE`: written when the program ends, however it does."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from typing import Any

from minitensor_jit.inspect.report_page.write import probe, write_page
from minitensor_jit.inspect.run_record import RunRecord, begin, end

__all__ = ["end_of_program", "finished", "write_at_exit"]

_OWNER = "MT_JIT_REPORT_PROCESS"
"""The environment variable that tells the processes which a program starts that it writes the report, not they."""


def write_at_exit(path: str, flags: str) -> RunRecord | None:
    """Begin the record of this process, whose report goes to `path`; None where another process writes it.

    Raises DumpError if the file can't be written.
    """
    pid = os.getpid()
    if os.environ.setdefault(_OWNER, str(pid)) != str(pid):
        return None
    path = os.path.abspath(path)
    probe(path)
    record = RunRecord()
    begin(record)

    def write() -> None:
        if os.getpid() != pid:  # a fork of it
            return
        end(record)
        try:
            write_page(path, finished(record, flags, end_of_program()))
        except Exception:
            sys.stdout.flush()
            print(f"the report {path} could not be written:", file=sys.stderr)
            traceback.print_exc()

    atexit.register(write)
    return record


def finished(record: RunRecord, flags: str, how: dict[str, Any]) -> str:
    """The page of a record that has ended."""
    # Imported here: it reads what was measured, and measures the machine.
    from minitensor_jit.inspect.report_page.data import data_of
    from minitensor_jit.inspect.report_page.write import page_of

    main, parts = data_of(record, flags)
    return page_of(main, parts, how)


def end_of_program() -> dict[str, Any]:
    """How this program ends: by itself, or by an exception that nobody caught."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        return {"kind": "finished"}
    return described(error)


def described(error: BaseException) -> dict[str, Any]:
    """The end of what raised an exception."""
    return {
        "kind": "exception",
        "type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }
