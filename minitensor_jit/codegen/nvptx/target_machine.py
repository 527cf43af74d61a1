"""From LLVM text to PTX, in this process."""

from __future__ import annotations

from typing import Final

from minitensor import _forks

from ...runtime.cuda.program import GpuTarget
from ..llvm.ir_compiler import Machine, emit
from .verify import verify

__all__ = ["LAYOUT", "TRIPLE", "ptx_of"]

TRIPLE: Final = "nvptx64-nvidia-cuda"
LAYOUT: Final = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

_lock = _forks.lock()


def ptx_of(text: str, target: GpuTarget) -> str:
    """The PTX of a module of LLVM text. Raises `CompileError` for what the backend could not lower."""
    verify(text)
    machine = Machine(TRIPLE, target.name, "+ptx{}{}".format(*target.ptx_version), level=3)
    with _lock:
        return emit(machine, text, assembly=True).decode()
