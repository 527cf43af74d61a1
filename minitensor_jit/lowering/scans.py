"""Scans, which GPUs have kernels for, and the gradient of cumprod as HLO for GPUs (csrc/kernels/cpu/scan)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.call import FLOATING, RecordedCall
from minitensor_jit.lowering.context import Lowering

__all__ = ["counted_up", "cumprod_backward", "cumulated", "extremes_so_far", "gradient_fits"]

_PIECE: Final = 512


def _scan(b: Lowering, name: str, x: Instruction, dim: int) -> Instruction:
    return b.kernel_call(name, [x], [x.array_shape], kinds="t", params=(dim, None))[0]


def counted_up(b: Lowering, x: Instruction, dim: int) -> Instruction:
    """The sums of integers up to each place along dim: in pieces, since their order does not matter."""
    n = x.dims[dim]
    if n <= 2 * _PIECE:
        return _scan(b, "cumsum", x, dim)
    lead, rest = x.dims[:dim], x.dims[dim + 1 :]
    pieces = -(-n // _PIECE)
    if pieces * _PIECE != n:
        around = [(0, pieces * _PIECE - n if d == dim else 0, 0) for d in range(len(x.dims))]
        x = b.pad(x, b.constant(0, x.dtype), around)
    inside = _scan(b, "cumsum", b.reshape(x, (*lead, pieces, _PIECE, *rest)), dim + 1)
    starts = [_PIECE - 1 if d == dim + 1 else 0 for d in range(len(inside.dims))]
    totals = b.reshape(b.slice(inside, starts, inside.dims), (*lead, pieces, *rest))
    before = b.subtract(counted_up(b, totals, dim), totals)
    kept = tuple(d for d in range(len(inside.dims)) if d != dim + 1)
    made = b.add(inside, b.broadcast(before, inside.dims, kept))
    made = b.reshape(made, (*lead, pieces * _PIECE, *rest))
    limits = (*lead, n, *rest)
    return made if made.dims == limits else b.slice(made, (0,) * len(limits), limits)


def cumulated(name: str) -> Callable[..., Instruction]:
    """The rule of a scan by sums or products."""

    def lowering(b: Lowering, x: Instruction, dim: int, _dtype: Any) -> Instruction:
        x = b.to_dtype(x, b.result.dtype)
        if not x.dims:
            return x
        if x.dtype in FLOATING:
            return _scan(b, name, x, dim)
        # Integers wrap around in whatever they are narrowed to.
        x = b.to_dtype(x, "s64")
        return counted_up(b, x, dim % len(x.dims)) if name == "cumsum" else _scan(b, name, x, dim)

    return lowering


def extremes_so_far(name: str) -> Callable[..., Sequence[Instruction]]:
    """The rule of a scan by extremes, which has their places too."""

    def lowering(b: Lowering, x: Instruction, dim: int) -> Sequence[Instruction]:
        x = b.convert(x, "s32") if x.dtype == "pred" else x
        places = Shape("s64", x.dims)
        if not x.dims:
            return x, b.full(places, 0)
        return b.kernel_call(name, [x], [x.array_shape, places], kinds="t", params=(dim,))

    return lowering


# ---- the gradient of cumprod


def gradient_fits(call: RecordedCall) -> bool:
    """Whether it is lowered: of floating-point numbers with dimensions."""
    return call.result_floating and bool(call.results[0][1])


def _total_from_the_first(b: Lowering, x: Instruction, dim: int) -> Instruction:
    """The sum along dim in order, in which -0 is nothing: it begins with the first element that is there."""
    c = Builder("from_the_first")
    total, nothing, one, other = (c.parameter(Shape(t)) for t in (x.dtype, "pred") * 2)
    add = c.build_computation(c.tuple(c.add(total, one), c.or_(nothing, other)))
    none = b.full(Shape("pred", x.dims), False)
    return b.get_tuple_element(b.reduce((x, none), (b.constant(-0.0, x.dtype), b.constant(False)), (dim,), add), 0)


def cumprod_backward(b: Lowering, grad: Instruction, x: Instruction, dim: int) -> Instruction:
    """Before the first zero sums divided by the elements, at it a sum of products without it, and zero behind it."""
    x = b.widened(x)
    grad = b.to_dtype(grad, x.dtype)
    dim %= len(x.dims)
    shape, wide = x.array_shape, Shape("f64", x.dims)
    zero, none = b.compare(x, b.full(shape, 0), "EQ"), b.full(wide, 0)
    zeros = counted_up(b, b.convert(zero, "s64"), dim)
    before, at_one = (b.compare(zeros, b.full(zeros.array_shape, k), "EQ") for k in (0, 1))
    g = b.to_dtype(grad, "f64")
    terms = b.multiply(g, b.to_dtype(_scan(b, "cumprod", x, dim), "f64"))
    turned = b.reverse(b.select(before, terms, none), (dim,))
    sums = b.reverse(_scan(b, "cumsum", turned, dim), (dim,))
    usual = b.divide(b.to_dtype(sums, x.dtype), x)
    # The products without the first zero, up to the second.
    others = b.select(b.and_(at_one, zero), b.full(wide, 1), b.to_dtype(x, "f64"))
    parts = b.multiply(g, _scan(b, "cumprod", others, dim))
    total = _total_from_the_first(b, b.select(at_one, parts, b.full(wide, -0.0)), dim)
    kept = tuple(d for d in range(len(x.dims)) if d != dim)
    at_zero = b.broadcast(b.to_dtype(total, x.dtype), x.dims, kept)
    return b.select(before, usual, b.select(b.and_(at_one, zero), at_zero, b.full(shape, 0)))
