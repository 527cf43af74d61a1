"""The extension `linalg` of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import linalg as la
from minitensor._functions import offered
from minitensor._functions.offered import broadcast_tensors, movedim
from minitensor.array_api.dtypes import result_type
from minitensor.array_api.manipulation import Axes, axes_of, matrix_transpose

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


def _promoted(x1: Any, x2: Any) -> tuple[Any, Any]:
    dtype = result_type(x1, x2)
    return x1.to(dtype), x2.to(dtype)


def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product."""
    return offered.matmul(*_promoted(x1, x2))


def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Any:
    """The sum of products over pairs of axes."""
    return offered.tensordot(*_promoted(x1, x2), axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The dot products along an axis; the first operand is conjugated."""
    first, second = _promoted(x1, x2)
    for x in (first, second):
        if not -x.ndim <= axis < x.ndim:
            raise IndexError(f"axis {axis} is out of bounds for an array of {x.ndim} dimensions")
    if first.shape[axis] != second.shape[axis]:
        raise ValueError("the sizes of the contracted axis differ")
    first, second = broadcast_tensors(movedim(first, axis, -1), movedim(second, axis, -1))
    first = first.conj() if first.is_complex() else first
    return offered.matmul(first.unsqueeze(-2), second.unsqueeze(-1)).squeeze(-1).squeeze(-1)


def outer(x1: Any, x2: Any, /) -> Any:
    """The products of every pair of elements of two vectors."""
    return offered.outer(*_promoted(x1, x2))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross products along an axis of three elements."""
    first, second = broadcast_tensors(*_promoted(x1, x2))
    for x in (x1, x2):
        if not -x.ndim <= axis < x.ndim:
            raise IndexError(f"axis {axis} is out of bounds for an array of {x.ndim} dimensions")
        if x.shape[axis] != 3:
            raise ValueError("cross needs vectors of three elements")
    return la.cross(first, second, dim=axis)


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The Cholesky factor."""
    return la.cholesky(x, upper=upper)


def det(x: Any, /) -> Any:
    """The determinant."""
    return la.det(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonal of each matrix."""
    return la.diagonal(x, offset=offset)


def eigh(x: Any, /) -> Any:
    """The eigenvalues and eigenvectors of Hermitian matrices."""
    return la.eigh(x)


def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues of Hermitian matrices."""
    return la.eigvalsh(x)


def inv(x: Any, /) -> Any:
    """The inverse."""
    return la.inv(x)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of matrices."""
    return la.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x: Any, n: int, /) -> Any:
    """The n-th power of matrices."""
    return la.matrix_power(x, n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """The number of singular values above rtol times the largest."""
    return la.matrix_rank(x, rtol=rtol)


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The Moore-Penrose inverse."""
    return la.pinv(x, rtol=rtol)


def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """Q and R."""
    return la.qr(x, mode)


def slogdet(x: Any, /) -> Any:
    """The sign and the logarithm of the absolute value of the determinant."""
    return la.slogdet(x)


def solve(x1: Any, x2: Any, /) -> Any:
    """The solution of x1 @ x = x2; x2 is a vector if it has one dimension, and otherwise matrices."""
    first, second = _promoted(x1, x2)
    if second.ndim == 1:
        return la.solve(first, second.unsqueeze(-1)).squeeze(-1)
    if first.ndim - 1 == second.ndim:
        # PyTorch could take it for a batch of vectors.
        second = second.expand((*first.shape[:-2], *second.shape[-2:]))
    return la.solve(first, second)


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """U, S and Vh."""
    return la.svd(x, full_matrices)


def svdvals(x: Any, /) -> Any:
    """The singular values in descending order."""
    return la.svdvals(x)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of the diagonal of each matrix."""
    from minitensor.array_api.statistical import sum

    return sum(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Any:
    """A norm along axes, or of all elements."""
    dims = axes_of(axis, x.ndim)
    if not dims:  # of each element alone
        return (x != 0).to(offered.abs(x).dtype) if ord == 0 else offered.abs(x)
    return la.vector_norm(x, ord, dims, keepdims)
