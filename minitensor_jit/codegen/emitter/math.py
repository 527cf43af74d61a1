"""Transcendental functions, emitted operation by operation.

`csrc/kernels/cpu/math/functions.h` has the same operations in the same order, so compiled and eager code agree to the
last bit: change both together. The coefficients come from `scripts/fit_polynomials.py`; `docs/math.md` has the
measured errors.

Each function takes a builder and a float or double, or a vector of them of any width, and returns the value. There are
no branches, no calls (where the target has a fused multiply-add), and nothing that is undefined for any operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Final

from llvmlite import ir

from ..llvm.ir_text import Builder
from ..llvm.ir_types import I32, I64, Type, Value, constant, vector

__all__ = ["DOUBLE", "FLOAT", "cospi2", "exp", "expm1", "log", "log1p", "sigmoid", "sincospi2", "sinpi2", "tanh"]


def _hex(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


@dataclass(frozen=True)
class _Format:
    """The constants of one floating-point format."""

    integer: Type
    bits: int
    mantissa_bits: int
    exponent_bias: int
    smallest_normal: float
    log2e: float
    ln2: float
    ln2_high: float  # n * ln2_high is exact
    ln2_low: float
    two_pi: float
    two_thirds: int  # bits of the float
    exp_low: float  # exp is below half the least denormal
    exp_high: float  # exp is above the largest finite number
    expm1_low: float
    sigmoid_exponent: int
    tanh_high: float  # tanh is 1
    tanh_near: float  # below it tanh is a polynomial
    log1p_exact: float
    exp: Sequence[float]
    exp2r: Sequence[float]
    tanh: Sequence[float]
    log: Sequence[float]
    sin: Sequence[float]
    cos: Sequence[float]

    @property
    def sign_mask(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def mantissa_mask(self) -> int:
        """The bits of the mantissa."""
        return (1 << self.mantissa_bits) - 1

    @property
    def one_bits(self) -> int:
        """The bits of 1.0."""
        return self.exponent_bias << self.mantissa_bits

    @property
    def shift_bits(self) -> int:
        """The bits of 2^mantissa_bits, to which a small integer is added by or."""
        return self.one_bits + (self.mantissa_bits << self.mantissa_bits)

    @property
    def round_shift(self) -> float:
        """Adding it rounds a number of small magnitude to an integer, which then stands in the low bits."""
        return 1.5 * 2.0**self.mantissa_bits


FLOAT: Final = _Format(
    integer=I32,
    bits=32,
    mantissa_bits=23,
    exponent_bias=127,
    smallest_normal=2.0**-126,
    log2e=float.fromhex("0x1.715476p+0"),
    ln2=float.fromhex("0x1.62e43p-1"),
    ln2_high=float.fromhex("0x1.62e4p-1"),
    ln2_low=float.fromhex("0x1.7f7d1cp-20"),
    two_pi=float.fromhex("0x1.921fb6p+2"),
    two_thirds=0x3F2AAAAB,
    exp_low=-104.0,
    exp_high=89.0,
    expm1_low=-18.0,
    sigmoid_exponent=64,
    tanh_high=10.0,
    tanh_near=float.fromhex("0x1.333334p-1"),
    log1p_exact=2.0**40,
    exp=_hex("0x1.fffffep-2 0x1.5554bp-3 0x1.555674p-5 0x1.122776p-7 0x1.6bebe2p-10"),
    exp2r=_hex("0x1.fffffcp+0 0x1.555492p+0 0x1.5558fp-1 0x1.1239e2p-2 0x1.6a249ep-4"),
    tanh=_hex("-0x1.55553ep-2 0x1.1109aep-3 -0x1.b898dcp-5 0x1.54b892p-6 -0x1.825818p-8"),
    log=_hex(
        "0x1.555506p-2 -0x1.fffefp-3 0x1.99d028p-3 -0x1.559ddp-3 0x1.1ed71ap-3 -0x1.f310aap-4 0x1.1e66b4p-3 "
        "-0x1.0806b2p-3"
    ),
    sin=_hex("-0x1.778a14p-23 -0x1.4abbcep+5 0x1.466bbap+6 -0x1.32ca86p+6 0x1.4bc254p+5"),
    cos=_hex("-0x1.3bd3ccp+4 0x1.03c1dep+6 -0x1.55c5ep+6 0x1.d9d58p+5"),
)

DOUBLE: Final = _Format(
    integer=I64,
    bits=64,
    mantissa_bits=52,
    exponent_bias=1023,
    smallest_normal=2.0**-1022,
    log2e=float.fromhex("0x1.71547652b82fep+0"),
    ln2=float.fromhex("0x1.62e42fefa39efp-1"),
    ln2_high=float.fromhex("0x1.62e42fefa38p-1"),
    ln2_low=float.fromhex("0x1.ef35793c7673p-45"),
    two_pi=float.fromhex("0x1.921fb54442d18p+2"),
    two_thirds=0x3FE5555555555555,
    exp_low=-746.0,
    exp_high=710.0,
    expm1_low=-38.0,
    sigmoid_exponent=512,
    tanh_high=20.0,
    tanh_near=0.6,
    log1p_exact=2.0**80,
    exp=_hex(
        "0x1p-1 0x1.5555555555559p-3 0x1.555555555553fp-5 0x1.111111110f6dap-7 0x1.6c16c16c1f081p-10 "
        "0x1.a01a01afd3d3ap-13 0x1.a01a017bc3b8ep-16 0x1.71ddf87ecd67bp-19 0x1.27e53631cd903p-22 "
        "0x1.af5e74f8c27d8p-26 0x1.1ee87f93d3faep-29"
    ),
    exp2r=_hex(
        "0x1.000000000000ap+1 0x1.55555555554fap+0 0x1.555555555087dp-1 0x1.1111111127bf4p-2 "
        "0x1.6c16c1842a118p-4 0x1.a01a012a5285ap-6 0x1.a0199a0c5588fp-8 0x1.71df255d2eafcp-10 "
        "0x1.28ad72e530c5ep-12 0x1.ad7f5f37d5a31p-15"
    ),
    tanh=_hex(
        "-0x1.555555555553p-2 0x1.111111110e1acp-3 -0x1.ba1ba1b780864p-5 0x1.664f47f0121dcp-6 "
        "-0x1.226e22927b02ep-7 0x1.d6d0c61d7cb8ap-9 -0x1.7d79d958ed70dp-10 0x1.33db16aa7414bp-11 "
        "-0x1.e32d4e8f23779p-13 0x1.4caa9eb3a3484p-14 -0x1.2035e58777b37p-16"
    ),
    log=_hex(
        "0x1.5555555555543p-2 -0x1.0000000000962p-2 0x1.999999999e68ep-3 -0x1.555555540cc93p-3 "
        "0x1.249249216b037p-3 -0x1.000000859ef9p-3 0x1.c71c73bc2e494p-4 -0x1.99996209df9fp-4 "
        "0x1.745cc00cef3f1p-4 -0x1.555c079a15a05p-4 0x1.3b1cee8e14c8fp-4 -0x1.2413d1cecc594p-4 "
        "0x1.107319ee7378dp-4 -0x1.05c4f9734d15ep-4 0x1.ef2fb75615321p-5 -0x1.76aefb16a5e3p-5 "
        "0x1.586a3c8eddbap-5 -0x1.614060fc6f54bp-4 0x1.5a121b109467dp-4"
    ),
    sin=_hex(
        "0x1.1a5ee6efe1adbp-52 -0x1.4abbce625be53p+5 0x1.466bc6775aad9p+6 -0x1.32d2cce62abbdp+6 "
        "0x1.50783485c2d6ap+5 -0x1.e3074b42c4484p+3 0x1.e8eec79caf81cp+1 -0x1.6c58cc54df76ep-1"
    ),
    cos=_hex(
        "-0x1.3bd3cc9be45dep+4 0x1.03c1f081b5aaep+6 -0x1.55d3c7e3c928p+6 0x1.e1f5068367af8p+5 "
        "-0x1.a6d1ec7e0a02p+4 0x1.f9cc40abba87bp+2 -0x1.b263c30daa45cp+0"
    ),
)


class _Emitter:
    """Emits for values of one type: constants, casts between the value and its bits, and the shared pieces."""

    def __init__(self, builder: Builder, x: Value) -> None:
        element = x.type.element if isinstance(x.type, ir.VectorType) else x.type
        self.b = builder
        self.format: Final = DOUBLE if isinstance(element, ir.DoubleType) else FLOAT
        self.type: Final[Type] = x.type
        self.bits_type: Final = vector(self.format.integer, x.lanes)
        self._known: dict[float, Value] = {}
        self._known_bits: dict[int, Value] = {}

    def number(self, value: float) -> Value:
        """A floating-point constant."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = constant(self.type, value)
        return known

    def word(self, value: int) -> Value:
        """An integer constant."""
        known = self._known_bits.get(value)
        if known is None:
            known = self._known_bits[value] = constant(self.bits_type, value)
        return known

    def bits(self, x: Value) -> Value:
        """The bits of a float."""
        return self.b.bitcast(x, self.bits_type)

    def from_bits(self, bits: Value) -> Value:
        """The float with these bits."""
        return self.b.bitcast(bits, self.type)

    def abs(self, x: Value) -> Value:
        """|x|."""
        return self.from_bits(self.b.and_(self.bits(x), self.word(self.format.sign_mask - 1)))

    def with_sign_of(self, magnitude: Value, x: Value) -> Value:
        """`magnitude`, which is not negative, with the sign of x."""
        return self.from_bits(
            self.b.or_(self.bits(magnitude), self.b.and_(self.bits(x), self.word(self.format.sign_mask)))
        )

    def horner(self, coefficients: Sequence[float], x: Value) -> Value:
        """The polynomial with these coefficients, from the highest order down."""
        result = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = self.b.fma(result, x, self.number(c))
        return result

    def horner_of_negative(self, coefficients: Sequence[float], x: Value) -> Value:
        """The polynomial with these coefficients at -x."""
        result = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = self.b.fma(self.b.fneg(result), x, self.number(c))
        return result

    def reduce_exp(self, x: Value, bias: int) -> tuple[Value, Value]:
        """x = n ln 2 + r: a word with n + bias in its low bits, and r with |r| <= ln 2 / 2."""
        b, f = self.b, self.format
        shift = self.number(f.round_shift + bias)
        shifted = b.fma(x, self.number(f.log2e), shift)
        n = b.fsub(shifted, shift)
        r = b.fma(n, self.number(-f.ln2_low), b.fma(n, self.number(-f.ln2_high), x))
        return self.bits(shifted), r

    def exponent(self, biased: Value) -> Value:
        """The power of two with this biased exponent."""
        return self.from_bits(self.b.shl(biased, self.word(self.format.mantissa_bits)))


