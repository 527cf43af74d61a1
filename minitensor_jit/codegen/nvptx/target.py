"""From LLVM text to PTX, in this process."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

from .program import GpuTarget
from .verify import verify

__all__ = ["LAYOUT", "TRIPLE", "ptx_of"]

TRIPLE: Final = "nvptx64-nvidia-cuda"
LAYOUT: Final = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

_lock = threading.Lock()


@cache
def _machine(name: str, ptx_version: tuple[int, int]) -> Any:
    # All targets: only the host's has a function of its own.
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = "+ptx{}{}".format(*ptx_version)
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=name, features=features, opt=3)


def ptx_of(text: str, target: GpuTarget) -> str:
    """The PTX of a module of LLVM text. Raises `CompileError` for what the backend could not lower."""
    verify(text)
    with _lock:
        module = llvm.parse_assembly(text)
        return str(_machine(target.name, target.ptx_version).emit_assembly(module))
