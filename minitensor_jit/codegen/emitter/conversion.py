"""Conversions between dtypes: a value in, the value in the other dtype out."""

from __future__ import annotations

from ...ir.narrow import NARROW, WIDER
from ...ir.shape import DTYPES
from ...ir.small_types import SMALL_INTEGERS, integer_limits
from ..llvm.ir_text import Builder
from ..llvm.ir_types import F16, F32, I8, I16, I32, Pair, Value, constant, vector
from .small_types import single_to_small_float, small_float_to_single, small_integer
from .types import PARTS, constant_like, parts, register_type

__all__ = ["convert"]


def convert(b: Builder, x: Value, source: str, target: str, *, native: bool = True) -> Value:
    """The value in another dtype. Floats out of an integer's range give what `docs/numerics.md` says.

    If not `native`, they give the nearest integer.
    """
    if source == target:
        return x
    if source in PARTS:
        re, im = parts(x)
        if target in PARTS:
            return Pair(convert(b, re, PARTS[source], PARTS[target]), convert(b, im, PARTS[source], PARTS[target]))
        if target == "pred":
            zero = constant_like(re, 0)
            return b.or_(b.fcmp_unordered("!=", re, zero), b.fcmp_unordered("!=", im, zero))
        return convert(b, re, PARTS[source], target)
    if target in PARTS:
        re = convert(b, x, source, PARTS[target])
        return Pair(re, constant_like(re, 0))
    if source in SMALL_INTEGERS:
        return convert(b, small_integer(b, x, source), WIDER[source][0] + "8", target)
    if source in WIDER:
        wide = _widen(b, x, source) if source in NARROW else small_float_to_single(b, x, source)
        return convert(b, wide, "f32", target, native=native)
    if target in SMALL_INTEGERS and DTYPES[source].kind != "f":
        byte = WIDER[target][0] + "8"
        return (
            small_integer(b, convert(b, x, source, byte), target)
            if source != "pred"
            else b.zext(x, vector(I8, x.lanes))
        )
    if target in WIDER and target not in SMALL_INTEGERS:
        single = convert(b, x, source, "f32")
        return _narrow(b, single, target) if target in NARROW else single_to_small_float(b, single, target)
    from_kind, to_kind = DTYPES[source].kind, DTYPES[target].kind
    type_ = register_type(target, x.lanes)
    if to_kind == "b":
        if from_kind == "f":
            return b.fcmp_unordered("!=", x, constant_like(x, 0))
        return b.icmp_unsigned("!=", x, constant_like(x, 0))
    if from_kind == "f":
        if to_kind == "f":
            return b.fpext(x, type_) if target == "f64" else b.fptrunc(x, type_)
        return _float_to_int(b, x, target) if native and target not in SMALL_INTEGERS else _saturate(b, x, target)
    if to_kind == "f":
        return b.sitofp(x, type_) if from_kind == "i" else b.uitofp(x, type_)
    have = 1 if from_kind == "b" else 8 * DTYPES[source].itemsize
    want = 8 * DTYPES[target].itemsize
    if want == have:
        return x
    if want < have:
        return b.trunc(x, type_)
    return b.sext(x, type_) if from_kind == "i" else b.zext(x, type_)


def _float_to_int(b: Builder, x: Value, target: str) -> Value:
    if target == "u64":
        # The upper half does not fit int64: shift it down and set the top bit afterwards.
        half = constant_like(x, 2.0**63)
        high = b.fcmp_ordered(">=", x, half)
        low = _truncate(b, b.select(high, b.fsub(x, half), x), 64)
        return b.select(high, b.xor(low, constant(low.type, -(2**63))), low)
    # By way of the type that the core computes in.
    bits = 32 if target in ("s8", "s16", "u16", "s32") else 64
    wide = _truncate(b, x, bits)
    return wide if target in ("s32", "s64") else b.trunc(wide, register_type(target, x.lanes))


def _saturate(b: Builder, x: Value, target: str) -> Value:
    """Truncation; what does not fit gives the nearest integer, and NaN zero."""
    low, high = integer_limits(target)  # -low and high + 1 are powers of two, exact in both float types
    below, above = (
        b.fcmp_ordered("<", x, constant_like(x, float(low))),
        b.fcmp_ordered(">=", x, constant_like(x, float(high + 1))),
    )
    fits = b.and_(
        b.fcmp_ordered(">=", x, constant_like(x, float(low))), b.fcmp_ordered("<", x, constant_like(x, float(high + 1)))
    )
    whole = _float_to_int(b, b.select(fits, x, constant_like(x, 0)), target)
    full = high == 2 ** (8 * DTYPES[target].itemsize) - 1  # all bits set
    lowest, highest = constant(whole.type, low), constant(whole.type, -1 if full else high)
    return b.select(below, lowest, b.select(above, highest, whole))


