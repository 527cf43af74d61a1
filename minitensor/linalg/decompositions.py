"""Factorizations of matrices, eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor.composite.registry import autocast, grad_fn
from minitensor.linalg.checks import (
    LinAlgError,
    fail_where,
    kernel_dtype,
    linalg,
    matrices,
    not_implemented,
    result,
    square,
)
from minitensor.ops import ROWS
from minitensor.ops import linalg as rows

__all__ = [
    "cholesky", "cholesky_ex", "eig", "eigh", "eigvals", "eigvalsh", "householder_product", "ldl_factor",
    "ldl_factor_ex", "lu", "lu_factor", "lu_factor_ex", "qr", "svd", "svdvals",
]  # fmt: skip


def not_positive(code: int) -> str:
    """The message of a failed Cholesky factorization."""
    return (
        "The factorization could not be completed because the input is not positive-definite "
        f"(the leading minor of order {code} is not positive-definite)."
    )


@linalg
@autocast("float32", "")
def cholesky_ex(input: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor, and as `info` 0 or the order of the leading minor that is not positive-definite."""
    square(input, "linalg.cholesky")
    kernel_dtype(input, "linalg.cholesky", "cholesky_cpu")
    factor, info = rows.cholesky(input, upper)
    if check_errors:
        fail_where(info, "linalg.cholesky_ex", not_positive)
    return result("linalg_cholesky_ex", L=factor, info=info)


@linalg
@autocast("float32", "")
@grad_fn("LinalgCholeskyExBackward0")
def cholesky(input: Any, *, upper: bool = False) -> Tensor:
    """The lower triangular L of A = L L^H for Hermitian positive-definite matrices; `upper`: U of A = U^H U.

    Raises LinAlgError if A is not positive-definite.
    """
    factor, info = cholesky_ex(input, upper=upper)
    fail_where(info, "linalg.cholesky", not_positive)
    return factor


@linalg
@autocast("float32", "")
def qr(A: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R of A = Q R; "r" gives only R, "complete" a square Q."""
    if mode not in ("reduced", "r", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    matrices(A, "linalg.qr")
    kernel_dtype(A, "linalg.qr", "geqrf_cpu")
    q, r = rows.qr(A, mode == "complete")
    if mode == "r":
        q = A.new_empty((0,))
    return result("linalg_qr", Q=q, R=r)


def svd_row(A: Any, full_matrices: bool, vectors: bool, name: str = "linalg.svd") -> Any:
    """The row's results, failures reported as PyTorch does."""
    matrices(A, name)
    kernel_dtype(A, name, "linalg_svd_cpu")
    try:
        return rows.svd(A, full_matrices, vectors)
    except LinAlgError:
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix contained non-finite values."
        ) from None


def _no_driver(driver: Any, name: str) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@linalg
@autocast("float32", "")
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """U, the singular values S in descending order, and Vh, of A = U diag(S) Vh.

    ``A`` is ``[..., m, n]``, real or complex. ``U`` is ``[..., m, m]``, ``S`` real ``[..., min(m, n)]``, ``Vh``
    ``[..., n, n]``; without ``full_matrices`` the squares have ``min(m, n)`` columns and rows. Raises RuntimeError for
    integers or fewer than two dimensions, `LinAlgError` where the algorithm doesn't converge.
    """
    _no_driver(driver, "torch.linalg.svd")
    u, s, vh = svd_row(A, full_matrices, True)
    return result("linalg_svd", U=u, S=s, Vh=vh)


@linalg
@autocast("float32", "")
def svdvals(A: Any, *, driver: str | None = None) -> Tensor:
    """The singular values in descending order."""
    _no_driver(driver, "torch.linalg.svd")
    return svd_row(A, False, False)[1]


def check_uplo(UPLO: str) -> bool:
    """Whether it is the upper triangle that is read."""
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


def _eigh(input: Any, UPLO: str, vectors: bool) -> Any:
    square(input, "linalg.eigh")
    upper = check_uplo(UPLO)
    not_implemented(input, "linalg_eigh_cpu")
    try:
        return rows.eigh(input, upper, vectors)
    except LinAlgError:
        raise LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has too "
            "many repeated eigenvalues."
        ) from None


@linalg
@autocast("float32", "")
def eigh(input: Any, UPLO: str = "L") -> Any:
    """The eigenvalues, ascending, and eigenvectors of Hermitian matrices; only the triangle `UPLO` is read."""
    values, vectors = _eigh(input, UPLO, True)
    return result("linalg_eigh", eigenvalues=values, eigenvectors=vectors)


