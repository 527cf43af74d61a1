"""The evaluator's rules for what slides a window: reduce-window, select-and-scatter and convolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import numpy as np

from ..module import Instruction
from ..semantics.window import ConvolutionDims, Window
from .computation import scalar_function
from .elementwise import Array, Rule, Value

__all__ = ["WINDOW_RULES"]


def _places(window: Window, dims: Sequence[int]) -> Iterator[tuple[tuple[Array, ...], Array]]:
    """Where every place of the window reads, for each offset inside the window in row-major order.

    With it, whether there is an element: it may lie in the padding, or between the elements of a dilated array.
    """
    counts = window.positions(dims)
    for offset in product(*(range(d.size) for d in window.dims)):
        lines, inside = [], []
        for w, n, count, o in zip(window.dims, dims, counts, offset, strict=True):
            at = np.arange(count) * w.stride + o * w.window_dilation - w.low
            index, rest = np.divmod(at, w.base_dilation)
            fits = (rest == 0) & (index >= 0) & (index < n)
            lines.append(np.where(fits, index, 0))
            inside.append(fits)
        everywhere = np.ones((), bool)
        for fits in inside:
            everywhere = everywhere[..., None] & fits
        yield np.ix_(*lines), everywhere


def _reduce_window(i: Instruction, x: Sequence[Value]) -> Value:
    n, window = len(x) // 2, i.attrs["window"]
    inputs, function = x[:n], scalar_function(i.attrs["to_apply"])
    dims = window.positions(inputs[0].shape)
    totals = [np.full(dims, init) for init in x[n:]]
    if inputs[0].size:
        for where, inside in _places(window, inputs[0].shape):
            made = function(*totals, *(a[where] for a in inputs))
            made = made if n > 1 else (made,)
            totals = [np.where(inside, m, t) for m, t in zip(made, totals, strict=True)]
    return tuple(totals) if n > 1 else totals[0]


def _select_and_scatter(i: Instruction, x: Sequence[Value]) -> Value:
    operand, source, init = x
    select, scatter = scalar_function(i.attrs["select"]), scalar_function(i.attrs["scatter"])
    result = np.full(operand.shape, init)
    if not operand.size or not source.size:
        return result
    best = np.zeros(source.shape, operand.dtype)
    place = np.full(source.shape, -1)
    numbers = np.arange(operand.size).reshape(operand.shape)
    for where, inside in _places(i.attrs["window"], operand.shape):
        value, number = operand[where], numbers[where]
        better = inside & ((place < 0) | ~np.asarray(select(best, value)))
        best, place = np.where(better, value, best), np.where(better, number, place)
    flat = result.reshape(-1)
    for number, value in zip(place.reshape(-1), source.reshape(-1), strict=True):
        if number >= 0:
            flat[number] = scatter(flat[number], value)
    return result


def _convolution(i: Instruction, x: Sequence[Value]) -> Value:
    labels: ConvolutionDims = i.attrs["dim_labels"]
    dtype = i.array_shape.numpy_dtype
    lhs = x[0].astype(dtype).transpose(labels.lhs_batch, labels.lhs_feature, *labels.lhs_spatial)
    rhs = x[1].astype(dtype).transpose(labels.rhs_output, labels.rhs_input, *labels.rhs_spatial)
    window: Window = i.attrs.get("window", Window())
    rhs = np.flip(rhs, tuple(2 + d for d, w in enumerate(window.dims) if w.reversal))
    features, batches = i.attrs.get("feature_group_count", 1), i.attrs.get("batch_group_count", 1)
    groups = features * batches  # one of them is 1
    spatial = lhs.shape[2:]
    counts = window.positions(spatial)
    # Groups first: [group, batch, feature, ...] and [group, output feature, input feature, ...].
    if features > 1:
        left = lhs.reshape(lhs.shape[0], features, -1, *spatial).swapaxes(0, 1)
    else:
        left = lhs.reshape(batches, lhs.shape[0] // batches, lhs.shape[1], *spatial)
    right = rhs.reshape(groups, rhs.shape[0] // groups, *rhs.shape[1:])
    total = np.zeros((groups, left.shape[1], right.shape[1], *counts), dtype)
    if lhs.size and rhs.size:
        offsets = product(*(range(n) for n in rhs.shape[2:]))
        for offset, (where, inside) in zip(offsets, _places(window, spatial), strict=True):
            index = (slice(None),) * 3
            values = left[(*index, *where)] if spatial else left
            values = np.where(inside, values, np.zeros((), dtype))
            total += np.einsum("gbi...,goi->gbo...", values, right[(*index, *offset)]).astype(dtype)
    joined = total.swapaxes(0, 1).reshape(total.shape[1], groups * right.shape[1], *counts)
    order = np.argsort([labels.out_batch, labels.out_feature, *labels.out_spatial])
    return np.ascontiguousarray(joined.transpose(order))


WINDOW_RULES: Final[dict[str, Rule]] = {
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "convolution": _convolution,
}