def _widen(b: Builder, x: Value, dtype: str) -> Value:
    """The bits of a float16 or bfloat16 as a float32."""
    single, word = vector(F32, x.lanes), vector(I32, x.lanes)
    if dtype == "bf16":
        wide = b.zext(x, word)
        return b.bitcast(b.shl(wide, constant_like(wide, 16)), single)
    if b.module.has_half_conversion:
        return b.fpext(b.bitcast(x, vector(F16, x.lanes)), single)
    wide = b.zext(x, word)
    sign = b.shl(b.and_(wide, constant_like(wide, 0x8000)), constant_like(wide, 16))
    a = b.shl(b.and_(wide, constant_like(wide, 0x7FFF)), constant_like(wide, 13))
    # As a float its exponent is short by 112; the product is exact, for denormals too.
    number = b.bitcast(b.fmul(b.bitcast(a, single), constant(single, 2.0**112)), word)
    special = b.or_(a, constant_like(a, 0x7F800000))
    number = b.select(b.icmp_unsigned(">=", a, constant_like(a, 0x0F800000)), special, number)
    return b.bitcast(b.or_(sign, number), single)


def _narrow(b: Builder, x: Value, dtype: str) -> Value:
    """The bits of a float32 rounded to float16 or bfloat16, to nearest even."""
    single, word, short = vector(F32, x.lanes), vector(I32, x.lanes), vector(I16, x.lanes)
    if dtype == "f16" and b.module.has_half_conversion:
        return b.bitcast(b.fptrunc(x, vector(F16, x.lanes)), short)
    bits = b.bitcast(x, word)
    if dtype == "bf16":
        odd = b.and_(b.lshr(bits, constant_like(bits, 16)), constant_like(bits, 1))
        rounded = b.lshr(b.add(b.add(bits, odd), constant_like(bits, 0x7FFF)), constant_like(bits, 16))
        return b.trunc(b.select(b.fcmp_unordered("uno", x, x), constant_like(bits, 0x7FC0), rounded), short)
    sign = b.and_(b.lshr(bits, constant_like(bits, 16)), constant_like(bits, 0x8000))
    a = b.and_(bits, constant_like(bits, 0x7FFFFFFF))
    small = b.icmp_unsigned("<", a, constant_like(a, 0x38800000))
    # Below the smallest normal half, adding 0.5 leaves the rounded multiple of 2^-24 in the lowest bits.
    shifted = b.fadd(b.bitcast(b.select(small, a, constant_like(a, 0)), single), constant(single, 0.5))
    tiny = b.sub(b.bitcast(shifted, word), constant_like(a, 0x3F000000))
    odd = b.and_(b.lshr(a, constant_like(a, 13)), constant_like(a, 1))
    normal = b.lshr(b.add(b.add(a, constant_like(a, 0xC8000FFF - (1 << 32))), odd), constant_like(a, 13))
    is_nan = b.icmp_unsigned(">", a, constant_like(a, 0x7F800000))
    special = b.select(is_nan, constant_like(a, 0x7E00), constant_like(a, 0x7C00))
    huge = b.icmp_unsigned(">=", a, constant_like(a, 0x477FF000))
    number = b.select(huge, special, b.select(small, tiny, normal))
    return b.trunc(b.or_(sign, number), short)


def _truncate(b: Builder, x: Value, bits: int) -> Value:
    """Truncation to int32 or int64; the smallest integer for NaN and for what does not fit."""
    type_ = register_type(f"s{bits}", x.lanes)
    limit = 2.0 ** (bits - 1)
    # The limits are exact in both float types. Values in (-limit - 1, -limit) truncate to the smallest integer anyway.
    fits = b.and_(b.fcmp_ordered(">=", x, constant_like(x, -limit)), b.fcmp_ordered("<", x, constant_like(x, limit)))
    whole = b.fptosi(b.select(fits, x, constant_like(x, 0)), type_)
    return b.select(fits, whole, constant(type_, -(2 ** (bits - 1))))
