"""Padding with elements of the input itself as HLO for GPUs, as csrc/kernels/cpu/movement/pad_around.cpp has it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from minitensor_jit.ir.module import Instruction
from minitensor_jit.lowering.averages import Table, read_through
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.kernel_ordered_sums import ordered_sum

__all__ = ["pad_around", "pad_around_backward"]

_REFLECT, _REPLICATE = 0, 1


def _sources(n: int, low: int, high: int, mode: int) -> np.ndarray:
    """Which of n elements stands at each place of the padded dimension."""
    at = np.arange(low + n + high) - low
    if mode == _REFLECT:
        at = np.where(at < 0, -at, at)
        return np.where(at >= n, 2 * (n - 1) - at, at)
    return np.clip(at, 0, n - 1) if mode == _REPLICATE else at % n


def _pairs(counts: Sequence[int], rank: int) -> list[tuple[int, int, int]]:
    """(dimension, before, after), the last dimension first."""
    return [(rank - 1 - k, counts[2 * k], counts[2 * k + 1]) for k in range(len(counts) // 2)]


def pad_around(b: Lowering, x: Instruction, counts: Sequence[int], mode: int) -> Instruction:
    """The padded array."""
    for d, low, high in _pairs(counts, len(x.dims)):
        if low or high:
            which = _sources(x.dims[d], low, high, mode)
            x = b.take(x, b.constant(which.astype(np.int64), "s64"), d, checked=True)
    return x


def pad_around_backward(b: Lowering, grad: Instruction, counts: Sequence[int], mode: int) -> Instruction:
    """For each element the sum over the places where it stands, in their order."""
    dims = list(grad.dims)
    tables: list[Table] = []
    for d, low, high in _pairs(counts, len(dims)):
        dims[d] -= low + high
        which = _sources(dims[d], low, high, mode)
        places = [np.flatnonzero(which == i) for i in range(dims[d])]
        most = max(map(len, places))
        table = np.zeros((most, dims[d]), np.int64), np.zeros((most, dims[d]), np.bool_)
        for i, found in enumerate(places):
            table[0][: len(found), i] = found
            table[1][: len(found), i] = True
        tables.insert(0, table)
    lead = len(dims) - len(tables)
    images = b.reshape(grad, (prod(grad.dims[:lead]), 1, *grad.dims[lead:]))
    return b.reshape(ordered_sum(b, read_through(b, images, tables, 0)), dims)
