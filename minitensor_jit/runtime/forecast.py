"""What scratch memory a program will need, from its last run: a thread touches it while the program still begins.

The first touch of fresh memory can take as long as a good part of the first step. How much there was is known at the
end of a process, and kept beside the code, by the program's file. It is a guess about the next process, which no result
depends on: memory that is too small for the first launch that needs some goes back to the system.
"""

from __future__ import annotations

import atexit
import os

from minitensor import _C
from minitensor._programs import program_name
from minitensor_jit.errors import CacheDirectoryError
from minitensor_jit.flags import ENVIRONMENT_VARIABLE, FlagError, parse_flags
from minitensor_jit.runtime.disk_folder import DiskFolder

__all__ = ["foretell", "foretell_from_environment"]

_folders: set[str] = set()


def foretell_from_environment() -> None:
    """`foretell` for the folder that MT_JIT_FLAGS names, before the compiler is imported, which takes a while."""
    try:
        options = parse_flags(os.environ.get(ENVIRONMENT_VARIABLE, ""))
        if options.persistent_cache_directory is not None and not options.hlo_profile:
            path = os.path.realpath(options.persistent_cache_directory)
            foretell(DiskFolder(path, options.persistent_cache_bytes))
    except (FlagError, CacheDirectoryError):
        pass  # raised again where the compiler begins


def foretell(disk: DiskFolder) -> None:
    """Have the memory touched that the program's last run with a folder needed; keep what this one did at its end."""
    program = program_name()
    if program is None or disk.folder in _folders:
        return
    _folders.add(disk.folder)
    key = f"scratch of {program}"
    kept = disk.load_bytes(key)
    foretold = 0 if kept is None else int.from_bytes(kept, "little")
    _C.touch_ahead(foretold)
    atexit.register(_keep, disk, key, foretold, os.getpid())


def _keep(disk: DiskFolder, key: str, foretold: int, pid: int) -> None:
    # A child that goes on where its parent was does not speak for the program, and a folder that is gone is not made
    # again at the end.
    needed = _C.largest_launch_scratch()
    if needed != foretold and os.getpid() == pid and os.path.isdir(disk.folder):
        disk.store_bytes(key, needed.to_bytes(8, "little"))
