"""Inverses, determinants and systems of equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, grad_fn
from minitensor.linalg.checks import (
    fail_where,
    kernel_dtype,
    linalg,
    matrices,
    not_implemented,
    result,
    square,
)
from minitensor.linalg.decompositions import unpack
from minitensor.ops import ROWS
from minitensor.ops import linalg as rows

__all__ = [
    "cond", "det", "inv", "inv_ex", "ldl_solve", "lstsq", "lu_solve", "matrix_rank", "pinv", "slogdet", "solve",
    "solve_ex", "solve_triangular", "tensorinv", "tensorsolve",
]  # fmt: skip

Tensor = _C.Tensor


def singular(code: int) -> str:
    """The message of a matrix without an inverse."""
    return (
        f"The diagonal element {code} is zero, the inversion could not be completed because the input matrix is "
        "singular."
    )


@linalg
@autocast("float32", "")
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """The inverse, and as `info` 0 or the first zero pivot (from 1) of a singular matrix."""
    square(A, "linalg.inv")
    kernel_dtype(A, "linalg.inv")
    inverse, info = rows.inv(A)
    if check_errors:
        fail_where(info, "linalg.inv_ex", singular)
    return result("linalg_inv_ex", inverse=inverse, info=info)


def inverse_of(A: Any, name: str) -> Any:
    """The inverse; `name` is the caller's in the error for a singular matrix."""
    inverse, info = inv_ex(A)
    fail_where(info, name, singular)
    return inverse


@linalg
@autocast("float32", "")
def inv(A: Any) -> Tensor:
    """The inverse of square matrices. Raises LinAlgError for a singular one."""
    return inverse_of(A, "linalg.inv")


@linalg
def det(A: Any) -> Tensor:
    """The determinant of square matrices."""
    square(A, "linalg.det")
    kernel_dtype(A, "linalg.det", "lu_cpu")
    return rows.det(A)


@linalg
def slogdet(A: Any) -> Any:
    """The sign (of complex matrices the phase) and the logarithm of the absolute value of the determinant."""
    square(A, "linalg.slogdet")
    kernel_dtype(A, "linalg.slogdet")
    sign, logabsdet = rows.slogdet(A)
    return result("linalg_slogdet", sign=sign, logabsdet=logabsdet)


def _is_vector_of(A: Any, B: Any) -> bool:
    """Whether B is a vector, or a batch of them, rather than of matrices."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def _check_system(A: Any, B: Any, left: bool, name: str) -> None:
    equation = "AX = B" if left else "XA = B"
    if A.shape[-2] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


def _solve(A: Any, B: Any, left: bool) -> tuple[Any, Any]:
    square(A, "linalg.solve")
    kernel_dtype(A, "linalg.solve")
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {_C.type_name(A.dtype)} and "
            f"B of type {_C.type_name(B.dtype)} instead"
        )
    vector = _is_vector_of(A, B)
    columns = B.unsqueeze(-1) if vector else B
    matrices(columns, "linalg.solve", "B")
    _check_system(A, columns, left, "linalg.solve")
    broadcast_batches(A, columns)
    if left:
        x, info = rows.solve(A, columns)
    else:
        x, info = rows.solve(A.mT, columns.mT)
        x = x.mT
    return x.squeeze(-1) if vector else x, info


def broadcast_batches(*tensors: Any) -> tuple[int, ...]:
    """What the dimensions before the last two broadcast to, refused in PyTorch's words."""
    found = tuple(tensors[0].shape[:-2])
    for other in tensors[1:]:
        batch = tuple(other.shape[:-2])
        rank = max(len(found), len(batch))
        padded = [(1,) * (rank - len(s)) + s for s in (found, batch)]
        for dim, (a, b) in enumerate(zip(*padded, strict=True)):
            if a != b and 1 not in (a, b):
                raise RuntimeError(
                    f"The size of tensor a ({b}) must match the size of tensor b ({a}) at non-singleton dimension {dim}"
                )
        found = tuple(b if a == 1 else a for a, b in zip(*padded, strict=True))
    return found


def _solver_failed(_code: int) -> str:
    return "The solver failed because the input matrix is singular."


@linalg
@grad_fn(None, "LinalgSolveExBackward0")
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """The X with A X = B (X A = B if not `left`), and as `info` 0 or the first zero pivot of a singular A."""
    x, info = _solve(A, B, left)
    if check_errors:
        fail_where(info, "torch.linalg.solve_ex", _solver_failed)
    return result("linalg_solve_ex", result=x, info=info)


@linalg
@autocast("float32", "")
@grad_fn("LinalgSolveExBackward0")
def solve(A: Any, B: Any, *, left: bool = True) -> Tensor:
    """The X with A X = B, or X A = B if not `left`. Raises LinAlgError for a singular A.

    B is a vector (or a batch of them) if it has one dimension, or A's shape without the last dimension.
    """
    x, info = _solve(A, B, left)
    fail_where(info, "torch.linalg.solve", _solver_failed)
    return x