def exp(builder: Builder, x: Value) -> Value:
    """e^x. Overflows to infinity, and underflows gradually."""
    b, t = builder, _Emitter(builder, x)
    f = t.format
    x = b.select(b.fcmp_ordered("<", x, t.number(f.exp_low)), t.number(f.exp_low), x)
    x = b.select(b.fcmp_ordered(">", x, t.number(f.exp_high)), t.number(f.exp_high), x)
    return _exp_within(builder, x)


def _exp_within(builder: Builder, x: Value) -> Value:
    """e^x for x within the limits of `exp`."""
    b, t = builder, _Emitter(builder, x)
    f = t.format
    shifted, r = t.reduce_exp(x, 2 * f.exponent_bias)
    one = t.number(1.0)
    m = b.fma(b.fma(t.horner(f.exp, r), r, one), r, one)
    # 2^n in two factors, since n leaves the range of the exponent at both ends: the first product is exact.
    half = b.lshr(shifted, t.word(1))
    return b.fmul(b.fmul(m, t.exponent(half)), t.exponent(b.sub(shifted, half)))


def expm1(builder: Builder, x: Value) -> Value:
    """e^x - 1."""
    b, t = builder, _Emitter(builder, x)
    f = t.format
    y = b.select(b.fcmp_ordered("<", x, t.number(f.expm1_low)), t.number(f.expm1_low), x)
    y = b.select(b.fcmp_ordered(">", y, t.number(f.exp_high)), t.number(f.exp_high), y)
    shifted, r = t.reduce_exp(y, f.exponent_bias)
    m = b.fma(b.fmul(r, r), t.horner(f.exp, r), r)
    # Scaled by 2^(n-1) and then by 2 where 2^n itself overflows.
    exponent_mask = t.word(2 * f.exponent_bias + 1)
    top = b.icmp_unsigned("==", b.and_(b.add(shifted, t.word(1)), exponent_mask), t.word(0))
    scale = t.exponent(b.sub(shifted, b.select(top, t.word(1), t.word(0))))
    result = b.fma(scale, m, b.fsub(scale, t.number(1.0)))
    result = b.fmul(result, b.select(top, t.number(2.0), t.number(1.0)))
    return b.select(b.fcmp_ordered("==", x, t.number(0.0)), x, result)