@linalg
@autocast("float32", "")
def eigvalsh(input: Any, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending; only the triangle `UPLO` is read."""
    return _eigh(input, UPLO, False)[0]


def _eig(input: Any, vectors: bool, name: str) -> Any:
    square(input, name)
    if not input.dtype.is_floating_point and not input.dtype.is_complex:
        raise RuntimeError(f"Unknown Complex ScalarType for {_C.type_name(input.dtype)}")
    not_implemented(input, "linalg_eig_out_cpu")
    try:
        return rows.eig(input, vectors)
    except LinAlgError as error:
        if "infs or NaNs" in str(error):
            raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.") from None
        raise LinAlgError(f"{name}: {error}") from None


@linalg(out="castable")
@autocast("float32", "")
def eig(input: Any) -> Any:
    """The eigenvalues and eigenvectors, complex, in no particular order."""
    values, vectors = _eig(input, True, "linalg.eig")
    return result("linalg_eig", eigenvalues=values, eigenvectors=vectors)


@linalg(out="castable")
@autocast("float32", "")
def eigvals(input: Any) -> Tensor:
    """The eigenvalues, complex, in no particular order."""
    return _eig(input, False, "linalg.eigvals")[0]


# ---- LU


def zero_pivot(code: int) -> str:
    """The message of a singular U."""
    return (
        f"U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
        "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


def _lu(A: Any, pivot: bool, name: str) -> Any:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    not_implemented(A, "lu_cpu")
    return rows.lu_factor(A)


@linalg
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """L and U in one matrix, the rows that were swapped, and as `info` 0 or the first zero pivot (from 1)."""
    factors, pivots, info = _lu(A, pivot, "torch.lu_factor")
    if check_errors:
        fail_where(info, "torch.linalg.lu_factor_ex", zero_pivot, RuntimeError)
    return result("linalg_lu_factor_ex", LU=factors, pivots=pivots, info=info)


@linalg
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """L and U of A = P L U in one matrix, and the rows that were swapped. Raises RuntimeError for a zero pivot."""
    factors, pivots, info = _lu(A, pivot, "torch.lu_factor")
    fail_where(info, "torch.linalg.lu_factor", zero_pivot, RuntimeError)
    return result("linalg_lu_factor", LU=factors, pivots=pivots)


def unpack(factors: Any, pivots: Any) -> tuple[Any, Any, Any]:
    """P, L and U from the compact form."""
    m, n = factors.shape[-2:]
    k = min(m, n)
    lower = factors[..., :k].tril(-1) + ROWS["eye"].call(m, k, dtype=factors.dtype, device=factors.device)
    return rows.permutation_matrix(pivots, m, factors), lower, factors[..., :k, :].triu()


@linalg
@grad_fn(None, "LinalgLuBackward0")
def lu(A: Any, *, pivot: bool = True) -> Any:
    """P, L and U of A = P L U: a permutation, unit lower triangular and upper triangular."""
    factors, pivots, _ = _lu(A, pivot, "linalg.lu")
    p, lower, upper = unpack(factors, pivots)
    return result("linalg_lu", P=p, L=lower, U=upper)


# ---- LDL and Householder


@linalg
def ldl_factor_ex(input: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """The compact LDL factors of symmetric (or Hermitian) matrices, pivots, and as `info` the first zero of D or 0."""
    square(input, "torch.linalg.ldl_factor_ex")
    kernel_dtype(input, "torch.linalg.ldl_factor_ex", "ldl_factor_kernel_cpu")
    factors, pivots, info = rows.ldl_factor(input, hermitian)
    if check_errors:
        _check_ldl(info, "torch.linalg.ldl_factor_ex")
    return result("linalg_ldl_factor_ex", LD=factors, pivots=pivots, info=info)


def _check_ldl(info: Any, name: str) -> None:
    fail_where(info, name, lambda code: f"D[{code},{code}] is zero, the matrix is singular.", LinAlgError)


@linalg
def ldl_factor(input: Any, *, hermitian: bool = False) -> Any:
    """The compact LDL factors of symmetric (or Hermitian) matrices, and their pivots."""
    factors, pivots, info = ldl_factor_ex(input, hermitian=hermitian)
    _check_ldl(info, "torch.linalg.ldl_factor")
    return result("linalg_ldl_factor", LD=factors, pivots=pivots)


def check_reflectors(input: Any, tau: Any, name: str) -> None:
    """What Householder reflectors and their factors must be."""
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if tau.dtype != input.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {_C.type_name(tau.dtype)} does not match input dtype {_C.type_name(input.dtype)}"
        )


def reflect(input: Any, tau: Any, x: Any, transposed: bool) -> Any:
    """Q x, or Q^H x, for Q = H_1 H_2 ... H_k with H_i = I - tau_i v_i v_i^H, one reflector after the other."""
    m, k = input.shape[-2], tau.shape[-1]
    unit = input[..., :k].tril(-1) + ROWS["eye"].call(m, k, dtype=input.dtype, device=input.device)
    factors = tau.conj() if transposed and tau.is_complex() else tau
    for i in range(k) if transposed else range(k - 1, -1, -1):
        v = unit[..., i : i + 1]
        x = x - (factors[..., i, None, None] * v) @ (rows.adjoint(v) @ x)
    return x


@linalg(out="castable")
@autocast("float32", "")
@grad_fn("LinalgHouseholderProductBackward0")
def householder_product(input: Any, tau: Any) -> Tensor:
    """The first columns of the product of the Householder reflectors that `torch.geqrf` gives."""
    check_reflectors(input, tau, "torch.linalg.householder_product")
    kernel_dtype(input, "torch.linalg.householder_product", "orgqr_cpu")
    eye = ROWS["eye"].call(*input.shape[-2:], dtype=input.dtype, device=input.device)
    if not tau.shape[-1]:
        return input.clone().copy_(eye)
    return reflect(input, tau, eye.expand(tuple(input.shape)), False)
