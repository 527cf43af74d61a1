"""What this process compiled as bytes, and back: `minitensor.compiler.save_cache_artifacts`.

The bytes have the entries that the cache on disk would have. An entry says all that its code depends on; one for
another machine, another version or other options is passed by, and its cluster compiled anew. Two kinds of code are
left out: that for all sizes of a dimension, as what it assumes of the sizes is only known while it is compiled, and
that of GPUs.
"""

from __future__ import annotations

import hashlib
import marshal
from dataclasses import dataclass, field

from minitensor_jit.api import all_compilers
from minitensor_jit.cache.disk_cache import key_of
from minitensor_jit.cache.disk_entry import decode, encode
from minitensor_jit.compiler.compiler import Compiler
from minitensor_jit.log import log
from minitensor_jit.runtime.executable import AnyExecutable, Executable

__all__ = ["CacheInfo", "load", "save"]

_MAGIC = b"minitensor artifacts 1\n"
_START = len(_MAGIC) + hashlib.sha256().digest_size
_KIND = "inductor"  # as PyTorch calls what its compiler makes


@dataclass
class CacheInfo:
    """What was saved or loaded: `artifacts` has the keys of compiled modules under their kind."""

    artifacts: dict[str, list[str]] = field(default_factory=dict)

    @property
    def inductor_artifacts(self) -> list[str]:
        """The keys of compiled modules."""
        return self.artifacts.get(_KIND, [])

    def add(self, module: str) -> None:
        """Enter a module."""
        self.artifacts.setdefault(_KIND, []).append(module)

    def clear(self) -> None:
        """Forget all."""
        self.artifacts.clear()

    def empty(self) -> bool:
        """Whether there is nothing."""
        return not self.artifacts


def save() -> tuple[bytes, CacheInfo] | None:
    """All compiled code that is alive and can be kept; None if there is none."""
    entries: dict[str, tuple[str, str, bytes]] = {}
    for compiler in all_compilers():
        for module, executable in compiler.executables.alive():
            if _can_be_kept(executable):
                key = key_of(module, compiler.options)
                entries[key] = module, executable.name, encode(key, executable)
    if not entries:
        return None
    info = CacheInfo()
    for module, _, _ in entries.values():
        info.add(module)
    body = marshal.dumps(list(entries.values()))
    return _MAGIC + hashlib.sha256(body).digest() + body, info


def load(artifacts: bytes) -> CacheInfo | None:
    """Take over what `save` gave, as far as it is for this machine; None for bytes that are damaged."""
    data = bytes(artifacts)
    body = data[_START:]
    if data[:_START] != _MAGIC + hashlib.sha256(body).digest():
        return None
    info = CacheInfo()
    for module, name, entry in marshal.loads(body):
        taken = [_take(compiler, module, name, entry) for compiler in all_compilers()]
        if any(taken):
            info.add(module)
    return info


def _can_be_kept(executable: AnyExecutable) -> bool:
    # Code that measures itself has the addresses of its counters.
    if not isinstance(executable, Executable) or executable.counters is not None:
        return False
    shapes = [*executable.parameter_shapes, *executable.result_shapes]
    return type(executable.scratch_bytes) is int and all(type(n) is int for shape in shapes for n in shape.dims)


def _take(compiler: Compiler, module: str, name: str, entry: bytes) -> bool:
    if compiler.executables.has(module):
        return True
    key = key_of(module, compiler.options)
    try:
        executable = decode(entry, key, name)
    except ValueError as error:
        log(compiler.options, "persistent_cache", 1, "%s is not taken over: %s", name, error)
        return False
    compiler.executables.insert(module, executable, keep=True)
    if compiler.disk is not None and not compiler.disk.has(key):
        compiler.disk.store(key, executable)
    return True
