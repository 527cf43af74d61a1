"""The fields of the runtime's table, `MtRuntime` in `csrc/runtime/abi.h`, as numbers of pointers."""

from __future__ import annotations

from typing import Final

__all__ = ["CALL_HOST", "CALL_KERNEL", "CONVOLVE", "GEMM", "GEMMS", "GEMV", "PARALLEL_FOR", "SORT"]

PARALLEL_FOR: Final = 1
GEMM: Final = {"f32": 2, "f64": 3, "s32": 4, "s64": 5, "u8": 6}
CALL_KERNEL: Final = 7
GEMV: Final = {"f32": 8, "f64": 9}
SORT: Final = 10
CALL_HOST: Final = 11
CONVOLVE: Final = 12
GEMMS: Final = {"f32": 13, "f64": 14}
