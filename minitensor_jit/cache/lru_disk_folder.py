"""A private folder of entries that processes share: whole or not at all, checksummed, bounded.

An entry is written to a file of its own and renamed, so that it is there entirely or not at all; two processes that
write the same one write the same bytes. The least recently used entries go when the folder has more than its bytes.

Machine code is run as it is found, so the folder has to be private: it is made with mode 0700, and one that belongs to
somebody else, or that others can write to, is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from dataclasses import dataclass

from minitensor._jit.kept_plans import make_private
from minitensor._jit.kept_plans import read_private as read_file
from minitensor_jit.errors import CacheDirectoryError

__all__ = ["DiskCounts", "DiskFolder", "private_folder", "read_file"]

logger = logging.getLogger("minitensor_jit")

_SUFFIX = ".mto"
_BYTES_MAGIC = b"minitensor plan 3\n"
_BYTES_SUFFIX = ".mtp"
_RUNS_SUFFIXES = (".mtr", ".mtd")
"""Of what programs learned: `minitensor/_jit/programs.py`."""
_DIGEST = hashlib.sha256().digest_size
_RESCAN = 64
"""After that many entries written the folder is counted again, since other processes write to it too."""
_STALE_SECONDS = 3600.0
"""A temporary file that is older was left by a process that died."""


@dataclass(slots=True)
class DiskCounts:
    """What was done with a folder in this process."""

    hits: int = 0
    misses: int = 0
    rebuilt: int = 0
    """Entries that were there, but damaged, or for another machine under this one's name."""
    written: int = 0
    evicted: int = 0


class DiskFolder:
    """The entries of one folder. CacheDirectoryError if it is not private."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.makes = True
        """Whether the folder is made again when it has gone."""
        self.counts = DiskCounts()
        self._stopped = False
        self._bytes: int | None = None  # as far as this process knows
        self._since_scan = 0
        private_folder(folder)

    def load_bytes(self, key: str) -> memoryview | None:
        """What is no code, a plan say, of that key; None if there is none that is sound."""
        path = self._path(key, _BYTES_SUFFIX)
        try:
            data = read_file(path)
        except OSError:
            return None
        start = len(_BYTES_MAGIC) + _DIGEST
        body = memoryview(data)[start:]
        name = hashlib.sha256(key.encode()).digest()
        if data[:start] != _BYTES_MAGIC + hashlib.sha256(body).digest() or body[:_DIGEST] != name:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return body[_DIGEST:]

    def store_bytes(self, key: str, kept: bytes) -> None:
        """Keep what is no code, as an executable is kept."""
        body = hashlib.sha256(key.encode()).digest() + kept
        self._write(self._path(key, _BYTES_SUFFIX), _BYTES_MAGIC + hashlib.sha256(body).digest() + body)

    def store_as(self, path: str, kept: bytes) -> None:
        """Keep bytes in a file that others know how to find."""
        self._write(path, kept)

    def _write(self, path: str, data: bytes) -> None:
        if self._stopped or len(data) > self.limit:
            return
        import tempfile  # takes a while, and most processes only read

        try:
            if not self.makes and not os.path.isdir(self.folder):
                return
            # Others may have made it writable, or put another one in its place.
            private_folder(self.folder)
            handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self.folder)
            try:
                with open(handle, "wb") as stream:
                    stream.write(data)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            self._stopped = True
            logger.warning("keeping compiled code stopped: can't write to %s: %s", self.folder, error.strerror or error)
            return
        self.counts.written += 1
        self._bound(len(data))

    def usage(self) -> tuple[int, int]:
        """How many entries there are now, and their bytes."""
        entries = self._entries()
        return len(entries), sum(size for _, size, _ in entries)

    def clear(self) -> None:
        """Remove all entries; those that are loaded stay loaded."""
        for _, _, path in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(path)
        self._bytes = 0

    def _path(self, key: str, suffix: str = _SUFFIX) -> str:
        return os.path.join(self.folder, hashlib.sha256(key.encode()).hexdigest() + suffix)

    def _entries(self) -> list[tuple[int, int, str]]:
        """(time of the last use, bytes, path) of every entry."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as listing:
            for item in listing:
                # It may be gone by now: other processes remove entries too.
                with contextlib.suppress(OSError):
                    info = item.stat(follow_symlinks=False)
                    if item.name.endswith((_SUFFIX, _BYTES_SUFFIX, *_RUNS_SUFFIXES)):
                        found.append((info.st_mtime_ns, info.st_size, item.path))
                    elif item.name.endswith(".tmp") and info.st_mtime < time.time() - _STALE_SECONDS:
                        os.unlink(item.path)
        return found

    def _bound(self, added: int) -> None:
        self._since_scan += 1
        if self._bytes is not None and self._since_scan < _RESCAN:
            self._bytes += added
            if self._bytes <= self.limit:
                return
        entries = sorted(self._entries())
        self._since_scan = 0
        self._bytes = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if self._bytes <= self.limit:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            self._bytes -= size
            self.counts.evicted += 1


def private_folder(folder: str) -> None:
    """Make a folder that nobody else can write to, if it isn't there; CacheDirectoryError if it can't be trusted."""
    try:
        problem = make_private(folder)
    except OSError as error:
        raise CacheDirectoryError(
            error.errno or 0, f"can't use the folder of --persistent_cache_directory: {error.strerror or error}", folder
        ) from error
    if problem:
        raise CacheDirectoryError(1, f"compiled code is not loaded from the folder, because {problem}", folder)
