"""Object code on disk, for `--persistent_cache_directory=DIR`: what one process compiled, the next one loads.

An entry's name is the SHA-256 of everything that code generation reads (`key_of`): the HLO text, the options, the
processor with its features, the versions of minitensor, its core and LLVM, the sources of the compiler. The
entry repeats that key and has a checksum over all of it. So an entry that was cut short, changed, renamed, or is for
another machine is not loaded: it is removed, and the cluster is compiled anew.

How files are written, and whose folders are trusted: `lru_disk_folder.py`. Programs for GPUs are kept the same
way, with the driver's code of their PTX (`runtime/cuda/executable.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
from functools import cache

from minitensor._jit.kept_plans import compiler_fingerprint, compiler_sources
from minitensor._jit.processor import processor
from minitensor_jit.cache.disk_entry import OtherSizes, decode, encode
from minitensor_jit.cache.lru_disk_folder import DiskFolder, read_file
from minitensor_jit.flags import JitOptions
from minitensor_jit.log import log
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["DiskCache", "cache_at", "decode", "encode", "key_of"]


@cache
def _codegen_text(options: JitOptions) -> str:
    return options.codegen.text()


def key_of(module: str, options: JitOptions, gpu: str = "") -> str:
    """Everything that the machine code of a module depends on, as text. `module` is its `module_id`."""
    return json.dumps(
        {
            "hlo": module,
            "options": _codegen_text(options),
            "processor": gpu or processor(),
            "compiler": compiler_fingerprint(),
        }
    )


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


class DiskCache(DiskFolder):
    """The code and the plans in one folder."""

    def __init__(self, folder: str, limit: int) -> None:
        super().__init__(folder, limit)
        compiler_sources()  # read by the time that a program is recorded

    def load(self, key: str, name: str, options: JitOptions, *, only_sound: bool = False) -> AnyExecutable | None:
        """The executable of that key, with its code in memory; None if there is none that is sound.

        With `only_sound` one that is missing or damaged is left for whoever asks next.
        """
        path = self._path(key)
        if only_sound:
            try:
                executable = decode(read_file(path), key, name)
            except Exception:
                return None
            self.counts.hits += 1
            with contextlib.suppress(OSError):
                os.utime(path)
            return executable
        try:
            data = read_file(path)
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
