"""What this machine can do, measured: the bytes that a copy moves in a second, and the flops of a matrix product."""

from __future__ import annotations

import ctypes
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from minitensor import _C
from minitensor_jit.codegen.abi import CALL_KERNEL
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.semantics.kernel_call import KERNEL_PREFIX, KernelCall, Param, words_of
from minitensor_jit.ir.shape import Shape

__all__ = ["Machine", "measure"]

_SIZES = tuple(2**k for k in (14, 17, 20, 23, 26))
"""Bytes that are moved, read and written together: from what fits into a core's cache to what fits into none."""
_PRODUCT = 256


@dataclass(frozen=True, slots=True)
class Machine:
    """The roof over a kernel: it can't be done before its bytes are moved, nor before its flops are done."""

    bandwidth: tuple[float, ...]
    """Bytes in a second, for so many bytes as above: by copies or, where that is more, by sums, which only read."""
    flops: float
    """Operations in a second: float32, in matrix products."""
    threads: int

    def bandwidth_for(self, nbytes: int) -> float:
        """Bytes in a second that a kernel which moves so many can reach.

        Between two sizes part of the arrays may be in the faster cache: the roof is that of the smaller one.
        """
        return max(self.bandwidth[max(bisect_right(_SIZES, nbytes) - 1, 0) :])

    def seconds(self, nbytes: int, flops: int, _arithmetic: str = "") -> float:
        """The least time that a kernel takes."""
        return max(nbytes / self.bandwidth_for(nbytes), flops / self.flops)

    def to_json(self) -> dict[str, Any]:
        """What `json` can write of it."""
        return {
            "bytes_per_second": self.bandwidth[-1],
            "bytes_per_second_of_caches": list(self.bandwidth[:-1]),
            "flops_per_second": self.flops,
            "threads": self.threads,
        }

    def __str__(self) -> str:
        threads = f"{self.threads} thread" + ("s" if self.threads != 1 else "")
        return (
            f"{self.bandwidth[-1] / 1e9:.1f} GB/s from memory, up to {max(self.bandwidth) / 1e9:.1f} GB/s from caches, "
            f"{self.flops / 1e9:.0f} Gflop/s, as copies, sums and a product of float32 matrices reach with {threads}"
        )


@cache
def measure() -> Machine:
    """Measure this machine, once a process; takes some tenths of a second."""
    # What it costs to call a kernel at all is no part of a copy.
    call = _best(_kernel("clone", [(1,)], (1,)))
    return Machine(
        tuple(max(_copy(size, call), _read(size, call)) for size in _SIZES), _product(), _C.get_num_threads()
    )


def _copy(nbytes: int, call: float) -> float:
    taken = _best(_kernel("clone", [(nbytes // 8,)], (nbytes // 8,)))
    return nbytes / max(taken - call, taken / 4)


def _read(nbytes: int, call: float) -> float:
    """Memory that is written is read first, and both counts once only: what just reads moves more of what counts."""
    taken = _best(_kernel("sum", [(nbytes // 4,)], (), (None, False, None)))
    return nbytes / max(taken - call, taken / 4)


def _product() -> float:
    square = (_PRODUCT, _PRODUCT)
    return 2 * _PRODUCT**3 / _best(_kernel("matmul", [square, square], square))


def _kernel(
    op: str, operands: Sequence[tuple[int, ...]], result: tuple[int, ...], params: tuple[Param, ...] = ()
) -> Callable[[], object]:
    """What runs an eager kernel on float32, on the same memory every time; not an op, which might be recorded."""
    arrays = [np.ones(dims, np.float32) for dims in (*operands, result)]
    inputs = [
        Instruction(f"p{k}", "parameter", Shape("f32", dims), parameter_number=k) for k, dims in enumerate(operands)
    ]
    config = KernelCall(op, "t" * len(operands), params).config()
    attrs = {"custom_call_target": KERNEL_PREFIX + op, "backend_config": config}
    words = words_of(Instruction(op, "kernel-call", Shape("f32", result), inputs, attrs))
    description = (ctypes.c_int64 * len(words))(*words)
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    table = ctypes.cast(_C.runtime_address(), ctypes.POINTER(ctypes.c_void_p))
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(table[CALL_KERNEL])

    def run() -> list[object]:
        call(description, pointers)
        return [arrays]  # which the pointers lead to

    run()
    _C.raise_runtime_error()
    return run


def _best(run: Callable[[], object], budget: float = 0.03) -> float:
    """The shortest of several runs, in seconds."""
    run()
    best, end = float("inf"), time.perf_counter() + budget
    while True:
        started = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - started)
        if now > end:
            return max(best, 1e-9)
