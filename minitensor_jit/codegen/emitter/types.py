"""How element types live in registers and in memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...ir.narrow import WIDER, array_of
from ...ir.shape import DTYPES
from ...ir.small_types import SMALL_FLOATS, SMALL_INTEGERS
from ..llvm.ir_types import F32, F64, I1, I8, I16, I32, I64, Pair, Type, Value, constant, vector

__all__ = ["MEMORY", "PARTS", "REGISTER", "constant_like", "dtype_constant", "parts", "register_type"]

# A pred is one bit in a register and one byte, 0 or 1, in memory.
REGISTER: Final[dict[str, Type]] = {
    "pred": I1,
    "s8": I8,
    "u8": I8,
    "s16": I16,
    "u16": I16,
    "s32": I32,
    "u32": I32,
    "s64": I64,
    "u64": I64,
    # Bits: they are converted to float32 before anything is computed.
    "f16": I16,
    "bf16": I16,
    "f32": F32,
    "f64": F64,
    # The parts; a value is a Pair of them.
    "c64": F32,
    "c128": F64,
    **dict.fromkeys((*SMALL_FLOATS, *SMALL_INTEGERS), I8),
}
PARTS: Final[dict[str, str]] = {"c64": "f32", "c128": "f64"}
MEMORY: Final[dict[str, Type]] = {**REGISTER, "pred": I8}


def register_type(dtype: str, lanes: int = 1) -> Type:
    """The LLVM type of a value of this dtype in `lanes` lanes."""
    return vector(REGISTER[dtype], lanes)


def dtype_constant(dtype: str, value: object, lanes: int = 1) -> Value:
    """A constant of this dtype; NumPy and Python numbers alike."""
    if dtype in WIDER:
        array = value if isinstance(value, (np.generic, np.ndarray)) else array_of(np.asarray(value), dtype)
        value = np.asarray(array).view(f"u{DTYPES[dtype].itemsize}")
    if dtype in PARTS:
        both = complex(value.item() if isinstance(value, (np.generic, np.ndarray)) else value)  # type: ignore[arg-type]
        type_ = register_type(dtype, lanes)
        return Pair(constant(type_, both.real), constant(type_, both.imag))
    number = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    return constant(register_type(dtype, lanes), number)


def constant_like(like: Value, value: float | int) -> Value:
    """A constant of the type of `like`."""
    return constant(like.type, value)


def parts(x: Value) -> tuple[Value, Value]:
    """The real and the imaginary part of a complex number."""
    assert isinstance(x, Pair)
    return x.re, x.im
