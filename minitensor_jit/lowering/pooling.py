"""Maxima of windows as HLO for GPUs, and what goes to and from their places, as in csrc/kernels/cpu/nn/pool.cpp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.semantics.combiners import lowest
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.call import FLOATING, RecordedCall
from minitensor_jit.lowering.context import Lowering

__all__ = ["max_pool", "max_pool_indices", "plane_gather", "plane_scatter", "plane_scatter_add", "windows_fit"]

_MOST_TAPS = 64


def windows_fit(call: RecordedCall) -> bool:
    """Whether the maxima of windows are lowered: each element of the window is a step of the kernel."""
    return call.compute in FLOATING and math.prod(call.params[0]) <= _MOST_TAPS


def _maximum(
    b: Lowering,
    x: Instruction,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[Instruction, Instruction]:
    """The largest element of each window, the last NaN if there is one, and where it is in its plane."""
    sizes, out = x.dims[2:], b.result.dims
    places, rank = Shape("s64", out), len(out) - 2
    steps = [math.prod(sizes[d + 1 :]) for d in range(rank)]
    spans = [(n - 1) * s + 1 for n, s in zip(out[2:], stride, strict=True)]
    ends = [
        max(0, span + (k - 1) * gap - p - n)
        for span, k, gap, p, n in zip(spans, kernel, dilation, padding, sizes, strict=True)
    ]
    around = [(0, 0, 0)] * 2 + [(p, end, 0) for p, end in zip(padding, ends, strict=True)]
    padded = b.pad(x, b.constant(lowest(x.dtype), x.dtype), around)
    # Where windows begin, and where they begin inside of the image.
    begins = [np.arange(n) * s - p for n, s, p in zip(out[2:], stride, padding, strict=True)]
    inside = [np.where(at < 0, at - at // gap * gap, at) for at, gap in zip(begins, dilation, strict=True)]

    def in_plane(along: Sequence[np.ndarray]) -> Instruction:
        total: Instruction | None = None
        for d, (positions, step) in enumerate(zip(along, steps, strict=True)):
            part = b.broadcast(b.constant((positions * step).astype(np.int64), "s64"), out, (2 + d,))
            total = part if total is None else b.add(total, part)
        assert total is not None
        return total

    begin, where = in_plane(begins), in_plane(inside)
    best = b.full(Shape(x.dtype, out), lowest(x.dtype))
    for tap in product(*map(range, kernel)):
        starts = [t * gap for t, gap in zip(tap, dilation, strict=True)]
        limits = [at + span for at, span in zip(starts, spans, strict=True)]
        value = b.slice(padded, (0, 0, *starts), (*out[:2], *limits), (1, 1, *stride))
        take = b.or_(b.compare(value, best, "GT"), b.compare(value, value, "NE"))
        offset = sum(at * step for at, step in zip(starts, steps, strict=True))
        best = b.select(take, value, best)
        where = b.select(take, b.add(begin, b.full(places, offset)), where)
    return best, where


def max_pool(
    b: Lowering,
    x: Instruction,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    _ceil_mode: bool,
) -> Instruction:
    """The values."""
    return _maximum(b, x, kernel, stride, padding, dilation)[0]


def max_pool_indices(
    b: Lowering,
    x: Instruction,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    _ceil_mode: bool,
) -> Instruction:
    """The places."""
    return _maximum(b, x, kernel, stride, padding, dilation)[1]


def _flat(b: Lowering, x: Instruction) -> Instruction:
    return b.reshape(x, (x.dims[0] * x.dims[1], math.prod(x.dims[2:])))


def plane_gather(b: Lowering, x: Instruction, index: Instruction) -> Instruction:
    """The elements at places within each plane."""
    return b.reshape(b.gather_along(_flat(b, x), _flat(b, index), 1), index.dims)


def _scattered(b: Lowering, x: Instruction, index: Instruction, size: Sequence[int], kind: str) -> Instruction:
    x = b.widened(x)
    planes = b.full(Shape(x.dtype, (x.dims[0] * x.dims[1], math.prod(size))), 0)
    made = b.scatter_along(planes, _flat(b, index), _flat(b, x), 1, kind)
    return b.reshape(made, (*x.dims[:2], *size))


def plane_scatter(b: Lowering, x: Instruction, index: Instruction, size: Sequence[int]) -> Instruction:
    """Planes of zeros with elements at places; the last stays."""
    return _scattered(b, x, index, size, "assign")


def plane_scatter_add(b: Lowering, x: Instruction, index: Instruction, size: Sequence[int]) -> Instruction:
    """Planes of zeros to which elements are added at places."""
    return _scattered(b, x, index, size, "add")
