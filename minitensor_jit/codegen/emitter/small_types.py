"""Conversions of the types of `ir/small_types.py`, whose values are bytes in registers."""

from __future__ import annotations

from typing import Final

from ...ir.shape import DTYPES
from ...ir.small_types import SMALL_FLOATS, SMALL_INTEGERS
from ..llvm.ir_text import Builder
from ..llvm.ir_types import F32, I8, I32, Value, constant, vector

__all__ = ["single_to_small_float", "small_float_to_single", "small_integer"]

_NAN: Final = 0x7FC00000
_INFINITY: Final = 0x7F800000


def small_integer(b: Builder, x: Value, dtype: str) -> Value:
    """A byte's lowest bits, with the sign that they have."""
    away = constant(x.type, 8 - SMALL_INTEGERS[dtype])
    raised = b.shl(x, away)
    return b.ashr(raised, away) if DTYPES[dtype].kind == "i" else b.lshr(raised, away)


def small_float_to_single(b: Builder, x: Value, dtype: str) -> Value:
    """The float32 that a byte stands for."""
    form = SMALL_FLOATS[dtype]
    single, word = vector(F32, x.lanes), vector(I32, x.lanes)
    code = b.zext(x, word)

    def const(n: int) -> Value:
        return constant(word, n)

    if form.special == "exponents":
        number = b.shl(code, const(23))
        number = b.select(b.icmp_unsigned("==", code, const(0)), const(1 << 22), number)
        return b.bitcast(b.select(b.icmp_unsigned("==", code, const(255)), const(_NAN), number), single)
    top = form.exponent + form.mantissa
    size = b.and_(code, const(form.sign - 1))
    sign = b.shl(b.and_(code, const(form.sign)), const(31 - top))
    # As a float its exponent is short; the product is exact, for denormals too.
    raised = b.bitcast(b.shl(size, const(23 - form.mantissa)), single)
    number = b.bitcast(b.fmul(raised, constant(single, 2.0 ** (127 - form.bias))), word)
    if form.special == "ieee":
        special = b.or_(b.shl(size, const(23 - form.mantissa)), const(_INFINITY))
        number = b.select(b.icmp_unsigned(">=", size, const(form.infinity)), special, number)
    elif form.special == "fn":
        number = b.select(b.icmp_unsigned("==", size, const(form.infinity)), const(_NAN), number)
    number = b.or_(sign, number)
    if form.special == "fnuz":
        nan = b.icmp_unsigned("==", code, const(form.nan))
        number = b.select(nan, const(_NAN), number)
    return b.bitcast(number, single)


def single_to_small_float(b: Builder, x: Value, dtype: str) -> Value:
    """A float32 rounded to nearest even; `SmallFloat` says what becomes of NaN and of what is too large."""
    form = SMALL_FLOATS[dtype]
    single, word, byte = vector(F32, x.lanes), vector(I32, x.lanes), vector(I8, x.lanes)
    bits = b.bitcast(x, word)

    def const(n: int) -> Value:
        return constant(word, n - (1 << 32) if n >= 1 << 31 else n)

    size = b.and_(bits, const(0x7FFFFFFF))
    is_nan = b.icmp_unsigned(">", size, const(_INFINITY))
    if form.special == "exponents":
        # Half of the way rounds up, of the way to the smallest normal float32 down.
        half = b.select(b.icmp_unsigned("<", size, const(1 << 23)), const(0x3FFFFF), const(0x400000))
        code = b.lshr(b.add(bits, half), const(23))
        positive = b.fcmp_ordered(">", x, constant(single, 0.0))
        fits = b.and_(positive, b.icmp_unsigned("<", code, const(255)))
        return b.trunc(b.select(fits, code, const(255)), byte)
    shift = 23 - form.mantissa
    sign = b.and_(b.lshr(bits, const(31 - form.exponent - form.mantissa)), const(form.sign))
    small = b.icmp_unsigned("<", size, const((128 - form.bias) << 23))
    # Below the smallest normal number, adding what has its last bit leaves the rounded multiple in the lowest bits.
    magic = 24 - form.bias - form.mantissa
    shifted = b.fadd(b.bitcast(b.select(small, size, const(0)), single), constant(single, 2.0**magic))
    tiny = b.sub(b.bitcast(shifted, word), const((magic + 127) << 23))
    odd = b.and_(b.lshr(size, const(shift)), const(1))
    rounded = b.lshr(b.add(b.add(size, const((1 << (shift - 1)) - 1)), odd), const(shift))
    normal = b.sub(rounded, const((127 - form.bias) << form.mantissa))
    code = b.select(small, tiny, normal)
    most = form.infinity - 1 if form.special == "finite" else form.infinity
    code = b.select(b.icmp_unsigned(">", code, const(most)), const(most), code)
    if form.special == "fnuz":
        # What is too large is the NaN, which looks like a negative zero; there is one zero.
        nothing = b.or_(b.icmp_unsigned("==", code, const(0)), b.icmp_unsigned("==", code, const(most)))
        sign = b.select(nothing, const(0), sign)
    code = b.or_(code, sign)
    nan = const(form.nan) if form.special in ("fnuz", "finite") else b.or_(const(form.nan), sign)
    return b.trunc(b.select(is_nan, nan, code), byte)
