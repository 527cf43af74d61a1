"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.dims import ints_of
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, grad_fn, one_node
from minitensor.linalg.checks import linalg, matrices
from minitensor.ops import ROWS
from minitensor.ops.elementwise import where

__all__ = ["matrix_norm", "norm", "vector_norm"]


@one_node("LinalgVectorNormBackward0")
def magnitude_norm(x: Any, p: float, dim: Any, keepdim: bool, dtype: Any = None) -> Any:
    """The p-norm over dims of a tensor of real numbers."""
    if p == 2:
        return ROWS["norm2"].call(x, dim, keepdim, dtype=dtype)
    if p == 1:
        return ROWS["norm1"].call(x, dim, keepdim, dtype=dtype)
    x = x if dtype is None else x.to(dtype)
    if x.dtype is _C.float16 or x.dtype is _C.bfloat16:
        # The powers of numbers of 16 bits overflow long before their roots do.
        return magnitude_norm(x.to(_C.float32), p, dim, keepdim).to(x.dtype)
    if math.isinf(p):
        return ROWS["amax" if p > 0 else "amin"].call(x.abs(), dim, keepdim)
    if p == 0:
        return where(x == 0, x * 0.0, 1.0).sum(dim, keepdim)
    # Zeros apart: the derivatives of the powers are not finite there, that of the norm is.
    zero = x == 0
    powers = where(zero, 1.0, x.abs()) ** p
    flat: Any = 0.0
    if p < 2 and _C.is_recorded(x):
        # Zero, with the derivative zero and none of second order, like the norm there.
        flat = x.abs() ** 1.5
    if p < 0:
        nothing = zero.any(dim, keepdim)
        total = powers.sum(dim, keepdim)
        if not isinstance(flat, float):
            flat = where(zero, flat, 0.0).sum(dim, keepdim)
            return where(nothing, flat, where(nothing, 1.0, total) ** (1.0 / p))
    else:
        total = where(zero, flat, powers).sum(dim, keepdim)
        nothing = total == 0
        if not isinstance(flat, float):
            return where(nothing, total**1.5, where(nothing, 1.0, total) ** (1.0 / p))
    return where(nothing, 0.0, where(nothing, 1.0, total) ** (1.0 / p))


def _check_dtype(x: Any, dtype: Any, name: str) -> None:
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {_C.type_name(x.dtype)}")
    if dtype is None:
        return
    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"{name}: argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {_C.type_name(dtype)}")
    if dtype.is_complex != x.dtype.is_complex:
        kind = "complex" if x.dtype.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {_C.type_name(dtype)}")
    if dtype.itemsize < x.dtype.itemsize:
        raise RuntimeError(
            f"{name}: the dtype of the input ({_C.type_name(x.dtype)}) should be convertible without narrowing to the "
            f"specified dtype ({_C.type_name(dtype)})"
        )


def _dims(dim: Any, ndim: int) -> list[int]:
    given = ints_of(dim)
    rank = max(ndim, 1)
    for d in given:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
    return [d % rank for d in given]


def _check_not_empty(x: Any, ord: float, dims: list[int] | None) -> None:
    """A norm of nothing is 0, but the largest of nothing and negative powers of it are not defined."""
    if not (ord < 0 or ord == math.inf):
        return
    if dims is None or not dims:
        if x.numel() == 0:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {_shown(ord)} norm on an empty tensor because the operation "
                "does not have an identity"
            )
        return
    for d in dims:
        if x.ndim and x.shape[d] == 0:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {_shown(ord)} norm on the dimension {d}because this dimension "
                "is empty and the operation does not have an identity"
            )


def _shown(ord: float) -> str:
    return f"{ord:g}"


@linalg
@autocast("", "float32")
@grad_fn("LinalgVectorNormBackward0")
def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> _C.Tensor:
    """(sum |x|^ord)^(1/ord) along dim, or of all elements; the largest or smallest |x| for infinity."""
    name = "linalg.vector_norm"
    _check_dtype(x, dtype, name)
    if dtype is not None:
        x = x.to(dtype)
    ord = float(number(ord, name, "ord"))
    dims = None if dim is None else _dims(dim, x.ndim)
    _check_not_empty(x, ord, dims)
    if x.dtype.name in ("float16", "bfloat16"):
        return magnitude_norm(x.to(_C.float32), ord, dims or None, keepdim).to(x.dtype)
    return magnitude_norm(x.abs() if x.is_complex() else x, ord, dims or None, keepdim)


@linalg
@autocast("", "float32")
def matrix_norm(
    input: Any, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> _C.Tensor:
    """A norm of matrices: "fro", "nuc", 1 and -1 (columns), inf and -inf (rows), 2 and -2 (singular values)."""
    name = "linalg.matrix_norm"
    matrices(input, name)
    _check_dtype(input, dtype, name)
    dims = ints_of(dim)
    if len(dims) != 2:
        shown = ", ".join(map(str, dims))
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {shown}")
    first, second = _dims(dims, input.ndim)
    if first == second:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    if dtype is not None:
        input = input.to(dtype)
    if isinstance(ord, str):
        if ord not in ("fro", "nuc"):
            raise RuntimeError(f"{name}: Order {ord} not supported.")
        if ord == "fro":
            return vector_norm(input, 2, (first, second), keepdim)
        return _of_singular_values(input, first, second, keepdim, lambda s: s.sum(-1))
    ord = number(ord, name, "ord")
    size = abs(float(ord))
    if size not in (1, 2, math.inf):
        raise RuntimeError(f"{name}: Order {_shown(float(ord))} not supported.")
    if size == 2:
        largest = ord > 0
        return _of_singular_values(input, first, second, keepdim, lambda s: _extreme(s, -1, False, largest))
    if size == math.inf:
        first, second = second, first
    if second > first and not keepdim:
        second -= 1
    sums = vector_norm(input, 1.0, (first,), keepdim)
    return _extreme(sums, second, keepdim, ord > 0)


def _extreme(x: Any, dim: int, keepdim: bool, largest: bool) -> Any:
    """The largest or smallest norm; of no rows at all the largest is 0."""
    if x.shape[dim] == 0 and largest:
        return x.sum(dim, keepdim)
    return x.amax(dim, keepdim) if largest else x.amin(dim, keepdim)


def _of_singular_values(x: Any, first: int, second: int, keepdim: bool, combine: Any) -> Any:
    from minitensor.linalg.decompositions import svdvals

    rest = [d for d in range(x.ndim) if d not in (first, second)]
    found = combine(svdvals(x.permute((*rest, first, second))))
    if keepdim:
        for d in sorted((first, second)):
            found = found.unsqueeze(d)
    return found


@linalg
def norm(input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> _C.Tensor:
    """A vector norm along one dimension, a matrix norm along two; without `ord` the 2-norm of all elements."""
    dims = None if dim is None else ints_of(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dims}")
    if dims is None and ord is not None and input.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.ndim}D."
        )
    if ord is not None and (isinstance(ord, str) or (len(dims) if dims is not None else input.ndim) == 2):
        return matrix_norm(input, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return vector_norm(input, 2 if ord is None else ord, dims, keepdim, dtype=dtype)
