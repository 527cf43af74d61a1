"""Linear algebra under the names that it has outside of `linalg`, and what only exists there."""

from __future__ import annotations

from typing import Any, NoReturn

from minitensor import _C
from minitensor import linalg as la
from minitensor.composite.registry import autocast, composite, grad_fn
from minitensor.linalg.checks import fail_where, kernel_dtype, not_implemented, result, square
from minitensor.linalg.decompositions import not_positive, reflect, svd_row, unpack
from minitensor.linalg.solvers import inverse_of, singular
from minitensor.ops import ROWS
from minitensor.ops import linalg as rows

__all__: list[str] = []


# ---- determinants and inverses


@composite(out="exact")
def det(input: Any) -> _C.Tensor:
    """The determinant of square matrices."""
    return la.det(input)


@composite()
def logdet(input: Any) -> _C.Tensor:
    """The logarithm of the determinant: NaN where it is negative, -inf where it is zero."""
    square(input, "linalg.logdet")
    kernel_dtype(input, "linalg.logdet")
    sign, logabsdet = rows.slogdet(input)
    if input.is_complex():
        return sign.log() + logabsdet
    nan = ROWS["full"].call((), float("nan"), dtype=logabsdet.dtype)
    return ROWS["where"].call(sign == -1.0, nan, logabsdet)


@composite(out="exact")
def slogdet(input: Any) -> Any:
    """The sign of the determinant, and the logarithm of its absolute value."""
    sign, logabsdet = la.slogdet(input)
    return result("slogdet", sign=sign, logabsdet=logabsdet)


@composite(out="exact")
@autocast("float32", "")
def inverse(input: Any) -> _C.Tensor:
    """The inverse of square matrices. Raises LinAlgError for a singular one."""
    return inverse_of(input, "linalg.inv")


@composite()
@autocast("float32", "")
@grad_fn("LinalgPinvBackward0")
def pinverse(input: Any, rcond: float = 1e-15) -> _C.Tensor:
    """The Moore-Penrose inverse, without singular values up to rcond times the largest."""
    return la.pinv(input, rcond)


@composite(out="castable")
def matrix_power(input: Any, n: int) -> _C.Tensor:
    """The n-th power of square matrices; of the inverse if n is negative."""
    return la.matrix_power(input, n)


@composite()
def matrix_exp(input: Any) -> _C.Tensor:
    """The exponential of square matrices."""
    return la.matrix_exp(input)


# ---- Cholesky


@composite(out="castable")
@autocast("float32", "")
@grad_fn("CholeskyBackward0")
def cholesky(input: Any, upper: bool = False) -> _C.Tensor:
    """The Cholesky factor of positive-definite matrices. `linalg.cholesky` is the newer function."""
    square(input, "cholesky")
    kernel_dtype(input, "cholesky", "cholesky_cpu")
    factor, info = rows.cholesky(input, upper)
    fail_where(info, "cholesky", not_positive)
    return factor


@composite(out="castable")
@autocast("float32", "")
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> _C.Tensor:
    """The X with A X = B (`input`) from A's Cholesky factor (`input2`)."""
    for name, t in (("b", input), ("u", input2)):
        if t.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {t.ndim} dimensions instead")
    if input2.shape[-1] != input2.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {input2.shape[-2]} by {input2.shape[-1]} matrices"
        )
    if input.shape[-2] != input2.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {input2.shape[-1]} by {input2.shape[-1]} "
            f"but each b matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    if input.dtype != input2.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {_C.type_name(input.dtype)} and A of type "
            f"{_C.type_name(input2.dtype)} instead"
        )
    not_implemented(input, "cholesky_solve_cpu")
    return rows.cholesky_solve(input, input2, upper)


@composite(out="castable")
@autocast("float32", "")
def cholesky_inverse(input: Any, upper: bool = False) -> _C.Tensor:
    """The inverse of A from its Cholesky factor."""
    square(input, "cholesky_inverse")
    not_implemented(input, "cholesky_inverse_out_cpu")
    zero = (input.detach().diagonal(0, -2, -1) == 0).to(_C.int32)
    places = zero.argmax(-1).to(_C.int32) + 1 if input.shape[-1] else None
    if places is not None:
        fail_where(places * zero.amax(-1), "cholesky_inverse", singular)
    return rows.cholesky_inverse(input, upper)


# ---- orthogonal factors


@composite(out="exact")
@autocast("float32", "")
def qr(input: Any, some: bool = True) -> Any:
    """Q and R; a square Q unless `some`. `linalg.qr` is the newer function."""
    q, r = la.qr(input, "reduced" if some else "complete")
    return result("qr", Q=q, R=r)


@composite(out="exact")
@autocast("float32", "")
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """U, S and V (not its transpose). `linalg.svd` is the newer function."""
    if compute_uv:
        u, s, vh = svd_row(input, not some, True)
        return result("svd", U=u, S=s, V=rows.adjoint(vh))
    s = svd_row(input, False, False)[1]
    lead, (m, n) = tuple(input.shape[:-2]), input.shape[-2:]
    return result("svd", U=input.new_zeros((*lead, m, m)), S=s, V=input.new_zeros((*lead, n, n)))


@composite(out="castable")
@autocast("float32", "")
def geqrf(input: Any) -> Any:
    """R, and below it the Householder reflectors that Q is the product of; their factors tau."""
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    not_implemented(input, "geqrf_cpu")
    a, tau = rows.geqrf(input)
    return result("geqrf", a=a, tau=tau)


