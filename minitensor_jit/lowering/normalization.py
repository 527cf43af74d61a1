"""Normalisation as HLO for GPUs, in the order of csrc/kernels/cpu/nn/norm.cpp.

Its sums have 64 lanes, as rows have (docs/numerics.md), but no blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.kernel_ordered_sums import lane_sum, ordered_sum

__all__ = ["batch_norm", "batch_norm_backward", "batch_norm_stats", "group_norm", "group_norm_backward"]

_COLUMN_BLOCK = 256
_GRAIN = 1 << 15
_MOST_SHORT, _AT_ONCE = 32, 16
_MOST_PARTS = 64


def _number(b: Lowering, like: Instruction, value: float) -> Instruction:
    return b.full(like.array_shape, value)


def _over(b: Lowering, x: Instruction, value: float) -> Instruction:
    return b.divide(x, _number(b, x, value))


def _inverse_root(b: Lowering, x: Instruction, eps: float) -> Instruction:
    return b.divide(_number(b, x, 1.0), b.sqrt(b.add(x, _number(b, x, eps))))


def _moments(b: Lowering, rows: Instruction, eps: float, centered: bool) -> tuple[Instruction, Instruction]:
    """`rows - mean`, and `rstd` of each row."""
    n = rows.dims[-1]
    if centered:
        mean = _over(b, lane_sum(b, rows), n)
    else:
        mean = b.full(Shape(rows.dtype, rows.dims[:1]), 0.0)
    shifted = b.subtract(rows, b.broadcast(mean, rows.dims, (0,)))
    squares = lane_sum(b, b.multiply(shifted, shifted))
    return shifted, _inverse_root(b, _over(b, squares, n), eps)


# ---- groups of channels


def group_norm(
    b: Lowering,
    x: Instruction,
    weight: Instruction | None,
    bias: Instruction | None,
    groups: int,
    eps: float,
    centered: bool,
) -> Instruction:
    """Channels normalised by their group."""
    dims = x.dims
    batch, channels, plane = dims[0], dims[1] // groups, prod(dims[2:])
    shifted, rstd = _moments(b, b.reshape(x, (batch * groups, channels * plane)), eps, centered)
    shape = (batch, groups, channels, plane)
    wide = b.reshape(shifted, shape)
    factor = b.broadcast(b.reshape(rstd, (batch, groups)), shape, (0, 1))
    w, c = (v if v is None else b.broadcast(b.reshape(v, shape[1:3]), shape, (1, 2)) for v in (weight, bias))
    if plane == 1:
        y = b.multiply(wide, factor)
        y = y if w is None else b.multiply(y, w)
        y = y if c is None else b.add(y, c)
    else:
        y = b.multiply(wide, factor if w is None else b.multiply(factor, w))
        y = b.add(y, _number(b, y, 0.0) if c is None else c)
    return b.reshape(y, dims)


def _rows_of_part(batch: int, elements: int) -> int:
    """How many rows are added up before parts are."""
    parts = max(1, min(_MOST_PARTS, elements // _GRAIN), -(-batch // _COLUMN_BLOCK))
    return -(-batch // min(parts, batch))


def group_norm_backward(
    b: Lowering,
    grad: Instruction,
    x: Instruction,
    weight: Instruction | None,
    groups: int,
    eps: float,
    centered: bool,
    affine: bool,
) -> list[Instruction]:
    """The gradients of input, weight and bias."""
    dims = x.dims
    batch, channels, plane = dims[0], dims[1] // groups, prod(dims[2:])
    shape, n = (batch * groups, channels, plane), channels * plane
    shifted, rstd = _moments(b, b.reshape(x, (batch * groups, n)), eps, centered)
    g = b.reshape(grad, shape)
    r = b.broadcast(rstd, shape, (0,))
    xhat = b.multiply(b.reshape(shifted, shape), r)
    w = None
    if weight is not None:
        w = b.broadcast(b.reshape(weight, (groups, channels)), (batch, groups, channels), (1, 2))
        w = b.reshape(w, shape[:2])
    v = g if w is None else b.multiply(g, b.broadcast(w, shape, (0, 1)))
    by_weight = b.multiply(g, xhat)
    if plane == 1:
        plain, product = (lane_sum(b, b.reshape(one, (batch * groups, n))) for one in (v, b.multiply(v, xhat)))
        parts = [b.reshape(one, (batch, dims[1])) for one in (by_weight, g)]
    else:
        # Channel after channel.
        of_bias, of_weight = lane_sum(b, g), lane_sum(b, by_weight)
        plain, product = (
            ordered_sum(b, b.transpose(one if w is None else b.multiply(one, w), (1, 0)))
            for one in (of_bias, of_weight)
        )
        parts = [b.reshape(one, (batch, dims[1])) for one in (of_weight, of_bias)]
    inner = v
    if centered:
        inner = b.subtract(v, b.broadcast(_over(b, plain, n), shape, (0,)))
    gx = b.multiply(r, b.subtract(inner, b.multiply(xhat, b.broadcast(_over(b, product, n), shape, (0,)))))
    if affine:
        at_once = _AT_ONCE if plane == 1 and groups == 1 and n <= _MOST_SHORT else 1
        made = [_parameter_gradient(b, one, prod(dims), at_once) for one in parts]
    else:
        made = [b.full(Shape(x.dtype, (dims[1],)), 0.0)] * 2
    return [b.reshape(gx, dims), *made]


def _parameter_gradient(b: Lowering, x: Instruction, elements: int, at_once: int) -> Instruction:
    """The sums of columns: of parts of the rows, with some at once, then of these."""
    batch, n = x.dims
    rows = _rows_of_part(batch, elements)
    parts = -(-batch // rows)
    turns = -(-rows // at_once)
    zero = b.constant(0, x.dtype)
    if parts * rows != batch:
        x = b.pad(x, zero, [(0, parts * rows - batch, 0), (0, 0, 0)])
    x = b.reshape(x, (parts, rows, n))
    if turns * at_once != rows:
        x = b.pad(x, zero, [(0, 0, 0), (0, turns * at_once - rows, 0), (0, 0, 0)])
    x = b.transpose(b.reshape(x, (parts, turns, at_once, n)), (1, 2, 0, 3))
    x = ordered_sum(b, x)
    x = ordered_sum(b, x) if at_once > 1 else b.reshape(x, (parts, n))
    return ordered_sum(b, x)


# ---- channels over a batch


def _planes(b: Lowering, x: Instruction) -> Instruction:
    return b.reshape(x, (x.dims[0], x.dims[1], prod(x.dims[2:])))


def _total(b: Lowering, planes: Instruction) -> Instruction:
    """The sums of channels: of each plane, then over the batch."""
    return ordered_sum(b, lane_sum(b, planes))


def _along(b: Lowering, v: Instruction, planes: Instruction) -> Instruction:
    return b.broadcast(v, planes.dims, (1,))


def batch_norm_stats(b: Lowering, x: Instruction, eps: float) -> list[Instruction]:
    """Mean, variance and `1 / sqrt(variance + eps)` of each channel."""
    planes = _planes(b, x)
    n = planes.dims[0] * planes.dims[2]
    mean = _over(b, _total(b, planes), n)
    shifted = b.subtract(planes, _along(b, mean, planes))
    variance = _over(b, _total(b, b.multiply(shifted, shifted)), n)
    return [mean, variance, _inverse_root(b, variance, eps)]


def batch_norm(
    b: Lowering,
    x: Instruction,
    weight: Instruction | None,
    bias: Instruction | None,
    mean: Instruction,
    rstd: Instruction,
    _training: bool,
) -> Instruction:
    """`(x - mean) * rstd`, scaled and shifted."""
    planes = _planes(b, x)
    scale = rstd if weight is None else b.multiply(rstd, weight)
    y = b.multiply(b.subtract(planes, _along(b, mean, planes)), _along(b, scale, planes))
    y = b.add(y, _number(b, y, 0.0) if bias is None else _along(b, bias, planes))
    return b.reshape(y, x.dims)


def batch_norm_backward(
    b: Lowering,
    grad: Instruction,
    x: Instruction,
    weight: Instruction | None,
    mean: Instruction,
    rstd: Instruction,
    training: bool,
) -> Sequence[Any]:
    """The gradients of input, weight and bias."""
    planes, g = _planes(b, x), _planes(b, grad)
    n = planes.dims[0] * planes.dims[2]
    r = _along(b, rstd, planes)
    xhat = b.multiply(b.subtract(planes, _along(b, mean, planes)), r)
    plain, product = _total(b, g), _total(b, b.multiply(g, xhat))
    v = g if weight is None else b.multiply(g, _along(b, weight, planes))
    means = [b.full(mean.array_shape, 0.0)] * 2
    if training:
        scaled = [one if weight is None else b.multiply(one, weight) for one in (plain, product)]
        means = [_over(b, one, n) for one in scaled]
    inner = b.subtract(v, _along(b, means[0], planes))
    gx = b.multiply(r, b.subtract(inner, b.multiply(xhat, _along(b, means[1], planes))))
    return [b.reshape(gx, x.dims), product, plain]