def _log_of_parts(t: _Emitter, e: Value, f: Value) -> Value:
    """e ln 2 + log(1 + f)."""
    b = t.b
    p = b.fma(t.horner(t.format.log, f), f, t.number(-0.5))
    tail = b.fma(e, t.number(t.format.ln2_low), b.fmul(b.fmul(f, f), p))
    return b.fma(e, t.number(t.format.ln2_high), b.fadd(f, tail))


def _log_special(t: _Emitter, x: Value, pole: float, result: Value) -> Value:
    """`result`, but -inf at the pole, NaN below it and for NaN, and infinity for infinity."""
    b = t.b
    special = b.select(b.fcmp_ordered("==", x, t.number(pole)), t.number(-inf), t.number(nan))
    finite = b.select(b.fcmp_ordered(">", x, t.number(pole)), result, special)
    return b.select(b.fcmp_ordered("==", x, t.number(inf)), t.number(inf), finite)


def log(builder: Builder, x: Value) -> Value:
    """Natural logarithm: -inf for zeros, NaN below."""
    b, t = builder, _Emitter(builder, x)
    f = t.format
    shift = 2.0**f.mantissa_bits
    denormal = b.fcmp_ordered("<", x, t.number(f.smallest_normal))
    scaled = b.fmul(x, b.select(denormal, t.number(shift), t.number(1.0)))
    # x = 2^e m with m in [2/3, 4/3).
    i = b.add(t.bits(scaled), t.word(f.one_bits - f.two_thirds))
    biased = t.from_bits(b.or_(b.lshr(i, t.word(f.mantissa_bits)), t.word(f.shift_bits)))
    normal_bias = t.number(shift + f.exponent_bias)
    denormal_bias = t.number(shift + (f.exponent_bias + f.mantissa_bits))
    e = b.fsub(biased, b.select(denormal, denormal_bias, normal_bias))
    m = t.from_bits(b.add(b.and_(i, t.word(f.mantissa_mask)), t.word(f.two_thirds)))
    return _log_special(t, x, 0.0, _log_of_parts(t, e, b.fsub(m, t.number(1.0))))


