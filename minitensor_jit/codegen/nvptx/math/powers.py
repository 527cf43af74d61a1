"""Powers of floating-point numbers: `pow` of `math/logarithm.h`."""

from __future__ import annotations

import math as python_math
from typing import Final

from ...emitter import math
from .function_constants import DOUBLE, FLOAT
from .numbers import Word, X, select

__all__ = ["power"]

_INF: Final = python_math.inf
_TWO_THIRDS: Final = float.fromhex("0x1.5555555555555p-1")
_TWO_THIRDS_LOW: Final = float.fromhex("0x1.5555555555555p-55")


def _split(x: X) -> tuple[X, X]:
    """x = 2^e (1 + f) of a float64, with f in [-1/3, 1/3)."""
    f = math.DOUBLE
    shift = 2.0**f.mantissa_bits
    denormal = x < f.smallest_normal
    scaled = x * select(denormal, x.number(shift), 1.0)
    i = scaled.bits() + (f.one_bits - f.two_thirds)
    bias = select(denormal, x.number(shift + (f.exponent_bias + f.mantissa_bits)), shift + f.exponent_bias)
    e = ((i >> f.mantissa_bits) | f.shift_bits).as_float() - bias
    return e, ((i & f.mantissa_mask) + f.two_thirds).as_float() - 1.0


def _reduce_exp(x: X, bias: int) -> tuple[Word, X]:
    f = math.DOUBLE
    shift = x.number(f.round_shift + bias)
    shifted = x.fma(f.log2e, shift)
    n = shifted - shift
    return shifted.bits(), n.fma(-f.ln2_low, n.fma(-f.ln2_high, x))


def _of_double(a: X, y: X) -> X:
    """a^y for a >= 0. The logarithm and its product with y are kept in two parts."""
    f_, m_ = math.DOUBLE, DOUBLE
    e, f = _split(a)
    d = 2.0 + f
    d_low = f - (d - 2.0)
    s = f / d
    s_low = ((-s).fma(d, f) - s * d_low) / d
    z = s * s
    z_low = s.fma(s, -z) + 2.0 * s * s_low
    cube = z * s
    cube_low = z.fma(s, -cube) + z_low.fma(s, z * s_low)
    p = z * z.polynomial(m_["pow_log"])
    w = _TWO_THIRDS + p
    w_low = _TWO_THIRDS - w + p + _TWO_THIRDS_LOW
    c = cube * w
    c_low = cube.fma(w, -c) + cube.fma(w_low, cube_low * w)
    base = e * f_.ln2_high
    t = base + 2.0 * s
    t_low = select(base.abs() > (2.0 * s).abs(), 2.0 * s - (t - base), base - (t - 2.0 * s))
    total = t + c
    rest = c - (total - t) + (t_low + (c_low + e.fma(f_.ln2_low, 2.0 * s_low)))
    log_high = total + rest
    log_low = rest - (log_high - total)
    high = y * log_high
    low = y.fma(log_high, -high) + y * log_low
    high = select(high < f_.exp_low, f_.exp_low, high)
    high = select(high > f_.exp_high, f_.exp_high, high)
    shifted, r = _reduce_exp(high, 2 * f_.exponent_bias)
    tail = select(low.abs() < 1.0, low, 0.0)
    above = r * r * r.polynomial(m_["pow_exp"])
    m = 1.0 + (r + (above + (r + above).fma(tail, tail)))
    half = shifted >> 1
    return m * (half << 52).as_float() * ((shifted - half) << 52).as_float()


def _of_float(a: X, y: X) -> X:
    """In float64, whose 29 more bits are enough for one rounding of the result."""
    f_, m_ = math.DOUBLE, FLOAT
    e, f = _split(a.wide())
    s = f / (2.0 + f)
    z = s * s
    log = e.fma(f_.ln2, (z * s).fma(z.fma(z.polynomial(m_["pow_log"]), _TWO_THIRDS), 2.0 * s))
    x = y.wide() * log
    x = select(x < -200.0, -200.0, x)
    x = select(x > 200.0, 200.0, x)
    shifted, r = _reduce_exp(x, f_.exponent_bias)
    m = 1.0 + (r + r * r * r.polynomial(m_["pow_exp"]))
    return (m * (shifted << 52).as_float()).narrow(a)


def power(x: X, y: X) -> X:
    """x^y with the special values of IEEE 754 (and C)."""
    a, b = x.abs(), y.abs()
    negative = x.negative()
    whole = y.floor().is_(y)  # infinities are even
    half = 0.5 * y
    odd = whole & half.floor().is_not(half)
    up = y > 0.0
    zero, infinity = x.number(0.0), x.number(_INF)
    r = (_of_double if x.is_double else _of_float)(a, y)
    r = select(a.is_(0.0), select(up, zero, infinity), r)
    r = select(a.is_(_INF), select(up, infinity, zero), r)
    r = select(b.is_(_INF), select(~((a > 1.0) ^ up), infinity, zero), r)
    r = select(b.is_(_INF) & a.is_(1.0), 1.0, r)
    r = select(negative & odd, -r, r)
    r = select(negative & ~whole & a.is_not(0.0) & a.is_not(_INF), python_math.nan, r)
    r = select(x.is_nan() | y.is_nan(), python_math.nan, r)
    return select(y.is_(0.0) | x.is_(1.0), 1.0, r)