@linalg
def solve_triangular(input: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The X with A X = B (X A = B if not `left`) for triangular A; its other triangle is not read."""
    name = "linalg.solve_triangular"
    square(input, name)
    matrices(B, name, "B")
    _check_system(input, B, left, name)
    not_implemented(input, "triangular_solve_cpu")
    broadcast_batches(input, B)
    return rows.solve_triangular(input, B.to(input.dtype), upper, left, unitriangular)


def _check_pivots(pivots: Any, name: str) -> None:
    if pivots.dtype != _C.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")


@linalg
@autocast("same", "same")
@grad_fn("LinalgLuSolveBackward0")
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The X with A X = B from A's LU factors; X A = B if not `left`, with A^H in A's place if `adjoint`."""
    name = "linalg.lu_solve"
    kernel_dtype(LU, name, "linalg.lu_solve")
    if LU.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected LU and B to have the same dtype, but found LU of type {_C.type_name(LU.dtype)} and B of "
            f"type {_C.type_name(B.dtype)} instead"
        )
    _check_pivots(pivots, name)
    square(LU, name, "LU")
    matrices(B, name, "B")
    _check_system(LU, B, left, name)
    p, lower, upper = unpack(LU, pivots)
    if not left:
        # X A = B is A^H X^H = B^H.
        return rows.adjoint(_lu_solve(p, lower, upper, rows.adjoint(B), not adjoint))
    return _lu_solve(p, lower, upper, B, adjoint)


def _lu_solve(p: Any, lower: Any, upper: Any, b: Any, adjoint: bool) -> Any:
    if adjoint:
        y = rows.solve_triangular(rows.adjoint(upper), b, False, True, False)
        return p @ rows.solve_triangular(rows.adjoint(lower), y, True, True, True)
    y = rows.solve_triangular(lower, p.mT @ b, False, True, True)
    return rows.solve_triangular(upper, y, True, True, False)


@linalg
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Tensor:
    """The X with A X = B from A's LDL factors."""
    name = "torch.linalg.ldl_solve"
    square(LD, name, "LD")
    matrices(B, name, "B")
    if not isinstance(pivots, Tensor):
        raise TypeError(
            f"linalg_ldl_solve(): argument 'pivots' (position 2) must be Tensor, not {type(pivots).__name__}"
        )
    if pivots.dtype.is_floating_point or pivots.dtype.is_complex or pivots.dtype == _C.bool:
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {_C.type_name(pivots.dtype)}")
    if LD.dtype != B.dtype:
        raise RuntimeError(f"{name}: LD dtype {_C.type_name(LD.dtype)} does not match b dtype {_C.type_name(B.dtype)}")
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(f"{name}: Expected B to have {LD.shape[-1]} rows, but it has {B.shape[-2]}")
    not_implemented(LD, "ldl_solve_kernel_cpu")
    return rows.ldl_solve(LD, pivots.to(_C.int32), B, hermitian)


# ---- least squares


