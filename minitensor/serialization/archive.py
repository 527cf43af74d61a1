"""The zip container of a checkpoint: stored entries, the data of each storage at a multiple of 64 bytes.

The layout is PyTorch's (`torch.save`'s zip format, version 3): ARCHIVE/data.pkl, ARCHIVE/byteorder, ARCHIVE/version,
and ARCHIVE/data/KEY for each storage.
"""

from __future__ import annotations

import struct
import zipfile
from pickle import UnpicklingError
from typing import Any

import minitensor as mt

__all__ = ["Reader", "Writer"]

_ALIGNMENT = 64
_LOCAL_HEADER = 30  # bytes of a local file header before the name
# What zipfile raises for files that are damaged in one way or another.
_BROKEN = (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, struct.error, OverflowError)
_PADDING_ID = b"FB"  # the extra field's tag that PyTorch uses for padding


class Writer:
    """Writes a checkpoint to a binary file."""

    def __init__(self, file: Any, name: str) -> None:
        """`name`: the folder within the archive."""
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.name = name

    def write(self, entry: str, data: Any) -> None:
        """Add an entry. `data`: bytes or a memoryview of them."""
        info = zipfile.ZipInfo(f"{self.name}/{entry}")  # dated 1980: the same object gives the same file
        info.external_attr = 0o644 << 16
        self._align(info, len(data))
        with self.zip.open(info, "w", force_zip64=len(data) >= 2**31) as stream:
            step = 16 << 20
            for start in range(0, len(data), step):
                stream.write(data[start : start + step])

    def _align(self, info: zipfile.ZipInfo, size: int) -> None:
        # The extra field of an entry that needs 64-bit sizes is 20 bytes longer.
        header = _LOCAL_HEADER + len(info.filename.encode()) + (20 if size >= 2**31 else 0) + 4
        position = self.zip.fp.tell() if self.zip.fp else 0
        padding = -(position + header) % _ALIGNMENT
        info.extra = _PADDING_ID + padding.to_bytes(2, "little") + b"Z" * padding

    def close(self) -> None:
        """Write the directory of the archive."""
        self.zip.close()


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

    def storage(self, entry: str) -> mt.Tensor:
        """The bytes of an entry as a flat tensor of its own memory."""
        info = self.info(entry)
        data = mt.empty(info.file_size, dtype=mt.uint8)
        target = memoryview(data.numpy()) if info.file_size else memoryview(bytearray())
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

    def mapped(self, entry: str, path: str) -> mt.Tensor:
        """The bytes of an entry as they lie in the file: read when touched; writes stay private to the process."""
        import numpy as np

        info = self.info(entry)
        if info.file_size == 0:
            return mt.empty(0, dtype=mt.uint8)
        self.file.seek(info.header_offset)
        header = self.file.read(_LOCAL_HEADER)
        if header[:4] != b"PK\x03\x04":
            raise RuntimeError(f"{self.shown} is damaged: entry {entry} has no header")
        lengths = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
        start = info.header_offset + _LOCAL_HEADER + sum(lengths)
        return mt.from_numpy(
            np.memmap(path, np.uint8, mode="c", offset=start, shape=(info.file_size,)).view(np.ndarray)
        )
