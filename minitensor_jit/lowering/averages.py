"""Averages of windows, and adaptive maxima, as HLO for GPUs, in the order of csrc/kernels/cpu/nn/pool.cpp.

Where windows lie is known when a program is made: along each dimension there is a table of what each of them has, or of
the windows that have each element. The elements are read through these tables, and added up one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Computation, Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.call import FLOATING, RecordedCall
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.kernel_ordered_sums import ordered_sum

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool_backward",
    "adaptive_max_pool_indices",
    "avg_pool",
    "avg_pool_backward",
    "maxima_fit",
    "read_through",
]


@dataclass(frozen=True, slots=True)
class _Windows:
    """Along one dimension of `size` elements: what each window has, [begin, end), and its size with padding."""

    size: int
    begin: np.ndarray
    end: np.ndarray
    padded: np.ndarray

    @staticmethod
    def regular(size: int, count: int, kernel: int, stride: int, padding: int) -> _Windows:
        first = np.arange(count) * stride - padding
        last = np.minimum(first + kernel, size + padding)
        begin = np.maximum(first, 0)
        return _Windows(size, begin, np.maximum(np.minimum(last, size), begin), last - first)

    @staticmethod
    def adaptive(size: int, count: int) -> _Windows:
        at = np.arange(count)
        begin, end = at * size // count, ((at + 1) * size + count - 1) // count
        return _Windows(size, begin, end, end - begin)

    def elements(self) -> tuple[np.ndarray, np.ndarray]:
        """[n, windows]: the n-th element of each, and whether it has so many."""
        n = np.arange(max(int((self.end - self.begin).max()), 1))[:, None]
        there = n < self.end - self.begin
        return np.where(there, self.begin + n, 0), there

    def covers(self, backwards: bool) -> tuple[np.ndarray, np.ndarray]:
        """[n, size]: the n-th window that has each element, and whether there are so many."""
        of = [np.flatnonzero((self.begin <= i) & (i < self.end)) for i in range(self.size)]
        most = max(1, *map(len, of))
        which, there = np.zeros((most, self.size), np.int64), np.zeros((most, self.size), np.bool_)
        for i, found in enumerate(of):
            which[: len(found), i] = found[::-1] if backwards else found
            there[: len(found), i] = True
        return which, there


Table: TypeAlias = tuple[np.ndarray, np.ndarray]
"""[rows, columns]: which element, and whether there is one."""


def read_through(b: Lowering, x: Instruction, tables: Sequence[Table], fill: float) -> Instruction:
    """[N, C, ...] as [tables' rows, N, C, tables' columns...]; `fill` where a table has nothing."""
    inside: list[tuple[Instruction, tuple[int, int]]] = []
    for d, (which, there) in enumerate(tables):
        axis = 2 + 2 * d
        x = b.take(x, b.constant(which.astype(np.int64), "s64"), axis, checked=True)
        if not there.all():
            inside.append((b.constant(there, "pred"), (axis, axis + 1)))
    for one, dims in inside:
        x = b.select(b.broadcast(one, x.dims, dims), x, b.full(x.array_shape, fill))
    rank = len(tables)
    rows, columns = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    x = b.transpose(x, (*rows, 0, 1, *columns))
    return b.reshape(x, (math.prod(x.dims[:rank]), *x.dims[rank:]))


def _counts(
    b: Lowering, windows: Sequence[_Windows], padded: bool, divisor: int | None, like: Instruction
) -> Instruction:
    """What the sum of each window is divided by."""
    if divisor:
        return b.full(like.array_shape, float(divisor))
    lengths = [w.padded if padded else w.end - w.begin for w in windows]
    if all((n == n[0]).all() for n in lengths):
        return b.full(like.array_shape, float(math.prod(int(n[0]) for n in lengths)))
    total: Instruction | None = None
    for d, n in enumerate(lengths):
        one = b.broadcast(b.constant(n.astype(np.int64), "s64"), like.dims, (2 + d,))
        total = one if total is None else b.multiply(total, one)
    assert total is not None
    return b.convert(total, like.dtype)


def _average(
    b: Lowering, x: Instruction, windows: Sequence[_Windows], padded: bool = True, divisor: int | None = None
) -> Instruction:
    total = ordered_sum(b, read_through(b, x, [w.elements() for w in windows], 0))
    return b.divide(total, _counts(b, windows, padded, divisor, total))


def _spread(
    b: Lowering,
    grad: Instruction,
    windows: Sequence[_Windows],
    backwards: bool,
    padded: bool = True,
    divisor: int | None = None,
) -> Instruction:
    """Each gradient evenly over its window; of several windows in their order, along the last dimension `backwards`."""
    share = b.divide(grad, _counts(b, windows, padded, divisor, grad))
    # In memory: it is read for each element of its window.
    share = b.get_tuple_element(b.emit("opt-barrier", (b.tuple(share),)), 0)
    last = len(windows) - 1
    return ordered_sum(b, read_through(b, share, [w.covers(backwards and d == last) for d, w in enumerate(windows)], 0))


def _regular(
    sizes: Sequence[int], counts: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> list[_Windows]:
    return [_Windows.regular(*one) for one in zip(sizes, counts, kernel, stride, padding, strict=True)]


def avg_pool(
    b: Lowering,
    x: Instruction,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    _ceil_mode: bool,
    padded: bool,
    divisor: int | None,
) -> Instruction:
    """The averages."""
    return _average(b, x, _regular(x.dims[2:], b.result.dims[2:], kernel, stride, padding), padded, divisor)


def avg_pool_backward(
    b: Lowering,
    grad: Instruction,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    _ceil_mode: bool,
    padded: bool,
    divisor: int | None,
) -> Instruction:
    """The gradient of the images."""
    windows = _regular(size[2:], grad.dims[2:], kernel, stride, padding)
    return _spread(b, grad, windows, True, padded, divisor)


def _adaptive(sizes: Sequence[int], counts: Sequence[int]) -> list[_Windows]:
    return [_Windows.adaptive(*one) for one in zip(sizes, counts, strict=True)]


def adaptive_avg_pool(b: Lowering, x: Instruction, size: Sequence[int]) -> Instruction:
    """The averages of so many windows."""
    return _average(b, x, _adaptive(x.dims[2:], size))


def adaptive_avg_pool_backward(b: Lowering, grad: Instruction, size: Sequence[int]) -> Instruction:
    """The gradient of the images."""
    return _spread(b, grad, _adaptive(size[2:], grad.dims[2:]), False)


def maxima_fit(call: RecordedCall) -> bool:
    """Whether adaptive maxima are lowered: those of floating-point numbers."""
    return call.compute in FLOATING


def _largest(dtype: str) -> Computation:
    c = Builder("largest")
    best, at, value, place = (c.parameter(Shape(t)) for t in (dtype, "s64") * 2)
    take = c.or_(c.compare(value, best, "GT"), c.compare(value, value, "NE"))
    return c.build_computation(c.tuple(c.select(take, value, best), c.select(take, place, at)))


def adaptive_max_pool_indices(b: Lowering, x: Instruction, size: Sequence[int]) -> Instruction:
    """Where the largest element of each window is in its plane: the last NaN, or the first of equal ones."""
    windows = _adaptive(x.dims[2:], size)
    tables = [w.elements() for w in windows]
    plane = math.prod(x.dims[2:])
    places = b.broadcast(b.reshape(b.iota(Shape("s64", (plane,)), 0), x.dims[2:]), x.dims, range(2, len(x.dims)))
    values, where = (read_through(b, one, tables, fill) for one, fill in ((x, -math.inf), (places, -1)))
    starts = b.constant(-math.inf, x.dtype), b.constant(-1, "s64")
    found = b.get_tuple_element(b.reduce((values, where), starts, (0,), _largest(x.dtype)), 1)
    # Where nothing is greater than minus infinity, the first.
    first: Instruction | None = None
    for d, w in enumerate(windows):
        step = math.prod(x.dims[3 + d :])
        one = b.broadcast(b.constant((w.begin * step).astype(np.int64), "s64"), found.dims, (2 + d,))
        first = one if first is None else b.add(first, one)
    assert first is not None
    return b.select(b.compare(found, b.full(found.array_shape, 0), "LT"), first, found)
