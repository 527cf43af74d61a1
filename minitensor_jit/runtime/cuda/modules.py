"""From PTX to modules on a GPU. The driver's assembler makes the code, which may be kept on disk as a cubin."""

from __future__ import annotations

import ctypes
import logging
from typing import TYPE_CHECKING, Any

from minitensor_jit.runtime.cuda.context import check, enter
from minitensor_jit.runtime.cuda.driver import driver
from minitensor_jit.runtime.cuda.program import GpuProgram

if TYPE_CHECKING:
    from minitensor_jit.runtime.cuda.executable import GpuExecutable

__all__ = ["assemble", "load"]

logger = logging.getLogger("minitensor_jit")

_PTX_INPUT = 1  # CU_JIT_INPUT_PTX of cuda.h


def assemble(program: GpuProgram, index: int) -> bytes:
    """The cubin of a program's PTX, by the driver's linker; empty where that can't be reached.

    PyCUDA of today gives no way to the linked image, so the driver's library is asked itself, in the GPU's context.
    """
    if not program.ptx:
        return b""
    enter(index)
    link = getattr(driver(), "link_ptx", None)
    if link is not None:
        return bytes(link(program.ptx.encode()))
    library = _library()
    if library is None:
        return b""
    state, image, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    if library.cuLinkCreate_v2(0, None, None, ctypes.byref(state)):
        return b""
    try:
        text = program.ptx.encode() + b"\0"
        added = library.cuLinkAddData_v2(
            state, _PTX_INPUT, text, ctypes.c_size_t(len(text)), program.name.encode(), 0, None, None
        )
        if added or library.cuLinkComplete(state, ctypes.byref(image), ctypes.byref(size)):
            return b""
        return ctypes.string_at(image, size.value)
    finally:
        library.cuLinkDestroy(state)


def _library() -> Any:
    """The driver's library."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def load(index: int, executable: GpuExecutable) -> Any:
    """The program's module on a GPU; CudaError with the assembler's words if it can't be loaded."""
    enter(index)
    if executable.cubin:
        try:
            return _loaded(executable.cubin)
        except driver().Error as error:
            # Kept code that this driver doesn't take after all: there is the PTX.
            logger.warning("%s: its kept code can't be loaded (%s); it is assembled anew", executable.name, error)
            executable.cubin = b""
    return check(index, f"loading {executable.name}", _loaded, executable.program.ptx.encode())


def _loaded(image: bytes) -> Any:
    d = driver()
    try:
        return d.module_from_buffer(image)
    except UnicodeDecodeError as error:
        # PyCUDA 2026.1 takes what lay in memory for the assembler's words where the driver fails before it assembles.
        raise d.LogicError("cuModuleLoadDataEx failed before anything was assembled") from error
