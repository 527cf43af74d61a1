"""Planes in other sizes as HLO for GPUs, in the order of csrc/kernels/cpu/nn/resample.cpp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.call import RecordedCall
from minitensor_jit.lowering.context import Lowering

__all__ = ["resample", "resample_backward", "taps_fit"]

_MOST_TAPS = 64
_MOST_READ = 16
"""So many elements are read for a result at once; otherwise what one dimension gives goes to memory."""


def taps_fit(call: RecordedCall) -> bool:
    """Whether it is lowered: each element that a result is made of is a step of the kernel."""
    return max(call.params[0]) <= _MOST_TAPS


def _along(
    b: Lowering, places: Instruction, weights: Instruction, counts: Sequence[int], sizes: Sequence[int]
) -> Iterator[tuple[int, Instruction, Instruction]]:
    """(dimension, places, weights), [count, size] each, of the dimensions that change."""
    at = 0
    for d, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        if count:
            lines = (b.reshape(x, (x.array_shape.size,)) for x in (places, weights))
            which, factors = (b.slice(line, (at,), (at + count * size,)) for line in lines)
            yield 2 + d, b.reshape(which, (count, size)), b.reshape(factors, (count, size))
        at += count * size


def _stored(b: Lowering, x: Instruction) -> Instruction:
    return b.get_tuple_element(b.emit("opt-barrier", (b.tuple(x),)), 0)


def resample(
    b: Lowering, x: Instruction, places: Instruction, weights: Instruction, counts: Sequence[int], sizes: Sequence[int]
) -> Instruction:
    """The planes, made from the last dimension to the first."""
    read = 1
    for d, which, factors in reversed(list(_along(b, places, weights, counts, sizes))):
        count, size = which.dims
        if read > 1 and read * count > _MOST_READ:
            x, read = _stored(b, x), 1
        read *= count
        total: Instruction | None = None
        for k in range(count):
            at, factor = (b.reshape(b.slice(one, (k, 0), (k + 1, size)), (size,)) for one in (which, factors))
            taken = b.take(x, at, d, checked=True)
            part = b.multiply(taken, b.broadcast(factor, taken.dims, (d,)))
            total = part if total is None else b.add(total, part)
        assert total is not None
        x = total
    return x


def resample_backward(
    b: Lowering,
    grad: Instruction,
    places: Instruction,
    weights: Instruction,
    counts: Sequence[int],
    sizes: Sequence[int],
) -> Instruction:
    """The transpose, from the first dimension to the last: each place gets its shares in the order of the results."""
    for d, which, factors in list(_along(b, places, weights, counts, grad.dims[2:])):
        count, size = which.dims
        after = tuple(range(d + 1, len(grad.dims) + 1))
        spread = (*grad.dims[: d + 1], count, *grad.dims[d + 1 :])
        shares = b.multiply(
            b.broadcast(grad, spread, (*range(d + 1), *(e + 1 for e in after[:-1]))),
            b.broadcast(b.transpose(factors, (1, 0)), spread, (d, d + 1)),
        )
        dims = (*grad.dims[:d], sizes[d - 2], *grad.dims[d + 1 :])
        zeros = b.full(Shape(grad.dtype, dims), 0)
        index = b.reshape(b.transpose(which, (1, 0)), (size * count,))
        grad = b.put(zeros, index, shares, d, "add", checked=True)
    return grad
