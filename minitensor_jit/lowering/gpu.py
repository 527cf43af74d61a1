"""Ops as HLO for GPUs that the CPU has kernels for: the same products and sums, in the order of those kernels.

On the CPU compiled code calls these kernels, which keep their blocks in caches. A GPU would have to wait for the
host, so what they compute is written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.semantics.combiners import highest, lowest
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering import (
    averages,
    convolutions,
    normalization,
    orders,
    pads,
    pooling,
    resample,
    scans,
    scatters,
)
from minitensor_jit.lowering.call import FLOATING, RecordedCall
from minitensor_jit.lowering.complex_parts import COMPLEX_LOWERINGS
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.gpu_row import GpuRow
from minitensor_jit.lowering.kernel_ordered_sums import lane_sum, matrix_product

__all__ = ["lower_for_gpus", "lowers_on_gpus"]

_LANES = 16


def lowers_on_gpus(call: RecordedCall) -> bool:
    """Whether the call has HLO here."""
    known = _lowering(call)
    if known is None or not (call.complex or call.result_floating or known.integers):
        return False
    # What planes of the same size are made of is nothing.
    shapes = [shape for shape in call.shapes if shape is not None][: 1 if known.empty_tables else None]
    if any(0 in dims for dims in (*shapes, *(dims for _, dims in call.results))):
        return False
    return known.fits(call)


def _lowering(call: RecordedCall) -> GpuRow | None:
    return (COMPLEX_LOWERINGS if call.complex else _LOWERINGS).get(call.row.name)


def lower_for_gpus(b: Lowering, call: RecordedCall, operands: Sequence[Any]) -> Any:
    """The results."""
    known = _lowering(call)
    assert known is not None
    return known.lower(b, *operands, *call.params)


# ---- rows of tables


def _embedding(b: Lowering, table: Instruction, index: Instruction, *_: Any) -> Instruction:
    return b.take(table, index, 0, low=0)


def _embedding_backward(
    b: Lowering, grad: Instruction, index: Instruction, rows: int, padding: int, _by_frequency: bool
) -> Instruction:
    grad = b.widened(grad)
    zeros = b.full(Shape(grad.dtype, (rows, grad.dims[-1])), 0)
    made = b.put(zeros, index, grad, 0, "add", low=0)
    if not 0 <= padding < rows:
        return made
    row = b.iota(Shape("s64", made.dims), 0)
    return b.select(b.compare(row, b.full(row.array_shape, padding), "EQ"), zeros, made)


# ---- attention


def _turned(b: Lowering, x: Instruction) -> Instruction:
    rank = len(x.dims)
    return b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _weights(
    b: Lowering, q: Instruction, k: Instruction, mask: Instruction | None, scale: float, causal: bool
) -> Instruction:
    scores = matrix_product(b, b.multiply(q, b.full(q.array_shape, scale)), _turned(b, k))
    shape = scores.array_shape
    none, zero = b.full(shape, -math.inf), b.full(shape, 0)
    if mask is not None:
        scores = b.add(scores, b.broadcast_to(b.to_dtype(mask, shape.dtype), shape.dims))
    if causal:
        places = Shape("s64", shape.dims)
        scores = b.select(b.compare(b.iota(places, 2), b.iota(places, 1), "GT"), none, scores)
    hidden = None
    if mask is not None:
        # A query that sees no key at all gets nothing, and not NaN.
        blocked = b.compare(scores, none, "EQ")
        hidden = b.broadcast(b.reduce(blocked, b.constant(True), (2,), "and"), shape.dims, (0, 1))
        scores = b.select(hidden, zero, scores)
    e = b.exponential(b.subtract(scores, b.spread(b.reduce_dims(scores, "maximum", (2,), True), scores)))
    weights = b.divide(e, b.spread(b.reduce_dims(e, "add", (2,), True), e))
    return weights if hidden is None else b.select(hidden, zero, weights)


def _seen(b: Lowering, x: Instruction, queries: int, causal: bool) -> Instruction:
    """The keys or values that any query sees."""
    keys = min(queries, x.dims[1]) if causal else x.dims[1]
    return x if keys == x.dims[1] else b.slice(x, (0, 0, 0), (x.dims[0], keys, x.dims[2]))


def _mask_seen(b: Lowering, mask: Instruction | None, keys: int) -> Instruction | None:
    if mask is None or mask.dims[-1] in (1, keys):
        return mask
    return b.slice(mask, (0,) * len(mask.dims), (*mask.dims[:-1], keys))


def _attention(
    b: Lowering, q: Instruction, k: Instruction, v: Instruction, mask: Instruction | None, scale: float, causal: bool
) -> Instruction:
    k, v = (_seen(b, x, q.dims[1], causal) for x in (k, v))
    return matrix_product(b, _weights(b, q, k, _mask_seen(b, mask, k.dims[1]), scale, causal), v)


def _attention_backward(
    b: Lowering,
    grad: Instruction,
    q: Instruction,
    k: Instruction,
    v: Instruction,
    mask: Instruction | None,
    scale: float,
    causal: bool,
) -> list[Instruction]:
    keys = k.dims[1]
    k, v = (_seen(b, x, q.dims[1], causal) for x in (k, v))
    p = _weights(b, q, k, _mask_seen(b, mask, k.dims[1]), scale, causal)
    slopes = matrix_product(b, grad, _turned(b, v))
    total = b.broadcast(lane_sum(b, b.multiply(slopes, p), _LANES), p.dims, (0, 1))
    slopes = b.multiply(b.multiply(p, b.subtract(slopes, total)), b.full(p.array_shape, scale))
    rows = _block_rows(q.dims[1], keys, p.array_shape.itemsize, causal)
    made = [matrix_product(b, slopes, k), *(_sum_of_blocks(b, x, y, rows) for x, y in ((slopes, q), (p, grad)))]
    if k.dims[1] == keys:
        return made
    zero = b.constant(0, p.dtype)
    return [made[0], *(b.pad(x, zero, [(0, 0, 0), (0, keys - k.dims[1], 0), (0, 0, 0)]) for x in made[1:])]


def _block_rows(queries: int, keys: int, itemsize: int, causal: bool) -> int:
    """How many queries csrc/kernels/cpu/nn/attention.cpp takes at a time."""
    most = min(max(24, queries // 8 // 24 * 24), 240) if causal else 240
    return min(max(24, min((512 << 10) // itemsize // max(keys, 1) // 24 * 24, most)), queries)


def _sum_of_blocks(b: Lowering, x: Instruction, y: Instruction, rows: int) -> Instruction:
    """x^T y, summed up in blocks of rows that are added one after the other, the last one first."""
    batch, total, m = x.dims
    n = y.dims[2]
    blocks = -(-total // rows)
    if blocks == 1:
        return matrix_product(b, _turned(b, x), y)
    parts = []
    for some in (x, y):
        if blocks * rows != total:
            some = b.pad(some, b.constant(0, x.dtype), [(0, 0, 0), (0, blocks * rows - total, 0), (0, 0, 0)])
        parts.append(b.reshape(some, (batch, blocks, rows, some.dims[2])))
    products = matrix_product(b, _turned(b, parts[0]), parts[1])
    made: Instruction | None = None
    for k in reversed(range(blocks)):
        part = b.reshape(b.slice(products, (0, k, 0, 0), (batch, k + 1, m, n)), (batch, m, n))
        made = part if made is None else b.add(made, part)
    assert made is not None
    return made


# ---- the places of extremes


def _first_extreme(b: Lowering, x: Instruction, dim: int, least: bool) -> tuple[Instruction, Instruction]:
    """The extreme along dim, NaN if there is one, and where it is first."""
    c = Builder("first_extreme")
    (value, place, other, at) = (c.parameter(Shape(t)) for t in (x.dtype, "s64") * 2)
    better = c.compare(value, other, "LT" if least else "GT")
    same = c.compare(value, other, "EQ")
    if x.dtype in FLOATING:
        nan, other_nan = (c.compare(v, v, "NE") for v in (value, other))
        better = c.or_(better, c.and_(nan, c.not_(other_nan)))
        same = c.or_(same, c.and_(nan, other_nan))
    keeps = c.or_(better, c.and_(same, c.compare(place, at, "LT")))
    chosen = c.build_computation(c.tuple(c.select(keeps, value, other), c.select(keeps, place, at)))
    worst = highest(x.dtype) if least else lowest(x.dtype)
    starts = b.constant(worst, x.dtype), b.constant((1 << 63) - 1, "s64")
    made = b.reduce((x, b.iota(Shape("s64", x.dims), dim)), starts, (dim,), chosen)
    return b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)


def _extreme(
    b: Lowering, x: Instruction, dim: int | None, keepdim: bool, *, least: bool
) -> tuple[Instruction, Instruction]:
    dims = x.dims
    if dim is None or not dims:
        x, kept, dim = b.reshape(x, (math.prod(dims),)), (1,) * len(dims) if keepdim else (), 0
    else:
        dim %= len(dims)
        kept = (*dims[:dim], *([1] if keepdim else []), *dims[dim + 1 :])
    if x.dtype == "pred":
        x = b.convert(x, "s32")
    value, place = _first_extreme(b, x, dim, least)
    return b.reshape(value, kept), b.reshape(place, kept)


def _place(least: bool) -> Callable[..., Instruction]:
    return lambda b, x, dim, keepdim: _extreme(b, x, dim, keepdim, least=least)[1]


def _value_and_place(least: bool) -> Callable[..., tuple[Instruction, Instruction]]:
    return lambda b, x, dim, keepdim: _extreme(b, x, dim, keepdim, least=least)


# ---- products


def _prod(b: Lowering, x: Instruction, dim: int | None, keepdim: bool, _dtype: Any) -> Instruction:
    return b.reduce_dims(b.to_dtype(x, b.result.dtype), "multiply", dim, keepdim)


# ---- numbers at equal distances, and the halves of complex numbers that real ones have


def _linspace(b: Lowering, first: float, last: float, steps: int, *_: Any) -> Instruction:
    """From both ends, so that the ends are exact."""
    first, last = float(first), float(last)
    if b.result.dtype in ("f16", "bf16"):
        return _narrow_linspace(b, first, last, steps)
    shape = Shape("f64", (steps,))
    by = (last - first) / (steps - 1) if steps > 1 else 0.0
    i, step = b.iota(shape, 0), b.full(shape, by)
    from_first = b.add(b.full(shape, first), b.multiply(i, step))
    back = b.multiply(b.subtract(b.full(shape, steps - 1), i), step)
    near = b.compare(i, b.full(shape, (steps + 1) // 2), "LT")
    return b.select(near, from_first, b.subtract(b.full(shape, last), back))


def _narrow_linspace(b: Lowering, first: float, last: float, steps: int) -> Instruction:
    """Each operation is rounded to the dtype."""
    wide = Shape("f32", (steps,))

    def narrow(x: Instruction) -> Instruction:
        return b.convert(x, b.result.dtype)

    i = b.iota(wide, 0)
    start, end, back = (narrow(b.full(wide, x)) for x in (first, last, steps - 1))
    step = b.divide(b.subtract(end, start), back) if steps > 1 else narrow(b.full(wide, 0.0))
    from_first = b.add(start, b.multiply(step, narrow(i)))
    from_last = b.subtract(end, b.multiply(step, narrow(b.subtract(b.full(wide, steps - 1), i))))
    return b.select(b.compare(i, b.full(wide, max(steps // 2, 1)), "LT"), from_first, from_last)


def _real_angle(b: Lowering, x: Instruction) -> Instruction:
    zero, half_turn = (b.full(x.array_shape, k) for k in (0, math.pi))
    made = b.select(b.compare(x, zero, "LT"), half_turn, zero)
    return b.select(b.compare(x, x, "NE"), x, made)


_LOWERINGS: Final[dict[str, GpuRow]] = {
    "embedding": GpuRow(_embedding, fits=lambda call: bool(call.shapes[1])),
    "embedding_backward": GpuRow(_embedding_backward, fits=lambda call: bool(call.shapes[1]) and not call.params[2]),
    "attention": GpuRow(_attention),
    "attention_backward": GpuRow(_attention_backward),
    "convolution": GpuRow(convolutions.convolution, fits=convolutions.convolution_fits),
    "convolution_backward_input": GpuRow(convolutions.backward_input, fits=convolutions.backward_input_fits),
    "convolution_backward_weight": GpuRow(convolutions.backward_weight, fits=convolutions.backward_weight_fits),
    "im2col": GpuRow(convolutions.im2col, fits=convolutions.patches_fit),
    "col2im": GpuRow(convolutions.col2im, fits=convolutions.patches_fit),
    "_pad_around": GpuRow(pads.pad_around, integers=True),
    "_pad_around_backward": GpuRow(pads.pad_around_backward),
    "_resample": GpuRow(resample.resample, fits=resample.taps_fit, empty_tables=True),
    "_resample_backward": GpuRow(resample.resample_backward, fits=resample.taps_fit, empty_tables=True),
    "sort": GpuRow(orders.sort, integers=True),
    "topk": GpuRow(orders.topk, fits=lambda call: bool(call.params[3]), integers=True),
    "kthvalue": GpuRow(orders.kthvalue, integers=True),
    "median_dim": GpuRow(orders.median, integers=True),
    "nanmedian_dim": GpuRow(orders.nanmedian, integers=True),
    "_median": GpuRow(orders.median_of_all, integers=True),
    "_nanmedian": GpuRow(orders.nanmedian_of_all, integers=True),
    "mode": GpuRow(orders.mode, integers=True),
    "_scatter_reduce": GpuRow(scatters.scatter_reduce, fits=scatters.reduces_on_gpus, integers=True),
    "linspace": GpuRow(_linspace),
    "angle": GpuRow(_real_angle),
    "sgn": GpuRow(lambda b, x: b.elementwise_call("sign", x), fits=lambda call: call.compute != "pred", integers=True),
    "searchsorted": GpuRow(orders.searchsorted, fits=orders.search_fits, integers=True),
    "prod": GpuRow(_prod, integers=True),
    "cumsum": GpuRow(scans.cumulated("cumsum"), integers=True),
    "cumprod": GpuRow(scans.cumulated("cumprod"), integers=True),
    "_cumprod_backward": GpuRow(scans.cumprod_backward, fits=scans.gradient_fits),
    "masked_scatter": GpuRow(scatters.masked_scatter, integers=True),
    "cummax": GpuRow(scans.extremes_so_far("cummax"), integers=True),
    "cummin": GpuRow(scans.extremes_so_far("cummin"), integers=True),
    "argmax": GpuRow(_place(least=False), integers=True),
    "argmin": GpuRow(_place(least=True), integers=True),
    "max_dim": GpuRow(_value_and_place(least=False), integers=True),
    "min_dim": GpuRow(_value_and_place(least=True), integers=True),
    "max_pool": GpuRow(pooling.max_pool, fits=pooling.windows_fit),
    "max_pool_indices": GpuRow(pooling.max_pool_indices, fits=pooling.windows_fit, integers=True),
    "avg_pool": GpuRow(averages.avg_pool),
    "avg_pool_backward": GpuRow(averages.avg_pool_backward),
    "adaptive_avg_pool": GpuRow(averages.adaptive_avg_pool),
    "adaptive_avg_pool_backward": GpuRow(averages.adaptive_avg_pool_backward),
    "adaptive_max_pool_indices": GpuRow(averages.adaptive_max_pool_indices, fits=averages.maxima_fit, integers=True),
    "plane_gather": GpuRow(pooling.plane_gather),
    "plane_scatter": GpuRow(pooling.plane_scatter),
    "plane_scatter_add": GpuRow(pooling.plane_scatter_add),
    "group_norm": GpuRow(normalization.group_norm),
    "group_norm_backward": GpuRow(normalization.group_norm_backward),
    "batch_norm_stats": GpuRow(normalization.batch_norm_stats),
    "batch_norm": GpuRow(normalization.batch_norm),
    "batch_norm_backward": GpuRow(normalization.batch_norm_backward),
}
