"""The host CPU as a target: its vector width, and the way from LLVM text to object code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from minitensor import _forks

from ..llvm.ir_compiler import Machine, emit
from ..llvm.ir_text import NOTE
from .provenance import with_locations, with_notes
from .verify import verify

__all__ = ["CpuTarget", "host_target"]

_lock = _forks.lock()


@dataclass(frozen=True)
class CpuTarget:
    """What code is generated for. Two targets with equal `key` give and run the same object code."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    half_conversion: bool
    """Whether it has instructions that convert float16 (F16C); LLVM would call a library where it has none."""
    attributes: tuple[str, ...]

    @property
    def narrowest_mask(self) -> int:
        """The bytes of the smallest elements whose vectors it loads and stores under a mask.

        AVX-512 has instructions for all, AVX2 for elements of 4 and 8 bytes (VPMASKMOV), others for none.
        """
        return {64: 1, 32: 4}.get(self.vector_bytes, 16)

    @property
    def machine(self) -> Machine:
        """LLVM's target machine. Made at the first use: loading code from disk needs none."""
        return Machine(*self.key, level=2)

    @property
    def layout(self) -> str:
        """The data layout, as LLVM writes it."""
        return str(self.machine.make().target_data)

    @property
    def key(self) -> tuple[str, str, str]:
        """What a cache of object code must compare."""
        return self.triple, self.cpu, self.features

    def compile(self, text: str) -> bytes:
        """The object code of a module."""
        verify(text)
        with _lock, _no_loop_strength_reduction():
            return emit(self.machine, text)

    def dump(self, text: str, write: Callable[[str, str], None]) -> None:
        """Write a module that has been compiled as LLVM read it, and its assembly."""
        with _lock, _no_loop_strength_reduction():
            texts = {"ir-with-opt.ll": str(llvm.parse_assembly(text)), "s": self._assembly(text)}
        for kind, form in texts.items():
            write(kind, form)

    def _assembly(self, text: str) -> str:
        """The assembly; with the notes of the text, if it has any."""
        if NOTE not in text:
            return emit(self.machine, text, assembly=True).decode()
        located, names = with_locations(text)
        return with_notes(emit(self.machine, located, assembly=True).decode(), names)


@contextmanager
def _no_loop_strength_reduction() -> Iterator[None]:
    """It takes a third of the time to generate code, and finds nothing in loops whose addresses are affine already.

    An option of the process: it is as before for whoever else has LLVM here.
    """
    llvm.set_option("minitensor", "-disable-lsr=1")
    try:
        yield
    finally:
        llvm.set_option("minitensor", "-disable-lsr=0")


def host_target() -> CpuTarget:
    """The machine that this runs on, or the smaller instruction set that `MT_ISA` names."""
    return _target(os.environ.get("MT_ISA", ""))


# Instruction sets by the name that MT_ISA has for them: LLVM's name of the processor, bytes in a vector.
_ISAS = {"baseline": ("x86-64", 16), "avx2": ("x86-64-v3", 32), "avx512": ("x86-64-v4", 64)}


@cache
def _target(isa: str) -> CpuTarget:
    triple = llvm.get_default_triple()
    if isa in _ISAS and triple.startswith("x86_64"):
        cpu, vector_bytes = _ISAS[isa]
        features, half = "", isa != "baseline"
    else:
        cpu = llvm.get_host_cpu_name()
        known = llvm.get_host_cpu_features()
        features = known.flatten()
        wide = known.get("avx512f") and known.get("avx512vl") and known.get("avx512dq") and known.get("avx512bw")
        half = bool(known.get("f16c"))
        vector_bytes = 64 if wide else 32 if known.get("avx2") else 16
    # The frame is not needed for unwinding; the width keeps LLVM from splitting 64-byte vectors on Intel's server
    # parts.
    attributes = [
        'nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512"' if vector_bytes == 64 else "nounwind"
    ]
    return CpuTarget(triple, cpu, features, vector_bytes, half, tuple(attributes))
