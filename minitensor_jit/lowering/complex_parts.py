"""Ops on complex numbers as HLO for GPUs, by their real and imaginary parts (docs/numerics.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from minitensor_jit.ir.module import Instruction
from minitensor_jit.lowering.call import RecordedCall
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.gpu_row import GpuRow

__all__ = ["COMPLEX_LOWERINGS"]

Dims = int | Sequence[int] | None


def _total(b: Lowering, x: Instruction, dim: Dims, keepdim: bool) -> Instruction:
    """The sums, as those of a real array with a last dimension of 2."""
    x = b.to_dtype(x, b.result.dtype)
    rank = len(x.dims)
    if not rank:
        return x
    given = (dim,) if isinstance(dim, int) else tuple(dim or range(rank))
    both = b.concatenate([b.reshape(part, (*x.dims, 1)) for part in (b.real(x), b.imag(x))], rank)
    total = b.reduce_dims(both, "add", tuple(d % rank for d in given), keepdim)
    *dims, _ = total.dims
    zeros = (0,) * len(dims)
    parts = [b.slice(total, (*zeros, k), (*dims, k + 1)) for k in range(2)]
    return b.complex(*[b.reshape(part, tuple(dims)) for part in parts])


def _sum(b: Lowering, x: Instruction, dim: Dims, keepdim: bool, _dtype: Any) -> Instruction:
    return _total(b, x, dim, keepdim)


def _mean(b: Lowering, x: Instruction, dim: Dims, keepdim: bool, _dtype: Any) -> Instruction:
    total = _total(b, x, dim, keepdim)
    count = b.reduced_count(x, dim)
    return b.complex(*[b.divide(part, b.full(part.array_shape, count)) for part in (b.real(total), b.imag(total))])


def _cumsum(b: Lowering, x: Instruction, dim: int, _dtype: Any) -> Instruction:
    x = b.to_dtype(x, b.result.dtype)
    if not x.dims:
        return x
    parts = b.real(x), b.imag(x)
    made = [b.kernel_call("cumsum", [part], [part.array_shape], kinds="t", params=(dim, None))[0] for part in parts]
    return b.complex(*made)


def _magnitude(b: Lowering, x: Instruction) -> Instruction:
    """The C library's `hypotf`: in float64, where the squares are exact."""
    wide = [b.convert(part, "f64") for part in (b.real(x), b.imag(x))]
    squares = [b.multiply(part, part) for part in wide]
    size = b.convert(b.sqrt(b.add(*squares)), "f32")
    infinite = b.or_(*[b.compare(b.abs(p), b.full(p.array_shape, math.inf), "EQ") for p in wide])
    return b.select(infinite, b.full(size.array_shape, math.inf), size)


def _sgn(b: Lowering, x: Instruction) -> Instruction:
    size = _magnitude(b, x)
    zero = b.full(size.array_shape, 0)
    none = b.compare(size, zero, "EQ")
    return b.complex(*[b.select(none, zero, b.divide(part, size)) for part in (b.real(x), b.imag(x))])


def _matmul(b: Lowering, x: Instruction, y: Instruction) -> Instruction:
    """Four products of parts."""
    (a, c), (d, e) = ((b.real(one), b.imag(one)) for one in (x, y))
    real = b.subtract(b.matmul_broadcast(a, d), b.matmul_broadcast(c, e))
    return b.complex(real, b.add(b.matmul_broadcast(a, e), b.matmul_broadcast(c, d)))


def _of_parts(test: str, kind: str) -> Callable[..., Instruction]:
    def lowering(b: Lowering, x: Instruction) -> Instruction:
        found = []
        for part in (b.real(x), b.imag(x)):
            if test == "finite":
                found.append(b.is_finite(part))
            elif test == "nan":
                found.append(b.compare(part, part, "NE"))
            else:
                found.append(b.compare(b.abs(part), b.full(part.array_shape, math.inf), "EQ"))
        return b.emit(kind, found)

    return lowering


def _truth(b: Lowering, x: Instruction) -> Instruction:
    if x.dtype not in ("c64", "c128"):
        return b.truth(x)
    return b.or_(*[b.truth(part) for part in (b.real(x), b.imag(x))])


def _logical(kind: str) -> Callable[..., Instruction]:
    return lambda b, x, y: b.emit(kind, (_truth(b, x), _truth(b, y)))


def _quantifier(kind: str) -> Callable[..., Instruction]:
    def lowering(b: Lowering, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
        truth = _truth(b, x)
        # No dimensions means none here, not all.
        if dim is not None and not isinstance(dim, int) and not tuple(dim):
            return truth
        return b.reduce_dims(truth, kind, dim, keepdim)

    return lowering


def _is_c64(call: RecordedCall) -> bool:
    return call.compute == "c64"


COMPLEX_LOWERINGS: Final[dict[str, GpuRow]] = {
    "sum": GpuRow(_sum),
    "mean": GpuRow(_mean),
    "cumsum": GpuRow(_cumsum),
    "abs": GpuRow(_magnitude, fits=_is_c64),
    "sgn": GpuRow(_sgn, fits=_is_c64),
    "matmul": GpuRow(_matmul),
    "isnan": GpuRow(_of_parts("nan", "or")),
    "isinf": GpuRow(_of_parts("infinite", "or")),
    "isfinite": GpuRow(_of_parts("finite", "and")),
    "logical_and": GpuRow(_logical("and")),
    "logical_or": GpuRow(_logical("or")),
    "logical_xor": GpuRow(_logical("xor")),
    "logical_not": GpuRow(lambda b, x: b.not_(_truth(b, x))),
    "all": GpuRow(_quantifier("and")),
    "any": GpuRow(_quantifier("or")),
}
"""By the name of the op."""
