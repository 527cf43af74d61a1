"""Sums in the orders of the CPU's kernels that are not the orders of reductions (docs/numerics.md)."""

from __future__ import annotations

from math import prod
from typing import Final

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.context import Lowering

__all__ = ["LANES", "lane_sum", "matrix_product", "ordered_sum"]

LANES: Final = 64
_ROW_BLOCK = 4096
_COLUMN_BLOCK = 256
"""So many elements of a column are added one after the other by a reduction."""


def ordered_sum(b: Lowering, x: Instruction) -> Instruction:
    """The sums over the first dimension, from +0 and one element after the other."""
    count, rest = x.dims[0], x.dims[1:]
    if count == 1:
        single = b.reshape(x, rest)
        return b.add(single, b.full(single.array_shape, 0))
    if count <= _COLUMN_BLOCK and prod(rest) > 1:
        return b.reduce_sum(x, (0,))
    # Reductions by computations of their own have no blocks and no lanes, whatever their shape is: here of pairs, the
    # second of which is nothing.
    c = Builder("in_order")
    total, nothing, one, other = (c.parameter(Shape(t)) for t in (x.dtype, "pred") * 2)
    add = c.build_computation(c.tuple(c.add(total, one), c.or_(nothing, other)))
    none = b.full(Shape("pred", x.dims), False)
    return b.get_tuple_element(b.reduce((x, none), (b.constant(0, x.dtype), b.constant(False)), (0,), add), 0)


def lane_sum(b: Lowering, x: Instruction, lanes: int = LANES) -> Instruction:
    """The sums over the last dimension in lanes, without blocks."""
    *lead, n = x.dims
    rank = len(lead)
    if n == 1:
        single = b.reshape(x, lead)
        return b.add(single, b.full(single.array_shape, 0))
    if lanes == LANES and n <= _ROW_BLOCK:
        return b.reduce_sum(x, (rank,))
    turns = -(-n // lanes)
    if turns * lanes != n:
        x = b.pad(x, b.constant(0, x.dtype), [*[(0, 0, 0)] * rank, (0, turns * lanes - n, 0)])
    x = b.transpose(b.reshape(x, (*lead, turns, lanes)), (rank, *range(rank), rank + 1))
    sums = ordered_sum(b, x)
    width = lanes // 2
    while width:
        first, second = (b.slice(sums, (*[0] * rank, at), (*lead, at + width)) for at in (0, width))
        sums = b.add(first, second)
        width //= 2
    return b.reshape(sums, lead)


def matrix_product(b: Lowering, x: Instruction, y: Instruction, *, exact: bool = False) -> Instruction:
    """Batches of matrices' products in the order of those of matrices, also where one is a vector.

    An `exact` one is none that may be rounded.
    """
    batch, m, n = tuple(range(len(x.dims) - 2)), x.dims[-2], y.dims[-1]
    zero = b.constant(0, x.dtype)
    around = [(0, 0, 0)] * len(batch)
    if m == 1:
        x = b.pad(x, zero, [*around, (0, 1, 0), (0, 0, 0)])
    if n == 1:
        y = b.pad(y, zero, [*around, (0, 0, 0), (0, 1, 0)])
    made = b.matmul(x, y)
    if exact:
        made.attrs["operand_precision"] = ("highest", "highest")
    if m == 1 or n == 1:
        made = b.slice(made, (0,) * len(made.dims), (*made.dims[:-2], m, n))
    return made
