"""The elementwise opcodes: operand values in, result value out, one instruction sequence for scalars and vectors.

Everything here is exact (IEEE-754, or as `docs/numerics.md` says) except the functions of `math.py`, which are
defined there operation by operation. Nothing may trap or be undefined for any operand, since masked lanes hold
arbitrary values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...ir.decision import Decision
from ...ir.library import loop_of
from ...ir.module import Instruction
from ...ir.opcode import OPCODES, has_native_range
from ...ir.shape import DTYPES
from ..llvm.ir_text import Builder
from ..llvm.ir_types import I1, I8, I32, I64, PTR, VOID, Pair, Type, Value, constant, mangle, vector
from . import math
from .complex_arithmetic import COMPLEX_ARITHMETIC, complex_divide
from .conversion import convert
from .types import MEMORY, PARTS, REGISTER, constant_like, parts, register_type

__all__ = ["ELEMENTWISE", "combine", "safe_divisor", "supports"]

Rule = Callable[[Builder, Instruction, Sequence[Value]], Value]


def _kind(i: Instruction) -> str:
    """The kind of the first operand's elements: 'b', 'i', 'u' or 'f'."""
    return DTYPES[i.operands[0].dtype].kind


# ---- one operand


def _abs(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    a = x[0]
    if _kind(i) == "f":
        return b.intrinsic("llvm.fabs", a)
    if _kind(i) == "u":
        return a
    return b.select(b.icmp_signed("<", a, constant_like(a, 0)), b.neg(a), a)


def _negate(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    if _kind(i) == "c":
        re, im = parts(x[0])
        return Pair(b.fneg(re), b.fneg(im))
    return b.fneg(x[0]) if _kind(i) == "f" else b.neg(x[0])


def _sign(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    a = x[0]
    zero = constant_like(a, 0)
    if _kind(i) == "f":
        # A zero keeps its sign, a NaN stays.
        keep = b.fcmp_unordered("==", a, zero)
        return b.select(keep, a, b.intrinsic("llvm.copysign", constant_like(a, 1.0), a))
    one = constant_like(a, 1)
    if _kind(i) == "u":
        return b.select(b.icmp_unsigned("==", a, zero), zero, one)
    return b.select(b.icmp_signed("<", a, zero), constant_like(a, -1), b.select(b.icmp_signed(">", a, zero), one, zero))


def _float_intrinsic(name: str) -> Rule:
    return lambda b, i, x: b.intrinsic(name, x[0])


def _is_finite(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    return b.fcmp_ordered("<", b.intrinsic("llvm.fabs", x[0]), constant_like(x[0], float("inf")))


def _rsqrt(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    return b.fdiv(constant_like(x[0], 1.0), b.intrinsic("llvm.sqrt", x[0]))


def _math(function: Callable[[Builder, Value], Value]) -> Rule:
    return lambda b, i, x: function(b, x[0])


def _count_leading_zeros(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    a = x[0]
    of_zero = constant(I1, False)  # defined: the number of bits
    return b.call(b.module.declare(f"llvm.ctlz.{mangle(a.type)}", a.type, [a.type, I1]), [a, of_zero])


def _reduce_precision(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    """Rounds to nearest even in a format with fewer bits; what is too large or small for it is infinite or zero."""
    a = x[0]
    size, mantissa_bits, exponent_bits = (32, 23, 8) if i.dtype == "f32" else (64, 52, 11)
    mantissa, exponent = i.attrs["mantissa_bits"], i.attrs["exponent_bits"]
    word = register_type(f"s{size}", a.lanes)
    result = a
    if mantissa < mantissa_bits:
        cut = mantissa_bits - mantissa
        bits = b.bitcast(a, word)
        last = b.and_(b.lshr(bits, constant_like(bits, cut)), constant_like(bits, 1))
        raised = b.add(bits, b.add(last, constant_like(bits, (1 << (cut - 1)) - 1)))
        result = b.bitcast(b.and_(raised, constant_like(bits, -(1 << cut))), a.type)
    if exponent < exponent_bits:
        bias = (1 << (exponent - 1)) - 1
        size_of = b.intrinsic("llvm.fabs", result)

        def signed(value: float) -> Value:
            return b.intrinsic("llvm.copysign", constant_like(a, value), a)

        # The largest finite number has the exponent `bias`; the smallest normal one 1 - bias.
        large = b.fcmp_ordered(">=", size_of, constant_like(a, 2.0 ** (bias + 1)))
        small = b.fcmp_ordered("<", size_of, constant_like(a, 2.0 ** (1 - bias)))
        result = b.select(large, signed(float("inf")), b.select(small, signed(0.0), result))
    return b.select(b.fcmp_unordered("uno", a, a), a, result)


def _bitcast(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    return b.bitcast(x[0], register_type(i.dtype, x[0].lanes))


# ---- two operands


def _arithmetic(float_op: str, int_op: str, pred_op: str = "") -> Rule:
    def rule(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
        kind = _kind(i)
        if kind == "c":
            return COMPLEX_ARITHMETIC[i.opcode](b, *x)
        name = float_op if kind == "f" else pred_op if kind == "b" else int_op
        return getattr(b, name)(x[0], x[1])  # type: ignore[no-any-return]

    return rule


def safe_divisor(b: Builder, x: Value, y: Value, signed: bool) -> tuple[Value, Value, Value | None]:
    """A divisor that can't trap, whether the true one is zero, and whether the quotient overflows."""
    zero = b.icmp_unsigned("==", y, constant_like(y, 0))
    if not signed:
        return b.select(zero, constant_like(y, 1), y), zero, None
    minus = b.icmp_unsigned("==", y, constant_like(y, -1))
    return b.select(b.or_(zero, minus), constant_like(y, 1), y), zero, minus


def _divide(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    a, d = x
    if _kind(i) == "c":
        return complex_divide(b, a, d)
    if _kind(i) == "f":
        return b.fdiv(a, d)
    signed = _kind(i) == "i"
    safe, zero, minus = safe_divisor(b, a, d, signed)
    quotient = b.sdiv(a, safe) if signed else b.udiv(a, safe)
    if minus is not None:
        quotient = b.select(minus, b.neg(a), quotient)
    return b.select(zero, constant_like(a, -1), quotient)


def _remainder(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    a, d = x
    if _kind(i) == "f":
        inline = b.module.inline.get("fmod")
        return b.frem(a, d) if inline is None else inline(b, a, d)
    signed = _kind(i) == "i"
    safe, zero, minus = safe_divisor(b, a, d, signed)
    rest = b.srem(a, safe) if signed else b.urem(a, safe)
    if minus is not None:
        rest = b.select(minus, constant_like(a, 0), rest)
    return b.select(zero, a, rest)


def _extreme(name: str) -> Rule:
    def rule(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
        kind = _kind(i)
        if kind == "f":
            return b.intrinsic(f"llvm.{name}imum", x[0], x[1])
        if kind == "b":
            return b.or_(x[0], x[1]) if name == "max" else b.and_(x[0], x[1])
        return b.intrinsic(f"llvm.{'s' if kind == 'i' else 'u'}{name}", x[0], x[1])

    return rule


def _int_power(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    """By squares, one for each bit of the exponent; what a negative exponent gives is zero but for 1 and -1."""
    a, y = x
    one, result = constant_like(a, 1), constant_like(a, 1)
    square = a
    for bit in range(8 * DTYPES[i.dtype].itemsize):
        odd = b.icmp_unsigned("!=", b.and_(y, constant_like(y, 1 << bit)), constant_like(y, 0))
        result = b.select(odd, b.mul(result, square), result)
        square = b.mul(square, square)
    if _kind(i) == "u":
        return result
    minus = b.icmp_unsigned("==", a, constant_like(a, -1))
    sign = b.select(b.icmp_unsigned("==", b.and_(y, one), one), constant_like(a, -1), one)
    zero = constant_like(a, 0)
    inverse = b.select(b.icmp_unsigned("==", a, one), one, b.select(minus, sign, zero))
    return b.select(b.icmp_signed("<", y, zero), inverse, result)


_maximum, _minimum = _extreme("max"), _extreme("min")


def _shift(name: str) -> Rule:
    def rule(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
        a, by = x
        bits = 8 * DTYPES[i.dtype].itemsize
        over = b.icmp_unsigned(">=", by, constant_like(by, bits))
        if name == "ashr":
            return b.ashr(a, b.select(over, constant_like(by, bits - 1), by))
        shifted = getattr(b, name)(a, b.select(over, constant_like(by, 0), by))
        return b.select(over, constant_like(a, 0), shifted)

    return rule


_DIRECTIONS: Final = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def _total_order(b: Builder, x: Value, dtype: str) -> Value:
    """Integers that order as the bits of floats do: -NaN, -inf, ..., -0, +0, ..., inf, NaN."""
    bits = 8 * DTYPES[dtype].itemsize
    word = b.bitcast(x, register_type(f"s{bits}", x.lanes))
    sign = b.ashr(word, constant_like(word, bits - 1))
    return b.xor(word, b.lshr(sign, constant_like(word, 1)))


def _compare(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    op = _DIRECTIONS[i.attrs["direction"]]
    kind = _kind(i)
    if kind == "c":
        (re, im), (re2, im2) = parts(x[0]), parts(x[1])
        if op == "==":
            return b.and_(b.fcmp_ordered(op, re, re2), b.fcmp_ordered(op, im, im2))
        return b.or_(b.fcmp_unordered(op, re, re2), b.fcmp_unordered(op, im, im2))
    if kind == "f" and i.attrs.get("type") == "TOTALORDER":
        return b.icmp_signed(op, *(_total_order(b, a, i.operands[0].dtype) for a in x))
    if kind == "f":
        return b.fcmp_unordered(op, x[0], x[1]) if op == "!=" else b.fcmp_ordered(op, x[0], x[1])
    return b.icmp_signed(op, x[0], x[1]) if kind == "i" else b.icmp_unsigned(op, x[0], x[1])


# ---- three operands


def _select(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    return b.select(*x)


def _clamp(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    return _minimum(b, i, [_maximum(b, i, x[:2]), x[2]])


# ---- functions of the core


def _store_pairs(b: Builder, value: Pair, pointer: Value) -> None:
    """Complex numbers as they lie in memory."""
    if value.lanes == 1:
        b.store(value.re, pointer, 4)
        b.store(value.im, b.gep(pointer, 1, value.re.type), 4)
        return
    order = [k + part * value.lanes for k in range(value.lanes) for part in (0, 1)]
    b.store(b.shuffle(value.re, value.im, order), pointer, 64)


def _load_pairs(b: Builder, pointer: Value, part: Type, lanes: int) -> Pair:
    if lanes == 1:
        return Pair(b.load(pointer, part, 4), b.load(b.gep(pointer, 1, part), part, 4))
    both = b.load(pointer, vector(part, 2 * lanes), 64)
    return Pair(b.shuffle(both, both, range(0, 2 * lanes, 2)), b.shuffle(both, both, range(1, 2 * lanes, 2)))


def _elementwise_call(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    """Calls the loop of the eager kernel on the lanes, by way of the stack."""
    loop = loop_of(i)
    assert loop is not None  # `supports` has asked
    module, function = b.module, b.function
    inline = module.inline.get(loop.symbol)
    if inline is not None:
        return inline(b, *x)
    module.imports[loop.symbol] = loop.address
    lanes = x[0].lanes
    count = len(x)
    binary = count == 2
    arguments: list[Type] = [PTR] * (count + 1) + [I64] + ([I32] if count > 1 else [])
    callee = module.declare(loop.symbol, I1 if binary else VOID, arguments)
    itemsize = DTYPES[loop.dtype].itemsize
    where = [
        function.spill(k, max(DTYPES[d].itemsize * lanes, 64)) for k, d in enumerate((i.dtype, *[loop.dtype] * count))
    ]
    for value, pointer in zip(x, where[1:], strict=True):
        if loop.dtype == "pred":
            value = b.zext(value, vector(I8, lanes))
        if isinstance(value, Pair):
            _store_pairs(b, value, pointer)
        else:
            b.store(value, pointer, min(64, itemsize * lanes))
    flags = [constant(I32, 0)] if count > 1 else []
    b.call(callee, [*where, constant(I64, lanes), *flags])
    if i.dtype in PARTS:
        return _load_pairs(b, where[0], MEMORY[i.dtype], lanes)
    result = b.load(where[0], vector(MEMORY[i.dtype], lanes), min(64, DTYPES[i.dtype].itemsize * lanes))
    return b.icmp_unsigned("!=", result, constant(result.type, 0)) if i.dtype == "pred" else result


def _convert(b: Builder, i: Instruction, x: Sequence[Value]) -> Value:
    return convert(b, x[0], i.operands[0].dtype, i.dtype, native=has_native_range(i.attrs))


ELEMENTWISE: Final[dict[str, Rule]] = {
    "elementwise-call": _elementwise_call,
    "abs": _abs,
    "negate": _negate,
    "sign": _sign,
    "not": lambda b, i, x: b.not_(x[0]),
    "floor": _float_intrinsic("llvm.floor"),
    "ceil": _float_intrinsic("llvm.ceil"),
    "round-nearest-even": _float_intrinsic("llvm.roundeven"),
    "round-nearest-afz": _float_intrinsic("llvm.round"),
    "is-finite": _is_finite,
    "sqrt": _float_intrinsic("llvm.sqrt"),
    "rsqrt": _rsqrt,
    "exponential": _math(math.exp),
    "exponential-minus-one": _math(math.expm1),
    "log": _math(math.log),
    "log-plus-one": _math(math.log1p),
    "tanh": _math(math.tanh),
    "logistic": _math(math.sigmoid),
    "popcnt": _float_intrinsic("llvm.ctpop"),
    "count-leading-zeros": _count_leading_zeros,
    "reduce-precision": _reduce_precision,
    "power": _int_power,
    "copy": lambda b, i, x: x[0],
    "convert": _convert,
    "bitcast-convert": _bitcast,
    "real": lambda b, i, x: parts(x[0])[0],
    "imag": lambda b, i, x: parts(x[0])[1],
    "complex": lambda b, i, x: Pair(x[0], x[1]),
    "add": _arithmetic("fadd", "add", "or_"),
    "subtract": _arithmetic("fsub", "sub"),
    "multiply": _arithmetic("fmul", "mul", "and_"),
    "divide": _divide,
    "remainder": _remainder,
    "maximum": _maximum,
    "minimum": _minimum,
    "and": lambda b, i, x: b.and_(x[0], x[1]),
    "or": lambda b, i, x: b.or_(x[0], x[1]),
    "xor": lambda b, i, x: b.xor(x[0], x[1]),
    "shift-left": _shift("shl"),
    "shift-right-logical": _shift("lshr"),
    "shift-right-arithmetic": _shift("ashr"),
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
}

# Relative cost of one element, for the choice of unrolling and of work per thread; 1 where not listed.
COST: Final[dict[str, int]] = {
    "elementwise-call": 40,
    "exponential": 14,
    "exponential-minus-one": 18,
    "log": 18,
    "log-plus-one": 24,
    "tanh": 24,
    "logistic": 22,
    "divide": 6,
    "remainder": 40,
    "sqrt": 8,
    "rsqrt": 12,
}


def supports(i: Instruction) -> Decision:
    """Whether an elementwise instruction has code here."""
    if i.opcode not in ELEMENTWISE:
        return Decision.refuse("no code for this opcode yet")
    for o in (*i.operands, i):
        if o.dtype not in REGISTER:
            return Decision.refuse(f"no code for {o.dtype}")
    if i.operands[0].array_shape.kind in OPCODES[i.opcode].uncompiled:
        return Decision.refuse(f"no code for {i.opcode} of {i.operands[0].dtype}")
    if i.opcode == "power" and i.operands[0].array_shape.kind == "f":
        return Decision.refuse("no code for this opcode yet")
    if i.operands[0].dtype in PARTS and i.opcode in ("abs", "bitcast-convert"):
        return Decision.refuse(f"no code for {i.opcode} of {i.operands[0].dtype}")
    if i.opcode == "elementwise-call" and loop_of(i) is None:
        target, dtype = i.attrs["custom_call_target"], i.operands[0].dtype
        return Decision.refuse(f"no function {target} of {len(i.operands)} {dtype} gives {i.dtype}")
    return Decision.allow()


def combine(b: Builder, kind: str, dtype: str, x: Value, y: Value) -> Value:
    """One step of a reduction of this kind (an opcode's name)."""
    element = DTYPES[dtype].kind
    if element == "c":
        return COMPLEX_ARITHMETIC[kind](b, x, y)
    if kind == "add":
        return b.fadd(x, y) if element == "f" else b.or_(x, y) if element == "b" else b.add(x, y)
    if kind == "multiply":
        return b.fmul(x, y) if element == "f" else b.and_(x, y) if element == "b" else b.mul(x, y)
    if kind in ("and", "or", "xor"):
        return {"and": b.and_, "or": b.or_, "xor": b.xor}[kind](x, y)
    name = kind[:3]
    if element == "f":
        return b.intrinsic(f"llvm.{name}imum", x, y)
    if element == "b":
        return b.or_(x, y) if name == "max" else b.and_(x, y)
    return b.intrinsic(f"llvm.{'s' if element == 'i' else 'u'}{name}", x, y)
