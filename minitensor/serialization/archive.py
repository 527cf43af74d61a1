"""The zip container of a checkpoint: stored entries, the data of each storage at a multiple of 64 bytes.

The layout is PyTorch's (`torch.save`'s zip format, version 3): ARCHIVE/data.pkl, ARCHIVE/byteorder, ARCHIVE/version,
and ARCHIVE/data/KEY for each storage.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pickle import UnpicklingError
from typing import Any

from minitensor._C import Tensor, uint8
from minitensor._functions.offered import empty, from_numpy

__all__ = ["Reader", "Writer"]

_ALIGNMENT = 64
_LIMIT = 2**32 - 1
_LOCAL_HEADER = 30  # bytes of a local file header before the name
# What zipfile raises for files that are damaged in one way or another.
_BROKEN = (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, struct.error, OverflowError)
_PADDING_ID = b"FB"  # the extra field's tag that PyTorch uses for padding


class Writer:
    """Writes a checkpoint to a binary file, from where it stands and without seeking: it may be a pipe."""

    def __init__(self, file: Any, name: str) -> None:
        """`name`: the folder within the archive."""
        self.raw = isinstance(file, io.RawIOBase)  # may write less than it is given
        self.file = io.BufferedWriter(file) if self.raw else file
        self.name = name.encode("utf-8", "replace").decode()
        self.position = 0
        self.directory: list[bytes] = []

    def write(self, entry: str, data: Any) -> None:
        """Add an entry. `data`: bytes or a memoryview of them."""
        name = f"{self.name}/{entry}".encode()
        size, place, checksum = len(data), self.position, zlib.crc32(data)
        # Sizes and places of more than 32 bits stand in an extra field.
        large = struct.pack("<2H2Q", 1, 16, size, size) if size >= _LIMIT else b""
        padding = -(place + _LOCAL_HEADER + len(name) + len(large) + 4) % _ALIGNMENT
        extra = large + _PADDING_ID + padding.to_bytes(2, "little") + b"Z" * padding
        # Version, UTF-8 names, stored, dated 1980 (the same object gives the same file), checksum, size twice.
        plain = struct.pack(
            "<5H3L", 45 if large else 20, 0x800, 0, 0, 0x21, checksum, min(size, _LIMIT), min(size, _LIMIT)
        )
        self._put(b"PK\3\4" + plain + struct.pack("<2H", len(name), len(extra)) + name + extra)
        step = 16 << 20
        for start in range(0, size, step):
            self._put(data[start : start + step])
        wide = [size, size] if large else []
        wide += [place] if place >= _LIMIT else []
        extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        rest = struct.pack("<5H2L", len(name), len(extra), 0, 0, 0, 0o100644 << 16, min(place, _LIMIT))
        # Made on Unix.
        self.directory.append(b"PK\1\2" + struct.pack("<H", 3 << 8 | 45) + plain + rest + name + extra)

    def _put(self, data: Any) -> None:
        self.file.write(data)
        self.position += len(data)

    def close(self) -> None:
        """Write the directory of the archive."""
        start, count = self.position, len(self.directory)
        self._put(b"".join(self.directory))
        size = self.position - start
        if count >= 0xFFFF or self.position >= _LIMIT:
            end = self.position
            self._put(b"PK\6\6" + struct.pack("<Q2H2L4Q", 44, 3 << 8 | 45, 45, 0, 0, count, count, size, start))
            self._put(b"PK\6\7" + struct.pack("<LQL", 0, end, 1))
        short = min(count, 0xFFFF)
        self._put(b"PK\5\6" + struct.pack("<4H2LH", 0, 0, short, short, min(size, _LIMIT), min(start, _LIMIT), 0))
        if self.raw:
            self.file.detach()  # after flushing; it stays open
        elif callable(getattr(self.file, "flush", None)):
            self.file.flush()


class Reader:
    """Reads a checkpoint from a binary file."""

    def __init__(self, file: Any, shown: str) -> None:
        """`shown`: how errors name the file. RuntimeError if it is no checkpoint."""
        self.file, self.shown = file, shown
        try:
            self.zip = zipfile.ZipFile(file)
        except _BROKEN as error:
            file.seek(0)
            start = file.read(2)
            if start[:1] == b"\x80":
                raise RuntimeError(
                    f"{shown} is in PyTorch's format of before version 1.6 (a bare pickle), which is not read; load "
                    "and save it again with a newer PyTorch"
                ) from None
            raise RuntimeError(f"{shown} is not a checkpoint, or was cut off: {error}") from None
        names = [name for name in self.zip.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(names) != 1:
            script = any(name.endswith("/constants.pkl") for name in self.zip.namelist())
            holds = "a TorchScript program" if script else "a zip"
            raise RuntimeError(f"{shown} is not a checkpoint: it is {holds} without one data.pkl")
        self.name = names[0].removesuffix("/data.pkl")
        order = self.optional("byteorder", b"little")
        if order != b"little":
            raise RuntimeError(f"{shown} was written on a {order.decode('ascii', 'replace')}-endian machine")

    def info(self, entry: str) -> zipfile.ZipInfo:
        """An entry's place. UnpicklingError if it isn't there or isn't stored plainly."""
        try:
            info = self.zip.getinfo(f"{self.name}/{entry}")
        except KeyError:
            raise UnpicklingError(f"{self.shown} has no entry {entry}") from None
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
            raise UnpicklingError(f"entry {entry} of {self.shown} is compressed or encrypted")
        self.file.seek(0, 2)
        if info.header_offset + info.file_size > self.file.tell():
            raise RuntimeError(f"{self.shown} was cut off: entry {entry} reaches beyond its end")
        return info

    def read(self, entry: str) -> bytes:
        """The bytes of an entry; their checksum has been checked."""
        info = self.info(entry)
        try:
            return self.zip.read(info)
        except _BROKEN as error:
            raise RuntimeError(f"{self.shown} is damaged: {error}") from None

    def optional(self, entry: str, default: bytes) -> bytes:
        """The bytes of an entry that older files lack."""
        return self.read(entry) if f"{self.name}/{entry}" in self.zip.namelist() else default

    def storage(self, entry: str) -> Tensor:
        """The bytes of an entry as a flat tensor of its own memory."""
        info = self.info(entry)
        data = empty(info.file_size, dtype=uint8)
        target = data.numpy().data if info.file_size else memoryview(bytearray())
        done = 0
        try:
            with self.zip.open(info) as stream:
                while done < info.file_size:
                    count = stream.readinto(target[done : done + (16 << 20)])  # type: ignore[attr-defined]
                    if not count:
                        raise RuntimeError(f"{self.shown} was cut off within entry {entry}")
                    done += count
        except _BROKEN as error:
            raise RuntimeError(f"{self.shown} is damaged: {error}") from None
        return data

    def mapped(self, entry: str, path: str) -> Tensor:
        """The bytes of an entry as they lie in the file: read when touched; writes stay private to the process."""
        import numpy as np

        info = self.info(entry)
        if info.file_size == 0:
            return empty(0, dtype=uint8)
        self.file.seek(info.header_offset)
        header = self.file.read(_LOCAL_HEADER)
        if header[:4] != b"PK\x03\x04":
            raise RuntimeError(f"{self.shown} is damaged: entry {entry} has no header")
        lengths = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
        start = info.header_offset + _LOCAL_HEADER + sum(lengths)
        return from_numpy(np.memmap(path, np.uint8, mode="c", offset=start, shape=(info.file_size,)).view(np.ndarray))