@linalg(out="castable")
@autocast("float32", "")
def lstsq(input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The X that minimizes ||A X - B||, the residuals, A's rank and its singular values.

    The residuals are there for full rank and more rows than columns, the rank not for the driver "gels", the singular
    values only for "gelsd" and "gelss".
    """
    name = "torch.linalg.lstsq"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if input.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype "
            f"{_C.type_name(input.dtype)} and other's dtype {_C.type_name(b.dtype)}"
        )
    not_implemented(input, "linalg_lstsq_cpu")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = _is_vector_of(input, b)
    columns = b.unsqueeze(-1) if vector else b
    if not 0 <= input.ndim - b.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    if columns.ndim < 2 or columns.shape[-2] != input.shape[-2]:
        dim = "-1" if vector else "-2"
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({dim})")
    m, n = input.shape[-2:]
    x, rank = rows.lstsq(input, columns, rcond)
    # Empty, but a function of the input all the same.
    residuals = (input.real if input.is_complex() else input).reshape((-1,))[:0].clone()
    if m > n and driver not in (None, "gelsy") and (driver == "gels" or bool(_C.all_slices(rank == n).all())):
        difference = input @ x - columns
        squares = difference.abs().square() if difference.is_complex() else difference.square()
        residuals = squares.sum(-2)
    if driver == "gels":
        rank = ROWS["full"].call((0,), 0, dtype=_C.int64)
    s = input.new_empty((0,), dtype=_real_dtype(input))
    if driver in ("gelsd", "gelss"):
        s = rows.svd(input.detach(), False, False)[1]
    solution = x.squeeze(-1) if vector else x
    return result("linalg_lstsq", solution=solution, residuals=residuals, rank=rank, singular_values=s)


# ---- rank


def _epsilon(dtype: Any) -> float:
    return 2.0**-23 if dtype.itemsize == 4 or dtype.name == "complex64" else 2.0**-52


def _real_dtype(x: Any) -> Any:
    return {"complex64": _C.float32, "complex128": _C.float64}.get(x.dtype.name, x.dtype)


def _tolerances(x: Any, atol: Any, rtol: Any, name: str) -> tuple[Any, Any]:
    """The tolerances as tensors, with the default for a relative one that isn't given."""
    real = _real_dtype(x)

    def tensor(value: Any, which: str) -> Any:
        if isinstance(value, Tensor):
            if value.is_complex():
                raise RuntimeError(
                    f"{name}: {which} tensor of complex type is not supported. Got {_C.type_name(value.dtype)}"
                )
            return value.to(real)
        return ROWS["full"].call((), float(value), dtype=real)

    if rtol is None:
        default = _epsilon(x.dtype) * max(x.shape[-2:])
        if isinstance(atol, Tensor):
            rtol = ROWS["where"].call(atol > 0, atol.to(real) * 0, default)
        else:
            rtol = 0.0 if atol is not None and atol > 0 else default
    return tensor(0.0 if atol is None else atol, "atol"), tensor(rtol, "rtol")


@linalg(out="castable")
@grad_fn("LinalgPinvBackward0")
def pinv(input: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse, without the singular values up to max(atol, rtol * the largest).

    `rtol` is the dtype's epsilon times the larger size if neither is given; `rcond` is its old name.
    """
    if input.ndim < 2 or input.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise RuntimeError(
            f"linalg.pinv({_C.type_name(input.dtype)}{{{list(input.shape)}}}): expected a tensor with 2 or more "
            "dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian:
        square(input, "linalg.eigh")
    if rcond is not None:
        atol, rtol = 0.0, rcond
    if not input.numel():
        return rows.adjoint(input).clone()
    absolute, relative = _tolerances(input, atol, rtol, "torch.linalg.pinv")
    return rows.pinv(input, absolute, relative, hermitian)


@linalg(out="castable")
@autocast("float32", "")
def matrix_rank(input: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The number of singular values (absolute eigenvalues if `hermitian`) above max(atol, rtol * the largest)."""
    from minitensor.linalg.decompositions import eigvalsh, svdvals

    matrices(input, "torch.linalg.matrix_rank", "input")
    if tol is not None:
        if atol is not None or rtol is not None:
            raise TypeError("linalg_matrix_rank() received an invalid combination of arguments")
        atol, rtol = tol, 0.0
    if input.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise RuntimeError("This function doesn't handle types other than float and double")
    if hermitian:
        square(input, "linalg.eigh")
    if not input.numel():
        return ROWS["full"].call(tuple(input.shape[:-2]), 0, dtype=_C.int64)
    absolute, relative = _tolerances(input, atol, rtol, "torch.linalg.matrix_rank")
    s = eigvalsh(input.detach()).abs() if hermitian else svdvals(input.detach())
    bound = ROWS["maximum"].call(absolute, relative * s.amax(-1))
    return (s > bound.unsqueeze(-1)).sum(-1)


@linalg(out="castable")
@autocast("float32", "")
def cond(input: Any, p: Any = None) -> Tensor:
    """The condition number: the norm `p` times that of the inverse; None, 2, -2: the singular values' ratio."""
    from minitensor.linalg.decompositions import svdvals
    from minitensor.linalg.norms import matrix_norm

    if input.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    p = p if isinstance(p, str) else number(p, "linalg_cond", "p")
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        if not input.numel():
            return ROWS["full"].call(tuple(input.shape[:-2]), 0.0, dtype=_real_dtype(input))
        s = svdvals(input)
        high, low = s[..., 0], s[..., -1]
        return low / high if p == -2 else high / low
    if not isinstance(p, str) and abs(p) not in (1, math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    square(input, f"linalg.cond(ord={p})")
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if not input.numel():
        return ROWS["full"].call(tuple(input.shape[:-2]), 0.0, dtype=_real_dtype(input))
    if p == "nuc":
        inverse = inv(input)
        return matrix_norm(input, p) * matrix_norm(inverse, p)
    inverse, info = inv_ex(input)
    product = matrix_norm(input, p) * matrix_norm(inverse, p)
    # A singular matrix has an infinite one.
    return ROWS["where"].call(info != 0, math.inf, product)


# ---- tensors as matrices


@linalg(out="castable")
@autocast("float32", "")
def tensorinv(input: Any, ind: int = 2) -> Tensor:
    """The inverse of the tensor as a map from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows_shape, columns_shape = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    m, n = math.prod(rows_shape), math.prod(columns_shape)
    if m != n:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{n} != {m}"
        )
    inverse = inverse_of(input.reshape((n, m)), "inv")
    return inverse.reshape((*columns_shape, *rows_shape))


@linalg(out="castable")
@autocast("float32", "")
def tensorsolve(input: Any, other: Any, dims: Sequence[int] | None = None) -> Tensor:
    """The X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        moved = [d % input.ndim for d in dims]
        kept = [d for d in range(input.ndim) if d not in moved]
        input = input.permute((*kept, *moved))
    shape = tuple(input.shape[other.ndim :])
    n, m = math.prod(shape), math.prod(tuple(input.shape[: other.ndim]))
    if n != m:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {n} != {m}"
        )
    return solve(input.reshape((m, n)), other.reshape((-1,))).reshape(shape)
