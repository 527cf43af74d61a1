"""The backend "mpi": MPI's library, found at run time, carries the bytes; what is made of them is the same.

It must have the standard's binary interface (MPI 5.0): ``libmpi_abi``, which MPICH 5, Open MPI 6 and Intel MPI have,
and PyPI's ``mpich``. ``MT_MPI_LIBRARY`` names another file.
"""

from __future__ import annotations

import atexit
import ctypes.util
import os
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minitensor import _C
from minitensor.distributed.errors import DistBackendError
from minitensor.distributed.groups.process_group import leave_all

__all__ = ["communicator", "library", "world"]

VARIABLE = "MT_MPI_LIBRARY"
_NAME = "libmpi_abi.so.1"
_world: list[tuple[int, int]] = []
_failed = [False]


def _places() -> Iterator[Path]:
    # Where mpiexec is, its library is, and processes must have the launcher's.
    if launcher := shutil.which("mpiexec"):
        root = Path(launcher).resolve().parent.parent
        yield root / "lib" / _NAME
        yield root / "lib64" / _NAME
    yield Path(sys.prefix) / "lib" / _NAME


def library() -> str | None:
    """The file of the MPI library, or None."""
    if given := os.environ.get(VARIABLE):
        return given
    for place in _places():
        if place.is_file():
            return str(place)
    return ctypes.util.find_library("mpi_abi")


def world() -> tuple[int, int]:
    """This process's rank, and how many there are. Begins MPI. DistBackendError without a library."""
    if not _world:
        path = library()
        if path is None:
            raise DistBackendError(
                f'backend "mpi": no MPI library with the standard\'s binary interface ({_NAME}) is found; '
                f"pip install mpich has one, and {VARIABLE} names any other"
            )
        _world.append(_C._Communicator.start_mpi(path))
        atexit.register(_end)
    return _world[0]


def _end() -> None:
    """All processes wait for each other here, but for one that failed: there its launcher ends the others."""
    leave_all()
    if not _failed[0]:
        _C._Communicator.end_mpi()


def failed() -> None:
    """Have this process end without the others."""
    _failed[0] = True


def communicator(ranks: Sequence[int] | None, name: str) -> Any:
    """The communicator of some ranks, or of all."""
    _, size = world()
    given = list(range(size)) if ranks is None else list(ranks)
    return _C._Communicator.from_mpi(given, zlib.crc32(name.encode()) % 32768)
