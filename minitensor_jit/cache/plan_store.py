"""Whole plans on disk, beside the code that they launch: a trace that an earlier process saw is run without compiling.

A plan is kept by the trace's signature, which is everything that plans in memory are found by, the names of the ops
that it counts, the options, and what `disk_cache.key_of` has of the machine and the compiler; so clustering, lowering
and printing the HLO are left out. Only plans that do nothing else than to run a function's code are kept: what is
measured, watched, accounted for or not compiled yet needs the whole compiler anyway.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import replace

from minitensor import _C
from minitensor_jit.cache.disk_cache import DiskCache, key_of
from minitensor_jit.flags import JitOptions
from minitensor_jit.runtime.executable import Executable

__all__ = ["PlanStore"]

_ID = hashlib.sha256().digest_size


class PlanStore:
    """The plans of one folder, made under one set of options."""

    def __init__(self, disk: DiskCache, options: JitOptions) -> None:
        self._disk = disk
        self._options = options
        nowhere = replace(options, persistent_cache_directory=None, persistent_cache_bytes=0)
        self._start = f"plan {sys.version} {nowhere.text()}"

    def _key(self, signature: bytes) -> str:
        """Everything that a plan depends on, as text."""
        # A signature has the ops' numbers.
        names = hashlib.sha256(" ".join(_C.op_names()).encode()).hexdigest()
        trace = hashlib.sha256(signature).hexdigest()
        return f"{self._start} {names} {trace} {key_of('', self._options)}"

    def store(self, signature: bytes, plan: bytes, modules: Sequence[str]) -> None:
        """Keep a plan, as the core writes it, with the ids of the modules that it launches, in their order."""
        ids = b"".join(map(bytes.fromhex, modules))
        self._disk.store_bytes(self._key(signature), len(modules).to_bytes(4, "little") + ids + plan)

    def load(self, signature: bytes, name: str) -> tuple[memoryview, list[tuple[str, Executable]]] | None:
        """A plan, and its modules with their code; None if there is none that is sound, with all its code."""
        data = self._disk.load_bytes(self._key(signature))
        if data is None:
            return None
        end = 4 + _ID * int.from_bytes(data[:4], "little")
        code: dict[str, Executable] = {}
        modules = [data[start : start + _ID].hex() for start in range(4, end, _ID)]
        for module in modules:
            if module in code:
                continue
            executable = self._disk.load(key_of(module, self._options), name, self._options, only_sound=True)
            if not isinstance(executable, Executable):
                return None
            code[module] = executable
        return data[end:], [(module, code[module]) for module in modules]
