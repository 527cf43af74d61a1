"""Remainders and quotients rounded down, of floating-point numbers and of integers."""

from __future__ import annotations

from collections.abc import Callable

from ...emitter.elementwise import safe_divisor
from ...llvm.ir_text import Block, Builder
from ...llvm.ir_types import I1, Value, constant, mangle
from .numbers import Test, Word, X, branch, select

__all__ = ["floor_divide", "fmod", "integer_floor_divide", "integer_remainder", "remainder"]


def fmod(a: X, b: X) -> X:
    """The remainder with the sign of a, exact."""
    # The quotient, rounded, is too large by 1 at most.
    r = (-(a / b).trunc()).fma(b, a)
    back = b.abs().with_sign_of(a)
    zero = a.number(0.0)
    corrected = select(r.is_not(0.0) & ((r < 0.0) ^ (a < 0.0)), r + back, r)
    usual = corrected.abs().with_sign_of(a)
    limit = 2.0**51 if a.is_double else 2.0**22
    unusual = ~((a / b).abs() < limit) | ~(b.abs() < zero.number(float("inf")))
    return branch(unusual, lambda: _by_bits(a, b), usual)


def _by_bits(a: X, b: X) -> X:
    """By long division of the numbers' bits; NaN for infinite a and for b = 0, a for infinite b."""
    f, builder = a.format, a.b
    sign = a.bits() & f.sign_mask
    x, y = a.abs().bits(), b.abs().bits()
    infinity = f.mantissa_mask ^ (f.sign_mask - 1)
    invalid = (x >= infinity) | y.is_(0) | ~(y < infinity + 1)
    safe = select(y.is_(0) | (y >= infinity), Word(builder, constant(y.v.type, f.one_bits)), y)
    (mx, ex), (my, ey) = _parts(a, x), _parts(a, safe)
    rest = _long_division(builder, mx, my, ex, ey)
    # rest < my, times 2^(ey - 1): normalise, or shift down what is denormal.
    type_ = rest.v.type
    count = builder.module.declare(f"llvm.ctlz.{mangle(type_)}", type_, [type_, I1])
    zeros = Word(builder, builder.call(count, [rest.v, constant(I1, False)]))
    room = zeros - (f.bits - 1 - f.mantissa_bits)
    enough = room < ey
    shift = select(enough, room, ey - 1)
    exponent = select(enough, ey - room, 0)
    shifted = rest << shift
    finite = select(enough, (shifted & f.mantissa_mask) | (exponent << f.mantissa_bits), shifted)
    finite = select(rest.is_(0), 0, finite)
    small = Test(builder, builder.icmp_unsigned("<", x.v, y.v)) | y.is_(infinity)
    result = (select(small, x, finite) | sign).as_float()
    return select(invalid, (a * b) / (a * b), result)


def _parts(like: X, word: Word) -> tuple[Word, Word]:
    """The mantissa with its leading one, and the exponent, at least 1, of the bits of a number."""
    f = like.format
    exponent = word >> f.mantissa_bits
    mantissa = word & f.mantissa_mask
    denormal = exponent.is_(0)
    return select(denormal, mantissa, mantissa | (1 << f.mantissa_bits)), select(denormal, 1, exponent)


def _long_division(b: Builder, x: Word, y: Word, ex: Word, ey: Word) -> Word:
    """(x * 2^(ex - ey)) mod y, bit by bit."""
    function, type_ = b.function, x.v.type
    start: Block = b.block
    loop, after = function.block("divide"), function.block("divided")
    # The first remainder needs no shift.
    first = b.urem(x.v, y.v)
    more = b.icmp_unsigned(">", ex.v, ey.v)
    count = b.sub(ex.v, ey.v)
    b.cbranch(more, loop, after)
    rest, left = (Value(type_, x.v.text, function.fresh(), b.level) for _ in range(2))
    b.position_at_end(loop)
    twice = b.shl(rest, constant(type_, 1))
    lower = b.sub(twice, y.v)
    following = b.select(b.icmp_unsigned(">=", twice, y.v), lower, twice)
    less = b.sub(left, constant(type_, 1))
    b.cbranch(b.icmp_unsigned("!=", less, constant(type_, 0)), loop, after)
    text = x.v.text
    loop.lines[:0] = [
        f"  {rest.ref} = phi {text} [ {first.ref}, %{start.label} ], [ {following.ref}, %{loop.label} ]",
        f"  {left.ref} = phi {text} [ {count.ref}, %{start.label} ], [ {less.ref}, %{loop.label} ]",
    ]
    b.position_at_end(after)
    line = f"phi {text} [ {first.ref}, %{start.label} ], [ {following.ref}, %{loop.label} ]"
    return Word(b, b.emit(type_, text, line))


def _signed_as(mod: X, b: X) -> Test:
    """Whether the remainder is not zero and its sign is not the divisor's."""
    return mod.is_not(0.0) & ((b < 0.0) ^ (mod < 0.0))


def remainder(a: X, b: X) -> X:
    """The remainder with the sign of b."""
    mod = fmod(a, b)
    return select(_signed_as(mod, b), mod + b, mod)


def floor_divide(a: X, b: X) -> X:
    """The quotient rounded down, as `docs/numerics.md` has it."""
    mod = fmod(a, b)
    q = (a - mod) / b
    q = select(_signed_as(mod, b), q - 1.0, q)
    rounded = q.floor()
    up = select(q - rounded > 0.5, rounded + 1.0, rounded)
    of_zero = a.number(0.0).with_sign_of(a / b)
    return select(b.is_(0.0), a / b, select(q.is_(0.0), of_zero, up))


def integer_floor_divide(signed: bool) -> Callable[..., Value]:
    """The quotient rounded down."""

    def rule(b: Builder, x: Value, y: Value) -> Value:
        safe, _, minus = safe_divisor(b, x, y, signed)
        if not signed:
            return b.udiv(x, safe)
        zero, one = constant(x.type, 0), constant(x.type, 1)
        quotient = b.sdiv(x, safe)
        other_signs = b.xor(b.icmp_signed("<", x, zero), b.icmp_signed("<", safe, zero))
        inexact = b.icmp_unsigned("!=", b.mul(quotient, safe), x)
        down = b.select(b.and_(other_signs, inexact), b.sub(quotient, one), quotient)
        assert minus is not None
        return b.select(minus, b.neg(x), down)

    return rule


def integer_remainder(signed: bool) -> Callable[..., Value]:
    """The remainder with the sign of the divisor."""

    def rule(b: Builder, x: Value, y: Value) -> Value:
        safe, _, minus = safe_divisor(b, x, y, signed)
        if not signed:
            return b.urem(x, safe)
        zero = constant(x.type, 0)
        mod = b.srem(x, safe)
        other_signs = b.xor(b.icmp_signed("<", mod, zero), b.icmp_signed("<", safe, zero))
        wrong = b.and_(b.icmp_unsigned("!=", mod, zero), other_signs)
        assert minus is not None
        return b.select(minus, zero, b.select(wrong, b.add(mod, safe), mod))

    return rule
