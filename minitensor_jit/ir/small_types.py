"""Element types of eight bits and less that are stored but not computed in: floats in float32, integers in 32 bits.

An element is one byte. NumPy has no such types; arrays of them have a dtype with one field, which has the bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .shape import DTYPES

__all__ = ["SMALL_FLOATS", "SMALL_INTEGERS", "SmallFloat", "decoded", "encoded", "float_limits", "integer_limits"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A format: a sign, `exponent` bits and `mantissa` bits; f8e8m0fnu has exponents only.

    `special` says what is no finite number: "ieee" has infinities and NaN, "fn" one NaN of each sign, all bits set,
    "fnuz" one NaN in the place of a negative zero, and "finite" none.
    """

    exponent: int
    mantissa: int
    bias: int
    special: str

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def infinity(self) -> int:
        """The first magnitude that is no finite number."""
        magnitudes = self.sign
        return magnitudes - {"ieee": 1 << self.mantissa, "fn": 1}.get(self.special, 0)

    @property
    def nan(self) -> int:
        """The bits of NaN; where there is none, what NaN becomes."""
        if self.special == "ieee":
            return self.infinity | 1 << (self.mantissa - 1)
        return self.infinity if self.special == "fn" else self.sign


SMALL_FLOATS: Final = {
    "f4e2m1fn": SmallFloat(2, 1, 1, "finite"),
    "f8e3m4": SmallFloat(3, 4, 3, "ieee"),
    "f8e4m3": SmallFloat(4, 3, 7, "ieee"),
    "f8e4m3fn": SmallFloat(4, 3, 7, "fn"),
    "f8e4m3fnuz": SmallFloat(4, 3, 8, "fnuz"),
    "f8e4m3b11fnuz": SmallFloat(4, 3, 11, "fnuz"),
    "f8e5m2": SmallFloat(5, 2, 15, "ieee"),
    "f8e5m2fnuz": SmallFloat(5, 2, 16, "fnuz"),
    "f8e8m0fnu": SmallFloat(8, 0, 127, "exponents"),
}
SMALL_INTEGERS: Final = {"s2": 2, "s4": 4, "u2": 2, "u4": 4}


def integer_limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    d = DTYPES[dtype]
    bits = SMALL_INTEGERS.get(dtype, 8 * d.itemsize)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if d.kind == "i" else (0, (1 << bits) - 1)


def float_limits(dtype: str) -> tuple[float, float]:
    """The numbers below and above all others of a type: infinities where it has them."""
    if dtype not in SMALL_FLOATS or SMALL_FLOATS[dtype].special == "ieee":
        return -math.inf, math.inf
    values = _values(dtype)
    return float(np.nanmin(values)), float(np.nanmax(values))


def decoded(x: Array, dtype: str) -> Array:
    """The numbers as float32, or the integers in 32 bits."""
    codes = np.ascontiguousarray(x).view(np.uint8).reshape(x.shape)
    if dtype in SMALL_FLOATS:
        return _values(dtype)[codes]
    bits = SMALL_INTEGERS[dtype]
    low = codes & np.uint8((1 << bits) - 1)
    if DTYPES[dtype].kind == "u":
        return low.astype(np.uint32)
    sign = 1 << (bits - 1)
    return (low ^ np.uint8(sign)).astype(np.int32) - np.int32(sign)


def encoded(x: Array, dtype: str) -> Array:
    """Numbers of float32 rounded to the nearest of the type, to the even one of two; integers wrap."""
    numpy_dtype = DTYPES[dtype].numpy
    if dtype in SMALL_INTEGERS:
        bits = SMALL_INTEGERS[dtype]
        low = x.astype(np.int64) & ((1 << bits) - 1)
        if DTYPES[dtype].kind == "i":
            low = low - ((low >> (bits - 1)) << bits)
        return np.ascontiguousarray(low.astype(np.int8)).view(numpy_dtype).reshape(x.shape)
    single = np.asarray(x.astype(np.float32, order="C"))
    codes = _exponents(single) if dtype == "f8e8m0fnu" else _nearest(single, dtype)
    return np.ascontiguousarray(codes.astype(np.uint8)).view(numpy_dtype).reshape(x.shape)


@cache
def _values(dtype: str) -> Array:
    """The number that each byte stands for."""
    form = SMALL_FLOATS[dtype]
    values = np.empty(256, np.float32)
    for code in range(256):
        if form.special == "exponents":
            values[code] = np.nan if code == 255 else 2.0 ** (code - form.bias)
            continue
        size = code & (form.sign - 1)
        exponent, mantissa = divmod(size, 1 << form.mantissa)
        value = (mantissa + (1 << form.mantissa if exponent else 0)) * 2.0 ** (
            max(exponent, 1) - form.bias - form.mantissa
        )
        if form.special == "fnuz" and code == form.sign:
            value = np.nan
        elif size >= form.infinity:
            value = np.inf if size == form.infinity and form.special == "ieee" else np.nan
        values[code] = -value if code & form.sign else value
    return values


def _nearest(x: Array, dtype: str) -> Array:
    form = SMALL_FLOATS[dtype]
    finite = _values(dtype)[: form.infinity].astype(np.float64)
    # With the number that would follow the largest one.
    grid = np.append(finite, 2 * finite[-1] - finite[-2])
    size = np.abs(x).astype(np.float64)
    above = np.clip(np.searchsorted(grid, size), 1, len(grid) - 1)
    to_low, to_high = size - grid[above - 1], grid[above] - size
    code = np.where((to_low < to_high) | ((to_low == to_high) & (above % 2 == 1)), above - 1, above)
    if form.special == "finite":
        code = np.minimum(code, form.infinity - 1)
    code = code | np.where(np.signbit(x), form.sign, 0)
    if form.special == "fnuz":
        code = np.where(code == form.sign, 0, code)  # there is one zero
        code = np.where(size >= (grid[-1] + grid[-2]) / 2, form.nan, code)
    nan = np.where(np.signbit(x), form.sign, 0) | form.nan
    return np.where(np.isnan(x), nan, code)


def _exponents(x: Array) -> Array:
    """Powers of two. A half rounds up, but below the smallest normal float32 down, as in XLA."""
    bits = x.view(np.uint32).astype(np.int64)
    code = np.where(bits < 1 << 23, bits + 0x3FFFFF, bits + 0x400000) >> 23
    return np.where((x > 0) & (code < 255), code, 255)
