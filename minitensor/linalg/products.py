"""Products and powers of matrices and vectors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.numbers import whole
from minitensor.composite.registry import autocast, grad_fn
from minitensor.linalg.checks import kernel_dtype, linalg, square
from minitensor.ops import ROWS
from minitensor.ops import linalg as rows

__all__ = ["cross", "diagonal", "matmul", "matrix_exp", "matrix_power", "multi_dot", "vander", "vecdot"]

_CPP_NAMES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int",
    "int64": "long", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


@linalg
@autocast("lower", "lower")
def matmul(input: Any, other: Any) -> _C.Tensor:
    """The matrix product, batched over leading dimensions."""
    return ROWS["matmul"].call(input, other)


@linalg
@autocast("lower", "lower")
def vecdot(x: Any, y: Any, *, dim: int = -1) -> _C.Tensor:
    """The dot product along dim, broadcast over the others; a complex x is conjugated."""
    name = "linalg.vecdot"
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {_C.type_name(x.dtype)}")
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"{name}: Expected x and y to have the same dtype, but found x of type {_C.type_name(x.dtype)} and y of "
            f"type {_C.type_name(y.dtype)} instead"
        )
    return ((x.conj() if x.is_complex() else x) * y).sum(dim=dim)


@linalg
@autocast("", "widest")
@grad_fn("LinalgCrossBackward0")
def cross(input: Any, other: Any, *, dim: int = -1) -> _C.Tensor:
    """The cross product of vectors of three elements along dim, broadcast over the others."""
    name = "linalg.cross"
    if input.ndim != other.ndim:
        raise RuntimeError(f"{name}: inputs must have the same number of dimensions.")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
        )
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"{name}: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and {other.shape[dim]}"
        )
    a, b = (tuple(t.select(dim, i) for i in range(3)) for t in (input, other))
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    at = dim % input.ndim
    return ROWS["cat"].call([part.unsqueeze(at) for part in parts], at)


@linalg(out="")
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> _C.Tensor:
    """A view of the diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


@linalg(out="")
def matrix_exp(input: Any) -> _C.Tensor:
    """The exponential of square matrices."""
    square(input, "linalg.matrix_exp")
    if input.dtype.name in ("float16", "bfloat16"):
        return rows.matrix_exp(input.to(_C.float32)).to(input.dtype)
    kernel_dtype(input, "linalg.matrix_exp")
    return rows.matrix_exp(input)


@linalg
def matrix_power(input: Any, n: int) -> _C.Tensor:
    """The n-th power of square matrices; of the inverse if n is negative."""
    from minitensor.linalg.solvers import inv

    square(input, "linalg.matrix_power")
    n = whole(n, "linalg_matrix_power", "n")
    if n < 0:
        input, n = inv(input), -n
    if n == 0:
        eye = ROWS["eye"].call(input.shape[-1], dtype=input.dtype, device=input.device)
        return input.clone().copy_(eye)
    result: Any = None
    square_of = input
    while n:
        if n & 1:
            result = square_of if result is None else ROWS["matmul"].call(result, square_of)
        n >>= 1
        if n:
            square_of = ROWS["matmul"].call(square_of, square_of)
    return result.clone() if result is input else result


@linalg
@autocast("", "lower")
def multi_dot(tensors: Sequence[Any]) -> _C.Tensor:
    """The product of several matrices, multiplied in the order that costs least; the ends may be vectors."""
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    for place, name in ((0, "first"), (-1, "last")):
        if tensors[place].ndim not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {name} tensor must be 1D or 2D but got {tensors[place].ndim}D")
    for i, t in enumerate(tensors):
        if 0 < i < n - 1 and t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
        if t.dtype != tensors[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{_CPP_NAMES[tensors[0].dtype.name]} and tensor {i} {_CPP_NAMES[t.dtype.name]}"
            )
    first, last = tensors[0], tensors[-1]
    factors = [
        first.unsqueeze(0) if first.ndim == 1 else first,
        *tensors[1:-1],
        last.unsqueeze(1) if last.ndim == 1 else last,
    ]
    for i, (a, b) in enumerate(itertools.pairwise(factors)):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a.shape)} and {list(b.shape)} cannot be "
                "multiplied"
            )
    result = chain(factors)
    if last.ndim == 1:
        result = result.squeeze(1)
    return result.squeeze(0) if first.ndim == 1 else result


def chain(factors: Sequence[Any]) -> Any:
    """The product of matrices in the cheapest order (Cormen et al., "Introduction to Algorithms", 15.2)."""
    n = len(factors)
    sizes = [factors[0].shape[0], *(f.shape[1] for f in factors)]
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [(cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i][j], split[i][j] = min(options)

    def product(i: int, j: int) -> Any:
        if i == j:
            return factors[i]
        k = split[i][j]
        return ROWS["matmul"].call(product(i, k), product(k + 1, j))

    return product(0, n - 1)


@linalg(out="")
def vander(x: Any, *, N: int | None = None) -> _C.Tensor:
    """The powers 0 to N - 1 of each element along a new last dimension."""
    if x.dtype == _C.bool:
        raise RuntimeError("linalg.vander supports floating point, complex, and integer tensors, but got Bool")
    count = (x.shape[-1] if x.ndim else 1) if N is None else N
    if x.ndim == 0:
        x = x.unsqueeze(0)
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.int64)
    powers = ROWS["cumprod"].call(x.unsqueeze(-1).expand((*x.shape, count - 1)), -1)
    return ROWS["cat"].call([powers.new_ones((*x.shape, 1)), powers], -1)
