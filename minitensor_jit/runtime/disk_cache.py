"""Object code on disk, for `--persistent_cache_directory=DIR`: what one process compiled, the next one loads.

An entry's name is the SHA-256 of everything that code generation reads (`key_of`): the HLO text, the options, the
processor with its features, the versions of minitensor, its core and LLVM, the sources of the compiler. The
entry repeats that key and has a checksum over all of it. So an entry that was cut short, changed, renamed, or is for
another machine is not loaded: it is removed, and the cluster is compiled anew.

Many processes may share a folder. An entry is written to a file of its own and renamed, so that it is there entirely
or not at all; two that write the same one write the same bytes. The least recently used entries go when the
folder has more than `--persistent_cache_bytes`.

Programs for cards are kept the same way, with the driver's code of their PTX (`runtime/cuda/executable.py`).

Machine code is run as it is found, so the folder has to be private: it is made with mode 0700, and one that belongs to
somebody else, or that others can write to, is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from minitensor import _C
from minitensor_jit.errors import CacheDirectoryError
from minitensor_jit.flags import JitOptions
from minitensor_jit.log import log
from minitensor_jit.runtime.disk_entry import OtherSizes, decode, encode
from minitensor_jit.runtime.executable import AnyExecutable
from minitensor_jit.runtime.forecast import Forecast
from minitensor_jit.runtime.processor import processor

__all__ = ["DiskCache", "cache_at", "decode", "encode", "key_of"]

logger = logging.getLogger("minitensor_jit")

_SUFFIX = ".mto"
_PLAN_MAGIC = b"minitensor plan 2\n"
_PLAN_SUFFIX = ".mtp"
_DIGEST = hashlib.sha256().digest_size
_RESCAN = 64
"""After that many entries written the folder is counted again, since other processes write to it too."""
_STALE_SECONDS = 3600.0
"""A temporary file that is older was left by a process that died."""


@cache
def _sources() -> Any:
    """A reading of the stamps of the compiler's files, and LLVM's, by a thread: it takes a millisecond.

    Files are told apart by their sizes and times, and LLVM is not imported: loading a kept program takes milliseconds.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Rows and clustering matter to plans.
    parts = [os.path.join(package, part) for part in ("clustering", "codegen", "ir", "lowering", "passes", "runtime")]
    found = find_spec("llvmlite")
    llvmlite = os.path.dirname(found.origin) if found is not None and found.origin else ""
    ops = os.path.join(os.path.dirname(os.path.abspath(_C.__file__)), "ops")
    return _C.read_file_stamps((*parts, ops, os.path.join(llvmlite, "binding")), (".py", ".so", ".dylib", ".dll"))


@cache
def _compiler_fingerprint() -> str:
    """What stands for the code that compiles, and for the core that its code calls."""
    digest = hashlib.sha256(_C.file_stamps(_sources()))
    core = os.stat(_C.__file__)
    return f"{_C.version} core {core.st_size} {core.st_mtime_ns} compiler {digest.hexdigest()}"


@cache
def _codegen_text(options: JitOptions) -> str:
    return options.codegen.text()


def key_of(module: str, options: JitOptions, card: str = "") -> str:
    """Everything that the machine code of a module depends on, as text. `module` is its `module_id`."""
    return json.dumps(
        {
            "hlo": module,
            "options": _codegen_text(options),
            "processor": card or processor(),
            "compiler": _compiler_fingerprint(),
        }
    )


@dataclass(slots=True)
class DiskCacheCounts:
    """What a cache did in this process."""

    hits: int = 0
    misses: int = 0
    rebuilt: int = 0
    """Entries that were there, but damaged, or for another machine under this one's name."""
    written: int = 0
    evicted: int = 0


_caches: dict[str, DiskCache] = {}


def cache_at(folder: str, limit: int) -> DiskCache:
    """The cache in a folder; one for each folder in a process. CacheDirectoryError if the folder is not private."""
    path = os.path.realpath(folder)
    if path not in _caches:
        _caches[path] = DiskCache(path, limit)
    _caches[path].limit = limit
    return _caches[path]


def all_caches() -> list[DiskCache]:
    """Those that this process uses."""
    return list(_caches.values())