@composite(out="castable")
@autocast("float32", "")
def orgqr(input: Any, input2: Any) -> _C.Tensor:
    """The first columns of the product of the Householder reflectors that `geqrf` gives."""
    return la.householder_product(input, input2)


@composite(out="exact")
@autocast("float32", "")
@grad_fn("OrmqrBackward0")
def ormqr(input: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> _C.Tensor:
    """The product of Q, from the reflectors `input` and factors `input2`, and `input3`."""
    name = "torch.ormqr"
    for which, t, least in (("input", input, 2), ("other", input3, 2), ("tau", input2, 1)):
        if t.ndim < least:
            raise RuntimeError(f"{name}: {which} must have at least {least} dimensions.")
    side = input3.shape[-2 if left else -1]
    dim = -2 if left else -1
    k = min(side, input.shape[-1])
    if input2.shape[-1] != k:
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{dim}], input.shape[-1])")
    if input.shape[-2] != side:
        raise RuntimeError(f"{name}: other.shape[{dim}] must be equal to input.shape[-2]")
    for which, t in (("other", input3), ("tau", input2)):
        if t.dtype != input.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {which} to have the same dtype, but input has dtype "
                f"{_C.type_name(input.dtype)} and {which} has dtype {_C.type_name(t.dtype)}"
            )
    not_implemented(input, "ormqr_cpu")
    if left:
        return reflect(input, input2, input3, transpose)
    return rows.adjoint(reflect(input, input2, rows.adjoint(input3), not transpose))


# ---- LU


@composite()
def lu(input: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """L and U of A = P L U in one matrix, and the rows that were swapped; with `get_infos`, the first zero pivots."""
    if out is not None:
        _C.check_out("lu", out, (input,), {})
    factors, pivots, info = la.lu_factor_ex(input, pivot=pivot)
    found = (factors, pivots, info) if get_infos else (factors, pivots)
    if out is not None:
        return _C.store_out("lu", found, out)
    return result("_lu_with_info", LU=factors, pivots=pivots, info=info) if get_infos else found


@composite(out="exact")
@autocast("float32", "")
@grad_fn("LinalgLuSolveBackward0")
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> _C.Tensor:
    """The X with A X = B (`input`) from A's LU factors."""
    return la.lu_solve(LU_data, LU_pivots, input)


@composite(method=False, out="exact")
@grad_fn(None, "LuUnpackBackward0")
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """P, L and U from the compact form; what isn't wanted is empty."""
    if unpack_pivots and LU_pivots.dtype != _C.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    nothing = LU_data.new_empty((0,))
    p = rows.permutation_matrix(LU_pivots, LU_data.shape[-2], LU_data) if unpack_pivots else nothing
    lower, upper = nothing, nothing
    if unpack_data:
        _, lower, upper = unpack(LU_data, LU_pivots)
    return result("lu_unpack", P=p, L=lower, U=upper)


@composite(out="exact")
@autocast("float32", "")
@grad_fn(None, "TriangularSolveBackward0")
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """The X with A X = B (`input`) for triangular A, and a copy of A. `linalg.solve_triangular` is newer."""
    name = "torch.triangular_solve"
    for which, t in (("b", input), ("A", A)):
        if t.ndim < 2:
            raise RuntimeError(
                f"{name}: Expected {which} to have at least 2 dimensions, but it has {t.ndim} dimensions instead"
            )
    square(A, "triangular_solve")
    if A.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {A.shape[-1]} by {A.shape[-1]} but each "
            f"b matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    not_implemented(input, "triangular_solve_cpu")
    coefficient = A.clone()
    x = rows.solve_triangular(A.mT if transpose else A, input, upper != transpose, True, unitriangular)
    return result("triangular_solve", solution=x, cloned_coefficient=coefficient)


# ---- names that PyTorch has only to say what to call instead


def _removed(name: str, instead: str) -> NoReturn:
    raise RuntimeError(
        f"This function was deprecated since version 1.9 and is now removed. torch.{name} is replaced by "
        f"torch.linalg.{instead}."
    )


@composite(name="symeig")
def symeig(input: Any, eigenvectors: bool = False, upper: bool = True, *, out: Any = None) -> NoReturn:
    """Raises: `linalg.eigh` and `linalg.eigvalsh` are there instead."""
    _removed("symeig", "eigh")


@composite(name="eig")
def eig(self: Any, eigenvectors: bool = False, *, e: Any = None, v: Any = None) -> NoReturn:
    """Raises: `linalg.eig` and `linalg.eigvals` are there instead."""
    _removed("eig", "eig")


@composite(name="lstsq")
def lstsq(input: Any, A: Any, *, out: Any = None) -> NoReturn:
    """Raises: `linalg.lstsq` is there instead."""
    _removed("lstsq", "lstsq")


@composite(name="solve")
def solve(input: Any, A: Any, *, out: Any = None) -> NoReturn:
    """Raises: `linalg.solve` is there instead."""
    _removed("solve", "solve")


@composite(name="matrix_rank", method=False)
def matrix_rank(input: Any, tol: Any = None, symmetric: bool = False, *, out: Any = None) -> NoReturn:
    """Raises: `linalg.matrix_rank` is there instead."""
    _removed("matrix_rank", "matrix_rank")
