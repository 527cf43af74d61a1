"""Values combined into places as HLO for GPUs, as csrc/kernels/cpu/index/gather_scatter.cpp has it."""

from __future__ import annotations

from typing import Final

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Computation, Instruction
from minitensor_jit.ir.semantics.combiners import highest, lowest
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.call import FLOATING, RecordedCall
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.scans import counted_up

__all__ = ["masked_scatter", "reduces_on_gpus", "scatter_reduce"]

_SUM, _PROD, _MEAN, _AMAX = range(4)
_KINDS: Final = {_SUM: "add", _PROD: "multiply", _MEAN: "add"}


def reduces_on_gpus(call: RecordedCall) -> bool:
    """Whether it is lowered: not the truth of anything, and no means of integers, which are rounded down."""
    dtype = call.results[0][0]
    return dtype != "pred" and (call.params[1] != _MEAN or dtype in FLOATING)


def _extreme(dtype: str, largest: bool) -> Computation:
    c = Builder("extreme")
    there, value = c.parameter(Shape(dtype)), c.parameter(Shape(dtype))
    takes = c.compare(value, there, "GT" if largest else "LT")
    if dtype in FLOATING:
        takes = c.or_(takes, c.compare(value, value, "NE"))
    return c.build_computation(c.select(takes, value, there))


def _start(mode: int, dtype: str) -> float:
    if mode in _KINDS:
        return float(mode == _PROD)
    return lowest(dtype) if mode == _AMAX else highest(dtype)


def scatter_reduce(
    b: Lowering, x: Instruction, index: Instruction, src: Instruction, dim: int, mode: int, include_self: bool
) -> Instruction:
    """The array with the values of `src` combined into it, one after the other."""
    x, src = b.widened(x), b.widened(src)
    if not include_self:
        fresh = b.full(Shape(x.dtype, index.dims), _start(mode, x.dtype))
        x = b.scatter_along(x, index, fresh, dim, "assign")
    kind = _KINDS.get(mode) or _extreme(x.dtype, mode == _AMAX)
    made = b.scatter_along(x, index, src, dim, kind)
    if mode != _MEAN:
        return made
    one, none = (b.full(Shape("s64", dims), n) for dims, n in ((index.dims, 1), (x.dims, int(include_self))))
    counts = b.scatter_along(none, index, one, dim, "add")
    many = b.compare(counts, b.full(counts.array_shape, 1), "GT")
    return b.select(many, b.divide(made, b.to_dtype(counts, made.dtype)), made)


def masked_scatter(b: Lowering, x: Instruction, mask: Instruction, source: Instruction) -> Instruction:
    """The array with the elements of `source`, one after the other, where `mask` holds."""
    dims, count = b.result.dims, source.array_shape.size
    x, mask = b.broadcast_to(x, dims), b.broadcast_to(b.truth(mask), dims)
    size = x.array_shape.size
    number = counted_up(b, b.reshape(b.convert(mask, "s64"), (size,)), 0)
    wanted = b.slice(number, (size - 1,), (size,))
    b.fail_where(b.compare(wanted, b.full(wanted.array_shape, count), "GT"))
    at = b.subtract(number, b.full(number.array_shape, 1))
    low, high = (b.full(at.array_shape, k) for k in (0, count - 1))
    values = b.reshape(b.to_dtype(source, x.dtype), (count,))
    taken = b.take(values, b.maximum(b.minimum(at, high), low), 0, checked=True)
    return b.select(mask, b.reshape(taken, dims), x)