def log1p(builder: Builder, x: Value) -> Value:
    """log(1 + x)."""
    b, t = builder, _Emitter(builder, x)
    f = t.format
    one = t.number(1.0)
    shift = 2.0**f.mantissa_bits
    u = b.fadd(one, x)
    # 1 + x = u + lost, exactly.
    small = b.fcmp_ordered("<", x, one)
    lost = b.select(small, b.fsub(x, b.fsub(u, one)), b.fsub(one, b.fsub(u, x)))
    i = b.add(t.bits(u), t.word(f.one_bits - f.two_thirds))
    biased = b.lshr(i, t.word(f.mantissa_bits))
    e = b.fsub(t.from_bits(b.or_(biased, t.word(f.shift_bits))), t.number(shift + f.exponent_bias))
    inverse = t.exponent(b.sub(t.word(2 * f.exponent_bias), biased))  # 2^-e
    inverse = b.select(b.fcmp_ordered("<", x, t.number(f.log1p_exact)), inverse, t.number(0.0))
    m = t.from_bits(b.add(b.and_(i, t.word(f.mantissa_mask)), t.word(f.two_thirds)))
    result = _log_of_parts(t, e, b.fma(lost, inverse, b.fsub(m, one)))
    result = _log_special(t, x, -1.0, result)
    return b.select(b.fcmp_ordered("==", x, t.number(0.0)), x, result)


