"""Sine, cosine and tangent of any angle: those of `math/trigonometric.h`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from ...llvm.ir_types import F64, I1, I64, constant
from .function_constants import TWO_OVER_PI
from .numbers import Test, Word, X, branch, select

__all__ = ["cos", "sin", "sinc", "tan"]


@dataclass(frozen=True)
class _Angle:
    """x = n pi/2 + high + low, with n mod 4 in the low bits of `quadrant`."""

    quadrant: Word
    high: X
    low: X


def _reduce_angle(x: X) -> _Angle:
    """For |x| below the limit of the type."""
    m = x.more
    shift = x.format.round_shift
    shifted = x.fma(m["two_over_pi"], shift)
    n = shifted - shift
    first = (-n).fma(m["pio2_1"], x)
    second = n * m["pio2_2"]
    second_low = n.fma(m["pio2_2"], -second)
    high = first - second
    back = high - first
    lost = (first - (high - back)) - (second + back)
    return _Angle(shifted.bits(), high, lost - n.fma(m["pio2_3"], second_low))


def _parts(a: _Angle) -> tuple[X, X, X, X]:
    """The sine, what its rounding lost, the cosine, and what that lost."""
    m = a.high.more
    r = a.high
    z = r * r
    s_rest = (z * r).fma(z.polynomial(m["sin"]), a.low * z.fma(-0.5, 1.0))
    half = 0.5 * z
    one = 1.0 - half
    c_rest = (1.0 - one) - half + (z * z).fma(z.polynomial(m["cos"]), -(r * a.low))
    s, c = r + s_rest, one + c_rest
    s_low, c_low = s_rest - (s - r), c_rest - (c - one)
    odd = ~(a.quadrant & 1).is_(0)
    top = r.format.bits - 2
    sin_sign, cos_sign = (a.quadrant & 2) << top, ((a.quadrant + 1) & 2) << top

    def signed(x: X, sign: Word) -> X:
        return (x.bits() ^ sign).as_float()

    return (
        signed(select(odd, c, s), sin_sign),
        signed(select(odd, c_low, s_low), sin_sign),
        signed(select(odd, s, c), cos_sign),
        signed(select(odd, s_low, c_low), cos_sign),
    )


def _tan_of(a: _Angle) -> X:
    s, s_low, c, c_low = _parts(a)
    inverse = 1.0 / c
    q = s * inverse
    return ((-q).fma(c, s) + (s_low - q * c_low)).fma(inverse, q)


# ---- large angles


def _product(x: Word, y: Word) -> tuple[Word, Word]:
    """The high and the low word of a product of two words of 64 bits."""
    half = 0xFFFFFFFF
    (x0, x1), (y0, y1) = ((w & half, w >> 32) for w in (x, y))
    low, cross, other, high = x0 * y0, x1 * y0, x0 * y1, x1 * y1
    middle = (low >> 32) + (cross & half) + (other & half)
    return high + (cross >> 32) + (other >> 32) + (middle >> 32), x * y


def _add_to(high: Word, low: Word, term: Word) -> tuple[Word, Word]:
    total = low + term
    carry = select(total < low, Word(low.b, constant(I64, 1)), 0)
    return high + carry, total


def _around(high: Word, low: Word, by: Word) -> Word:
    """The high word of the two shifted left by 0 to 63 places."""
    none = by.is_(0)
    return select(none, high, (high << by) | (low >> select(none, 1, 64 - by)))


def _reduce_large(x: X) -> _Angle:
    """Payne and Hanek's method: of the product of a large x and 2/pi only the bits next to the point are needed."""
    b = x.b
    word = x.bits()
    exponent = ((word >> 52) & 0x7FF) - 1075  # |x| = m 2^exponent
    m = (word & ((1 << 52) - 1)) | (1 << 52)
    above_two = Test(b, b.icmp_signed(">", exponent.v, constant(I64, 2)))
    start = select(above_two, exponent - 2, 0)
    shift = start & 63
    table = b.module.data(struct.pack(f"<{len(TWO_OVER_PI)}Q", *TWO_OVER_PI))
    first = start >> 6

    def entry(k: int) -> Word:
        at = b.intrinsic("llvm.umin", b.add(first.v, constant(I64, k)), constant(I64, len(TWO_OVER_PI) - 1))
        return Word(b, b.load(b.gep(table, at, I64), I64, 8))

    entries = [entry(k) for k in range(4)]
    w = [_around(entries[k], entries[k + 1], shift) for k in range(3)]
    p2_high, p2_low = _product(m, w[2])
    p1_high, p1_low = _product(m, w[1])
    p1_high, p1_low = _add_to(p1_high, p1_low, p2_high)
    p0_high, p0_low = _product(m, w[0])
    p0_high, p0_low = _add_to(p0_high, p0_low, p1_high)
    integer, high, low, last = p0_high, p0_low, p1_low, p2_low
    # 2^(exponent - start) moves the point by up to 2 places, or back by up to 22.
    places = exponent - start
    forward = Test(b, b.icmp_signed(">", places.v, constant(I64, 0)))
    backward = Test(b, b.icmp_signed("<", places.v, constant(I64, 0)))
    up, down = select(forward, places, 0), select(backward, 0 - places, 0)
    n = select(forward, _around(integer, high, up), integer >> down)
    no_shift = down.is_(0)
    other = select(no_shift, 1, 64 - down)
    back_low = select(no_shift, low, (low >> down) | (high << other))
    back_high = select(no_shift, high, (high >> down) | (integer << other))
    high, low = (
        select(forward, _around(high, low, up), back_high),
        select(forward, _around(low, last, up), back_low),
    )
    # The fraction, in -1/2 .. 1/2 of a quarter turn.
    above = ~(high >> 63).is_(0)
    n = select(above, n + 1, n)
    negated_low = 0 - low
    negated_high = (high ^ ((1 << 64) - 1)) + select(low.is_(0), Word(b, constant(I64, 1)), 0)
    high, low = select(above, negated_high, high), select(above, negated_low, low)
    count = b.module.declare("llvm.ctlz.i64", I64, [I64, I1])

    def leading(value: Word) -> Word:
        return Word(b, b.call(count, [value.v, constant(I1, False)]))

    in_low = high.is_(0)
    zeros = select(in_low, _at_most(leading(low), 63) + 64, leading(high))
    within = zeros & 63
    high = select(in_low, _around(low, Word(b, constant(I64, 0)), within), _around(high, low, within))
    low = select(in_low, 0, low << within)
    scale = ((1023 - zeros) << 52).as_float()
    top = _whole(high >> 11) * 2.0**-53 * scale
    rest = _whole(((high << 42) | (low >> 22)) & ((1 << 53) - 1)) * 2.0**-106 * scale
    m_ = x.more
    r = top * m_["pio2_1"]
    r_low = top.fma(m_["pio2_1"], -r) + top.fma(m_["pio2_2"], rest * m_["pio2_1"])
    total = r + r_low
    r_low = r_low - (total - r)
    negative = ~(word >> 63).is_(0)
    sign = select(above ^ negative, x.number(-1.0), 1.0)
    return _Angle(select(negative, 0 - n, n), total * sign, r_low * sign)


