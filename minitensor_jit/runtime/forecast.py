"""What scratch memory a program will need, from its last run: a thread touches it while the program still begins.

The first touch of fresh memory can take as long as a good part of the first step. How much there was is known at the
end of a process, and kept beside the code, by the program's file. It is a guess about the next process, which no result
depends on: memory that is too small for the first launch that needs some goes back to the system.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING

from minitensor import _C

if TYPE_CHECKING:
    from minitensor_jit.runtime.disk_cache import DiskCache

__all__ = ["Forecast"]


def _program() -> str | None:
    """What tells this program from others; None for one that is typed in."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is not None:
        return f"file {os.path.realpath(file)}"
    return f"command {sys.orig_argv}" if sys.argv[:1] == ["-c"] else None


class Forecast:
    """The scratch memory of the launches of the program that uses a folder."""

    def __init__(self, disk: DiskCache) -> None:
        self._disk = disk
        self._pid = os.getpid()
        program = _program()
        if program is None:
            return
        self._key = f"scratch of {program}"
        kept = disk.load_bytes(self._key)
        self._foretold = 0 if kept is None else int.from_bytes(kept, "little")
        _C.touch_ahead(self._foretold)
        atexit.register(self._keep)

    def _keep(self) -> None:
        # A child that goes on where its parent was does not speak for the program, and a folder that is gone is not
        # made again at the end.
        needed = _C.largest_launch_scratch()
        if needed == self._foretold or os.getpid() != self._pid or not os.path.isdir(self._disk.folder):
            return
        self._disk.store_bytes(self._key, needed.to_bytes(8, "little"))
