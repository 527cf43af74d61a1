"""The functions of the eager core that compiled modules call, and the evaluator too."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitensor import _C

from ..ir.library import LibraryLoop
from ..ir.semantics.kernel_call import KERNEL_PREFIX, result_shapes, words_of
from .abi import CALL_KERNEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ir.module import Instruction

__all__ = ["CoreLibrary"]


class CoreLibrary:
    """The core's kernels, and the inner loops of the elementwise ones, by the names of its ops."""

    def __init__(self) -> None:
        self._loops: dict[tuple[str, str], LibraryLoop | None] = {}

    def loop(self, name: str, dtype: str) -> LibraryLoop | None:
        """The loop that the eager kernel of the op `name` runs on elements of that type, if there is one."""
        key = name, dtype
        if key not in self._loops:
            found = _C.elementwise_loop(name, dtype)
            self._loops[key] = None if found is None else LibraryLoop(name, dtype, found[1], found[2], found[0])
        return self._loops[key]

    def has_kernel(self, target: str) -> bool:
        """Whether there is the kernel that a `kernel-call` names."""
        return _C.has_native_kernel(target.removeprefix(KERNEL_PREFIX))

    def run_kernel(self, call: Instruction, operands: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The results of a `kernel-call`; raises what the kernel raises."""
        inputs = [np.ascontiguousarray(x) for x in operands]
        results = [np.empty(s.dims, s.numpy_dtype) for s in result_shapes(call.shape)]
        words = words_of(call)
        description = (ctypes.c_int64 * len(words))(*words)
        pointers = (ctypes.c_void_p * (len(inputs) + len(results)))(*(x.ctypes.data for x in (*inputs, *results)))
        table = ctypes.cast(_C.runtime_address(), ctypes.POINTER(ctypes.c_void_p))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(table[CALL_KERNEL])(description, pointers)
        _C.raise_runtime_error()
        return results