def _at_most(value: Word, limit: int) -> Word:
    return select(value >= limit, limit, value)  # type: ignore[no-any-return]


def _whole(word: Word) -> X:
    """A number below 2^53 as a float64."""
    return X(word.b, word.b.uitofp(word.v, F64))


def _large(x: X, function: Callable[[_Angle], X]) -> X:
    """Any finite x, in float64; NaN for others."""
    wide = x.wide()
    a = wide.abs()
    usual = function(_reduce_angle(wide))
    result = branch(a >= wide.more["trig_limit"], lambda: function(_reduce_large(wide)), usual)
    return select(a < float("inf"), result.narrow(x), x - x)  # type: ignore[no-any-return]


def _any(x: X, limit_of: X, function: Callable[[_Angle], X], *, odd: bool) -> X:
    usual = function(_reduce_angle(x))
    if odd:
        usual = select(x.is_(0.0), x, usual)
    large = ~(limit_of.abs() < x.more["trig_limit"])
    return branch(large, lambda: _large(x, function), usual)


def sin(x: X) -> X:
    """The sine."""
    return _any(x, x, lambda a: _parts(a)[0], odd=True)


def cos(x: X) -> X:
    """The cosine."""
    return _any(x, x, lambda a: _parts(a)[2], odd=False)


def tan(x: X) -> X:
    """The tangent."""
    return _any(x, x, _tan_of, odd=True)


def sinc(x: X) -> X:
    """sin(pi x) / (pi x)."""
    angle = x * float.fromhex("0x1.921fb54442d18p+1")
    value = _any(angle, x * 4.0, lambda a: _parts(a)[0], odd=True)
    return select(x.is_(0.0), 1.0, value / angle)  # type: ignore[no-any-return]