class DiskCache:
    """The entries of one folder."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.counts = DiskCacheCounts()
        self._stopped = False
        self._bytes: int | None = None  # as far as this process knows
        self._since_scan = 0
        _make_private(folder)
        _sources()  # read by the time that a program is recorded
        self.forecast = Forecast(self)

    def load(self, key: str, name: str, options: JitOptions, *, only_sound: bool = False) -> AnyExecutable | None:
        """The executable of that key, with its code in memory; None if there is none that is sound.

        With `only_sound` one that is missing or damaged is left for whoever asks next.
        """
        path = self._path(key)
        if only_sound:
            try:
                executable = decode(_read(path), key, name)
            except Exception:
                return None
            self.counts.hits += 1
            with contextlib.suppress(OSError):
                os.utime(path)
            return executable
        try:
            data = _read(path)
        except FileNotFoundError:
            self.counts.misses += 1
            log(options, "persistent_cache", 2, "%s: not in %s", name, self.folder)
            return None
        except OSError as error:
            self.counts.misses += 1
            log(options, "persistent_cache", 1, "%s: can't read %s: %s", name, path, error)
            return None
        try:
            executable = decode(data, key, name)
        except OtherSizes as error:
            self.counts.misses += 1
            log(options, "persistent_cache", 2, "%s: %s is not for it: %s", name, path, error)
            return None
        except Exception as error:  # whatever is wrong with an entry, the cluster can be compiled
            self.counts.rebuilt += 1
            log(options, "persistent_cache", 1, "%s: %s is rebuilt: %s", name, path, error)
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        self.counts.hits += 1
        # What was used last goes last.
        with contextlib.suppress(OSError):
            os.utime(path)
        log(options, "persistent_cache", 1, "%s: loaded %d bytes from %s", name, len(data), path)
        return executable

    def has(self, key: str) -> bool:
        """Whether there is an entry of that key, sound or not."""
        return os.path.exists(self._path(key))

    def store(self, key: str, executable: AnyExecutable) -> None:
        """Keep an executable. A disk that is full is a warning, once; the program goes on without."""
        self._write(self._path(key), encode(key, executable))

    def load_bytes(self, key: str) -> memoryview | None:
        """What is no code, a plan say, of that key; None if there is none that is sound."""
        path = self._path(key, _PLAN_SUFFIX)
        try:
            data = _read(path)
        except OSError:
            return None
        start = len(_PLAN_MAGIC) + _DIGEST
        body = memoryview(data)[start:]
        name = hashlib.sha256(key.encode()).digest()
        if data[:start] != _PLAN_MAGIC + hashlib.sha256(body).digest() or body[:_DIGEST] != name:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return body[_DIGEST:]

    def store_bytes(self, key: str, kept: bytes) -> None:
        """Keep what is no code, as an executable is kept."""
        body = hashlib.sha256(key.encode()).digest() + kept
        self._write(self._path(key, _PLAN_SUFFIX), _PLAN_MAGIC + hashlib.sha256(body).digest() + body)

    def _write(self, path: str, data: bytes) -> None:
        if self._stopped or len(data) > self.limit:
            return
        try:
            # Others may have made it writable, or put another one in its place.
            _make_private(self.folder)
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
                    if item.name.endswith((_SUFFIX, _PLAN_SUFFIX)):
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


def _make_private(folder: str) -> None:
    try:
        parent = os.path.dirname(folder)
        os.makedirs(parent, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        info = os.stat(folder)
    except OSError as error:
        raise CacheDirectoryError(
            error.errno or 0, f"can't use the folder of --persistent_cache_directory: {error.strerror or error}", folder
        ) from error
    problem = ""
    if not stat.S_ISDIR(info.st_mode):
        problem = "it is not a folder"
    elif info.st_uid != os.geteuid():
        problem = f"it belongs to user {info.st_uid}"
    elif info.st_mode & 0o022:
        problem = f"others can write to it (mode {stat.S_IMODE(info.st_mode):04o}; chmod 700 makes it private)"
    elif (above := _replaceable(folder)) is not None:
        problem = f"anybody can put another one in its place (mode of {above})"
    if problem:
        raise CacheDirectoryError(1, f"compiled code is not loaded from the folder, because {problem}", folder)


def _replaceable(folder: str) -> str | None:
    """A folder above in which anybody can rename what is not his."""
    while (folder := os.path.dirname(folder)) != os.sep:
        mode = os.stat(folder).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return folder
    return None


def _read(path: str) -> bytes:
    """A file's bytes. A link is not followed: it could lead to a file of somebody else's."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        info = os.fstat(file.fileno())
        if info.st_uid != os.geteuid() or info.st_mode & 0o022:
            raise PermissionError(1, "others can write to the entry", path)
        return file.read()