def tanh(builder: Builder, x: Value) -> Value:
    """Hyperbolic tangent: a polynomial near zero, 1 - 2 / (exp(2|x|) + 1) beyond."""
    b, t = builder, _Emitter(builder, x)
    f = t.format
    a = t.abs(x)
    z = b.fmul(a, a)
    near = b.fma(b.fmul(z, a), t.horner(f.tanh, z), a)
    # a = n ln 2 / 2 + r. The rounding of ln 2 does not show: where n is large, the quotient is small.
    y = b.select(b.fcmp_ordered(">", a, t.number(f.tanh_high)), t.number(f.tanh_high), a)
    shift = t.number(f.round_shift + f.exponent_bias)
    shifted = b.fma(y, t.number(2 * f.log2e), shift)
    r = b.fma(b.fsub(shifted, shift), t.number(f.ln2 / -2), y)
    one, two = t.number(1.0), t.number(2.0)
    m = b.fma(b.fma(t.horner(f.exp2r, r), r, two), r, one)
    far = b.fsub(one, b.fdiv(two, b.fma(t.exponent(t.bits(shifted)), m, one)))
    return t.with_sign_of(b.select(b.fcmp_ordered("<", a, t.number(f.tanh_near)), near, far), x)


def sigmoid(builder: Builder, x: Value) -> Value:
    """Logistic function 1 / (1 + e^-x): s / (s + 1 + t), where e^-x = (1 + t) / s and s is a power of two."""
    b, t = builder, _Emitter(builder, x)
    f = t.format
    x = b.select(b.fcmp_ordered("<", x, t.number(f.exp_low)), t.number(f.exp_low), x)
    x = b.select(b.fcmp_ordered(">", x, t.number(-f.expm1_low)), t.number(-f.expm1_low), x)
    # Numerator and divisor have a factor, since s itself may be below the least normal number.
    shifted, r = t.reduce_exp(x, f.exponent_bias + f.sigmoid_exponent)
    one = t.number(2.0**f.sigmoid_exponent)
    s = t.exponent(shifted)
    above_one = b.fma(b.fmul(r, r), t.horner_of_negative(f.exp, r), b.fneg(r))
    sum_ = b.fadd(s, one)
    lost = b.fsub(s, b.fsub(sum_, one))  # by the rounding of the sum
    return b.fdiv(s, b.fadd(sum_, b.fma(above_one, one, lost)))


def sincospi2(builder: Builder, u: Value) -> tuple[Value, Value]:
    """Sine and cosine of 2 pi u, for u in [0, 1]."""
    b, t = builder, _Emitter(builder, u)
    f = t.format
    shift = t.number(f.round_shift)
    shifted = b.fma(u, t.number(4.0), shift)
    quadrant = t.bits(shifted)
    r = b.fma(b.fsub(shifted, shift), t.number(-0.25), u)  # exact, |r| <= 1/8
    z = b.fmul(r, r)
    s = b.fma(r, t.number(f.two_pi), b.fmul(r, t.horner(f.sin, z)))
    c = b.fma(t.horner(f.cos, z), z, t.number(1.0))
    one, two, top = t.word(1), t.word(2), t.word(f.bits - 2)
    odd = b.icmp_unsigned("!=", b.and_(quadrant, one), t.word(0))
    sin_sign = b.shl(b.and_(quadrant, two), top)
    cos_sign = b.shl(b.and_(b.add(quadrant, one), two), top)
    sin = t.from_bits(b.xor(t.bits(b.select(odd, c, s)), sin_sign))
    cos = t.from_bits(b.xor(t.bits(b.select(odd, s, c)), cos_sign))
    return sin, cos


def sinpi2(builder: Builder, u: Value) -> Value:
    """Sine of 2 pi u, for u in [0, 1]."""
    return sincospi2(builder, u)[0]


def cospi2(builder: Builder, u: Value) -> Value:
    """Cosine of 2 pi u, for u in [0, 1]."""
    return sincospi2(builder, u)[1]
