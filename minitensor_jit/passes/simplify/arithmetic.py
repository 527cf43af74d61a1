"""Rules on numbers. For floats only those that keep every bit, -0.0, NaN and infinities included.

So `x + 0` stays (it turns -0.0 into +0.0), and so do `x * 0` and `x - x`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.module import Instruction
from ...ir.opcode import OPCODES
from ...ir.semantics.combiners import highest, lowest
from ...ir.shape import DTYPES, Shape
from .rewriter import ELEMENTWISE, Rewriter, Rule, scalar_value

__all__ = ["RULES"]


def _is(x: Instruction, value: float) -> bool:
    """Whether every element of `x` is `value`, with the same sign of zero."""
    known = scalar_value(x)
    # A product with the complex number 1 is not the other factor where that is infinite.
    if known is None or known.dtype.kind == "c" or known != value:
        return False
    return bool(np.signbit(known) == np.signbit(value)) if known.dtype.kind == "f" and value == 0 else True


def _is_zero(x: Instruction) -> bool:
    """Whether every element is the zero that an addition leaves everything unchanged with."""
    return _is(x, -0.0) if x.array_shape.is_floating else _is(x, 0)


def _add_zero(i: Instruction, r: Rewriter) -> Instruction | None:
    x, y = i.operands
    return x if _is_zero(y) else y if _is_zero(x) else None


def _subtract_zero(i: Instruction, r: Rewriter) -> Instruction | None:
    # x - (+0.0) is x for every x; x - (-0.0) is not.
    return i.operands[0] if _is(i.operands[1], 0.0) else None


def _multiply_one(i: Instruction, r: Rewriter) -> Instruction | None:
    x, y = i.operands
    return x if _is(y, 1) else y if _is(x, 1) else None


def _divide_one(i: Instruction, r: Rewriter) -> Instruction | None:
    return i.operands[0] if _is(i.operands[1], 1) else None


def _divide_power_of_two(i: Instruction, r: Rewriter) -> Instruction | None:
    shape = i.array_shape
    divisor = scalar_value(i.operands[1]) if shape.is_floating else None
    if divisor is None or not np.isfinite(divisor) or divisor == 0:
        return None
    mantissa, _ = np.frexp(divisor)
    with np.errstate(all="ignore"):
        reciprocal = divisor.dtype.type(1) / divisor
    if abs(mantissa) != 0.5 or not np.isfinite(reciprocal) or abs(reciprocal) < np.finfo(divisor.dtype).tiny:
        return None
    return r.emit("multiply", (i.operands[0], r.constant(reciprocal, shape)))


def _integer_zero(i: Instruction, r: Rewriter) -> Instruction | None:
    if not i.array_shape.is_integral:
        return None
    return next((x for x in i.operands if _is(x, 0)), None)


def _integer_minus_itself(i: Instruction, r: Rewriter) -> Instruction | None:
    x, y = i.operands
    return r.constant(0, i.array_shape) if x is y and i.array_shape.is_integral else None


def _shift_zero(i: Instruction, r: Rewriter) -> Instruction | None:
    return i.operands[0] if _is(i.operands[1], 0) else None


def _involution(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    return inner.operands[0] if inner.opcode == i.opcode else None


def _idempotent(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    return inner if inner.opcode == i.opcode else None


def _abs_negate(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    return r.emit("abs", inner.operands) if inner.opcode == "negate" and i.array_shape.kind != "u" else None


def _extreme_of_same(i: Instruction, r: Rewriter) -> Instruction | None:
    return i.operands[0] if i.operands[0] is i.operands[1] else None


def _extreme_identity(i: Instruction, r: Rewriter) -> Instruction | None:
    """maximum(x, -inf) is x, for a NaN too."""
    unit = lowest(i.dtype) if i.opcode == "maximum" else highest(i.dtype)
    x, y = i.operands
    return x if _is(y, unit) else y if _is(x, unit) else None


# ---- conversions


def _exact(a: str, b: str) -> bool:
    """Whether every value of type `a` is a value of type `b`."""
    p, q = DTYPES[a], DTYPES[b]
    if a == b or p.kind == "b":
        return q.kind != "b" or a == b
    if q.kind == "b" or "c" in (p.kind, q.kind):
        return False
    if p.kind == "f":
        return q.kind == "f" and q.itemsize > p.itemsize
    bits = 8 * p.itemsize - (p.kind == "i")
    if q.kind == "f":
        return bits <= {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}.get(b, 0)
    if q.kind == "u":
        return p.kind == "u" and q.itemsize >= p.itemsize
    return 8 * q.itemsize - 1 >= bits


def _convert_same(i: Instruction, r: Rewriter) -> Instruction | None:
    return i.operands[0] if i.dtype == i.operands[0].dtype else None


def _convert_convert(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "convert":
        return None
    source = inner.operands[0]
    a, b, c = source.dtype, inner.dtype, i.dtype
    if not _exact(a, b):
        return None
    if DTYPES[a].kind in "iu" and DTYPES[b].kind == "f" and DTYPES[c].kind in "iu" and not _exact(a, c):
        return None  # integers wrap, floats out of range do not
    attrs = dict(i.attrs) if DTYPES[a].kind == "f" else {}
    return r.emit("convert", (source,), attrs, shape=source.array_shape.with_dtype(c))


def _bitcast_convert_twice(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if i.dtype == inner.dtype:
        return inner
    if inner.opcode != "bitcast-convert":
        return None
    source = inner.operands[0]
    return source if source.dtype == i.dtype else r.emit("bitcast-convert", (source,), shape=i.shape)


# ---- elementwise operations on repeated values


def _operation_of_broadcasts(i: Instruction, r: Rewriter) -> Instruction | None:
    """op(broadcast(a), broadcast(b)) is broadcast(op(a, b)): the same values, computed once each."""
    dims: tuple[int, ...] | None = None
    dimensions: Any = None
    for x in i.operands:
        if x.opcode != "broadcast":
            return None
        source = x.operands[0].dims
        if source == ():
            continue  # a scalar fits every source
        if dims is None:
            dims, dimensions = source, x.attrs["dimensions"]
        elif dims != source or dimensions != x.attrs["dimensions"]:
            return None
    dims = dims or ()
    sources = [r.broadcast(x.operands[0], dims, ()) for x in i.operands]
    shape = i.array_shape.with_dims(dims)
    small = r.emit(i.opcode, sources, dict(i.attrs), shape)
    return r.broadcast(small, i.dims, dimensions or ())


def _splat(i: Instruction, r: Rewriter) -> Instruction | None:
    """A constant array of equal elements is a broadcast scalar."""
    literal = i.literal
    if literal is None or literal.ndim == 0 or literal.size == 0:
        return None
    flat = literal.reshape(-1)
    if flat.size > 1:
        raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
        if not (raw == raw[0]).all():
            return None
    return r.constant(flat[0], i.array_shape)


def _empty(i: Instruction, r: Rewriter) -> Instruction | None:
    """What has no elements is a constant."""
    shape = i.shape
    if not isinstance(shape, Shape) or shape.size or i.opcode in ("parameter", "constant") or i.has_side_effect:
        return None
    made = r.emit("constant", (), shape=shape)
    made.literal = np.empty(shape.dims, shape.numpy_dtype)
    made.literal.setflags(write=False)
    return made


_CAN_BE_EMPTY = tuple(
    name for name, row in OPCODES.items() if row.kind not in ("source", "tuple", "call") and name not in ("sort",)
)

RULES: tuple[Rule, ...] = (
    Rule("empty", _CAN_BE_EMPTY, _empty, "a value without elements is a constant"),
    Rule("splat", ("constant",), _splat, "constant({c, c, ...}) is broadcast(c)"),
    Rule("add-zero", ("add",), _add_zero, "x + -0.0 is x; for integers x + 0 is x"),
    Rule("subtract-zero", ("subtract",), _subtract_zero, "x - +0.0 is x"),
    Rule("subtract-itself", ("subtract",), _integer_minus_itself, "x - x is 0 for integers"),
    Rule("multiply-one", ("multiply",), _multiply_one, "x * 1 is x"),
    Rule("multiply-zero", ("multiply",), _integer_zero, "x * 0 is 0 for integers"),
    Rule("divide-one", ("divide",), _divide_one, "x / 1 is x"),
    Rule("divide-power-of-two", ("divide",), _divide_power_of_two, "x / 2^k is x * 2^-k"),
    Rule(
        "shift-zero",
        ("shift-left", "shift-right-logical", "shift-right-arithmetic"),
        _shift_zero,
        "x shifted by 0 is x",
    ),
    Rule("involution", ("negate", "not"), _involution, "negate(negate(x)) is x"),
    Rule(
        "idempotent",
        ("abs", "floor", "ceil", "round-nearest-even", "round-nearest-afz", "sign"),
        _idempotent,
        "abs(abs(x)) is abs(x)",
    ),
    Rule("abs-negate", ("abs",), _abs_negate, "abs(negate(x)) is abs(x)"),
    Rule("extreme-of-same", ("maximum", "minimum"), _extreme_of_same, "maximum(x, x) is x"),
    Rule("extreme-identity", ("maximum", "minimum"), _extreme_identity, "maximum(x, -inf) is x"),
    Rule("convert-same", ("convert",), _convert_same, "convert to the same type is no operation"),
    Rule("convert-convert", ("convert",), _convert_convert, "convert(convert(x)) is convert(x) where no value is lost"),
    Rule("bitcast-convert-twice", ("bitcast-convert",), _bitcast_convert_twice, "bits reinterpreted twice, once"),
    Rule("operation-of-broadcasts", ELEMENTWISE, _operation_of_broadcasts, "op(broadcast(x)) is broadcast(op(x))"),
)
