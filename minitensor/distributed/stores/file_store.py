"""The store in a file that all processes can reach."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from minitensor.distributed.stores.store import DEFAULT_TIMEOUT, VALUES, Table, TableStore, seconds

__all__ = ["FileStore"]

_RECORD = struct.Struct("<IB")
_LENGTH = struct.Struct("<I")
_TAKES = {"queue_pop", "queue_try", "delete_key"}


class FileStore(TableStore):
    """Records of all changes in a file, which is locked while one is read or written.

    With `world_size` processes the last that leaves removes the file. It must not be there before the first, as in
    PyTorch: what an earlier job left would be taken for this one's.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._timeout = DEFAULT_TIMEOUT
        self._path = os.fspath(file_name)
        self._world_size = world_size
        self._table = Table()
        self._read = 0
        self._owner = os.getpid()
        if world_size > 0:
            self.add("_users", 1)

    @property
    def path(self) -> str:
        """The file's name."""
        return self._path

    def __del__(self) -> None:
        if getattr(self, "_world_size", 0) > 0 and os.getpid() == self._owner:
            try:
                if self.add("_users", -1) == 0:
                    Path(self._path).unlink(missing_ok=True)
            except Exception:
                return  # the folder is gone, or Python ends

    def _catch_up(self, descriptor: int) -> None:
        """Make the changes that others noted. What a process that died left half-written is cut off."""
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, size - self._read, self._read) if size > self._read else b""
        at = 0
        while at + _RECORD.size <= len(data):
            length, count = _RECORD.unpack_from(data, at)
            body = data[at + _RECORD.size : at + _RECORD.size + length]
            if len(body) < length:
                break
            fields, inside = [], 0
            for _ in range(count):
                (part,) = _LENGTH.unpack_from(body, inside)
                fields.append(body[inside + 4 : inside + 4 + part])
                inside += 4 + part
            getattr(self._table, fields[0].decode())(fields[1].decode(), *fields[2:])
            at += _RECORD.size + length
        self._read += at
        if at < len(data):
            os.ftruncate(descriptor, self._read)

    def _call(self, name: str, keys: Sequence[str], values: Sequence[bytes], timeout: timedelta | None) -> bytes | None:
        end = time.monotonic() + seconds(timeout or self._timeout)
        wait = 0.001
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                self._catch_up(descriptor)
                answer: bytes | None = getattr(self._table, name)(*keys, *values)
                if answer is not None and (name in VALUES or name in _TAKES):
                    fields = [name.encode(), keys[0].encode(), *values]
                    body = b"".join(_LENGTH.pack(len(field)) + field for field in fields)
                    os.pwrite(descriptor, _RECORD.pack(len(body), len(fields)) + body, self._read)
                    self._read += _RECORD.size + len(body)
            finally:
                os.close(descriptor)
            if answer is not None:
                return answer
            if time.monotonic() > end:
                return None
            time.sleep(wait)
            wait = min(wait * 1.5, 0.05)
