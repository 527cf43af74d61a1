"""Complex numbers: operand values in, result value out, as docs/numerics.md says."""

from __future__ import annotations

from typing import Final

from ..llvm.ir_text import Builder
from ..llvm.ir_types import Pair, Value
from .types import constant_like, parts

__all__ = ["COMPLEX_ARITHMETIC", "complex_divide"]


def _complex_add(b: Builder, x: Value, y: Value) -> Value:
    (a, ai), (c, ci) = parts(x), parts(y)
    return Pair(b.fadd(a, c), b.fadd(ai, ci))


def _complex_subtract(b: Builder, x: Value, y: Value) -> Value:
    (a, ai), (c, ci) = parts(x), parts(y)
    return Pair(b.fsub(a, c), b.fsub(ai, ci))


def _complex_multiply(b: Builder, x: Value, y: Value) -> Value:
    (a, ai), (c, ci) = parts(x), parts(y)
    re = b.fsub(b.fmul(a, c), b.fmul(ai, ci))
    return Pair(re, b.fadd(b.fmul(a, ci), b.fmul(ai, c)))


def complex_divide(b: Builder, x: Value, y: Value) -> Value:
    """Smith's method: a divisor with the larger part p and the other part q divides as p + q * (q / p)."""
    (a, ai), (c, ci) = parts(x), parts(y)
    size, size_i = b.intrinsic("llvm.fabs", c), b.intrinsic("llvm.fabs", ci)
    by_real = b.fcmp_ordered(">=", size, size_i)
    large, small = b.select(by_real, c, ci), b.select(by_real, ci, c)
    ratio = b.fdiv(small, large)
    scale = b.fdiv(constant_like(c, 1.0), b.fadd(large, b.fmul(small, ratio)))
    # (a + ai * ratio, ai - a * ratio) or (a * ratio + ai, ai * ratio - a)
    first, second = b.select(by_real, a, ai), b.select(by_real, ai, a)
    re = b.fmul(b.fadd(first, b.fmul(second, ratio)), scale)
    along, across = b.select(by_real, ai, b.fmul(ai, ratio)), b.select(by_real, b.fmul(a, ratio), a)
    im = b.fmul(b.fsub(along, across), scale)
    zero = b.fcmp_ordered("==", size, constant_like(c, 0))
    none = b.and_(zero, b.fcmp_ordered("==", size_i, constant_like(c, 0)))
    return Pair(b.select(none, b.fdiv(a, size), re), b.select(none, b.fdiv(ai, size_i), im))


COMPLEX_ARITHMETIC: Final = {"add": _complex_add, "subtract": _complex_subtract, "multiply": _complex_multiply}
