"""The backend "mpi": processes are MPI's, whose library is found at run time. What is made of the bytes is the same.

Processes of one machine meet by MPI and then share memory, as with "gloo"; between machines its messages go.

The library must have the standard's binary interface (MPI 5.0): ``libmpi_abi``, which MPICH 5, Open MPI 6 and Intel MPI
have, and PyPI's ``mpich``. ``MT_MPI_LIBRARY`` names another file.
"""

from __future__ import annotations

import atexit
import ctypes.util
import math
import os
import secrets
import shutil
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from minitensor import _C
from minitensor._warning import warn
from minitensor.distributed.errors import DistBackendError, DistNetworkError
from minitensor.distributed.groups.process_group import failed_limits, leave_all
from minitensor.distributed.transport.connections import TRANSPORT, machine, sharing

__all__ = ["communicator", "library", "world"]

VARIABLE = "MT_MPI_LIBRARY"
_NAME = "libmpi_abi.so.1"
_MEETING = 60.0  # seconds that processes of one machine have to come
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
    """All processes wait for each other here: as long as a group's timeout where one failed, as one may be stuck.

    A process that ends with an exception doesn't wait. Where one ends without the others, MPI's launcher ends them.
    """
    leave_all()
    if not _failed[0]:
        _C._Communicator.end_mpi(max(failed_limits, default=math.inf))


def failed() -> None:
    """Have this process end without the others."""
    _failed[0] = True


def communicator(ranks: Sequence[int] | None, name: str, timeout: timedelta) -> Any:
    """The communicator of some ranks, or of all. ValueError for a transport that there isn't."""
    wanted = os.environ.get(TRANSPORT, "")
    if wanted not in ("", "shared_memory", "mpi"):
        raise ValueError(f'{TRANSPORT}={wanted}: with the backend "mpi" there are shared_memory and mpi')
    own, size = world()
    given = list(range(size)) if ranks is None else list(ranks)
    made = _C._Communicator.from_mpi(given, zlib.crc32(name.encode()) % 32768)
    if len(given) == 1 or wanted == "mpi":
        return made
    shared = _shared(_Meeting(made, given.index(own), len(given), timeout.total_seconds()))
    if shared is None and wanted:
        raise DistNetworkError(f"{TRANSPORT}=shared_memory: the processes can't share memory")
    return shared or made


class _Meeting:
    """What the processes of a group tell each other by MPI before they are one. Takes a store's place."""

    def __init__(self, communicator: Any, rank: int, size: int, limit: float) -> None:
        self.rank, self.size, self.limit = rank, size, limit
        self._communicator = communicator

    def _exchange(self, sends: Sequence[Any] | None, receives: Sequence[Any] | None) -> None:
        given = [None if one is None else [one] for one in sends] if sends is not None else None
        into = [None if one is None else [one] for one in receives] if receives is not None else None
        call = self._communicator.exchange("the making of a process group", given, into, self.limit, False)
        if call.error is not None:
            raise DistBackendError(call.error)

    def all_tell(self, text: bytes) -> list[bytes]:
        """What all say, in 255 bytes at most."""
        told = [_C.from_numpy(np.zeros(256, np.uint8)) for _ in range(self.size)]
        self._exchange([_message(text)] * self.size, told)
        return [_text(one) for one in told]

    def set(self, _: str, text: bytes) -> None:
        """Tell the others, who ask for it by `get`."""
        self._exchange([None if rank == self.rank else _message(text) for rank in range(self.size)], None)

    def get(self, _: str) -> bytes:
        """What rank 0 tells."""
        told = _C.from_numpy(np.zeros(256, np.uint8))
        self._exchange(None, [told, *[None] * (self.size - 1)])
        return _text(told)


def _message(text: bytes) -> Any:
    return _C.from_numpy(np.frombuffer(bytearray(len(text).to_bytes(1, "little") + text[:255].ljust(255)), np.uint8))


def _text(message: Any) -> bytes:
    told: bytes = message.numpy().tobytes()
    return told[1 : 1 + told[0]]


def _shared(meeting: _Meeting) -> Any:
    """The communicator of processes that share memory; None where some can't, which is a warning on one machine."""
    # Who has the token was started by MPI's launcher.
    token = secrets.token_hex(16).encode() if meeting.rank == 0 else b""
    told = [text.partition(b" ") for text in meeting.all_tell(machine().encode() + b" " + token)]
    if len({place for place, _, _ in told}) > 1:
        return None
    made, trouble = None, b""
    try:
        made = sharing(meeting, meeting.rank, meeting.size, time.monotonic() + min(_MEETING, meeting.limit), told[0][2])
    except DistBackendError:
        raise
    except (OSError, RuntimeError) as error:
        trouble = f"rank {meeting.rank}: {error}".encode()[:255]
    if not (troubles := [text.decode(errors="replace") for text in meeting.all_tell(trouble) if text]):
        return made
    if meeting.rank == 0:
        warn(f'backend "mpi": processes of one machine exchange messages, as they can\'t share memory ({troubles[0]})')
    return None
