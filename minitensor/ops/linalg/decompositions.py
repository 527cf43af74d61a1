"""Decompositions of a matrix: Cholesky's, LU, QR, LDL, eigenvalues, singular values."""

from __future__ import annotations

from typing import Any, Literal

from minitensor._import.lazy import LazyModule
from minitensor.ops.library import lapack, shapes
from minitensor.ops.linalg.matrix_row import (
    adjoint,
    diagonal_matrix,
    eye,
    halved_diagonal,
    like_operand,
    matrix_row,
    quotient,
    tril,
    triu,
    without_diagonal,
)
from minitensor.ops.linalg.solvers import solve, solve_triangular
from minitensor.ops.row import ROWS, underived

__all__: list[str] = []

np: Any = LazyModule("numpy")


# ---- Cholesky


def _cholesky_kernel(a: Any, upper: bool) -> Any:
    if not upper:
        return lapack.cholesky(a)
    factors, info = lapack.cholesky(lapack.adjoint(a))
    return lapack.adjoint(factors), info


def _cholesky_vjp(g: Any, out: Any, _a: Any, upper: bool) -> Any:
    factor, g = (adjoint(out[0]), adjoint(g[0])) if upper else (out[0], g[0])
    inner = tril(adjoint(factor) @ g)
    inner = (inner + adjoint(tril(inner, -1))) * 0.5
    left = solve_triangular(adjoint(factor), inner, True, True, False)
    return solve_triangular(factor, left, False, False, False)


cholesky = matrix_row(
    "_linalg_cholesky(Tensor A, bool upper)",
    "The factors of A = L L^H, and where the factorization failed, or 0.",
    _cholesky_kernel,
    shapes.with_info,
    _cholesky_vjp,
    grad_fn="LinalgCholeskyExBackward0",
)


# ---- LU


def _lu_vjp(g: Any, out: Any, _a: Any) -> Any:
    factors, pivots, _ = out
    m, n = factors.shape[-2:]
    k = min(m, n)
    g = g[0]
    square = factors[..., :k, :k]
    lower, upper = tril(square, -1) + eye(k, square), triu(square)
    g_lower, g_upper = tril(g[..., :k, :k], -1), triu(g[..., :k, :k])
    by_lower, by_upper = adjoint(lower) @ g_lower, g_upper @ adjoint(upper)
    more = None
    if n > k:  # the columns of A beyond the square are L times those of U
        right = g[..., :, k:]
        by_lower = by_lower - right @ adjoint(factors[..., :, k:])
        more = solve_triangular(adjoint(lower), right, True, True, True)
    if m > k:  # and the rows beyond it those of L times U
        below = g[..., k:, :]
        by_upper = by_upper - adjoint(factors[..., k:, :]) @ below
        more = solve_triangular(adjoint(upper), below, False, False, False)
    inner = solve_triangular(adjoint(lower), tril(by_lower, -1) + triu(by_upper), True, True, True)
    inner = solve_triangular(adjoint(upper), inner, False, False, False)
    if more is not None:
        inner = ROWS["cat"].call([inner, more], -1 if n > k else -2)
    return permutation_matrix(pivots, m, inner) @ inner


lu_factor = matrix_row(
    "_linalg_lu_factor(Tensor A)",
    "L and U of A = P L U in one matrix, the rows that were swapped, and the first zero pivot, or 0.",
    lapack.lu_factor,
    shapes.lu_factor,
    _lu_vjp,
    grad_fn="LinalgLuFactorExBackward0",
)


def _permutation_kernel(pivots: Any, m: int) -> Any:
    return np.swapaxes(np.eye(m, dtype=np.float64)[lapack.permutation(pivots, m)], -1, -2)


_permutation = matrix_row(
    "_lu_permutation(Tensor pivots, int m)",
    "The matrix P of A = P L U from the rows that were swapped.",
    _permutation_kernel,
    shapes.permutation,
    dtypes=None,
    called="lu_unpack",
)


def permutation_matrix(pivots: Any, m: int, like: Any) -> Any:
    """The matrix P of A = P L U, in the dtype of `like`."""
    return _permutation(pivots, m).to(like.dtype)


# ---- eigenvalues


def _eigh_kernel(a: Any, upper: bool, vectors: bool) -> Any:
    side: Literal["U", "L"] = "U" if upper else "L"
    if not vectors:
        return np.linalg.eigvalsh(a, side), np.zeros((0,), a.dtype)
    return tuple(np.linalg.eigh(a, side))


def _eigh_vjp(g: Any, out: Any, a: Any, upper: bool, vectors: bool) -> Any:
    values, v = out if vectors else eigh(a, upper, True)
    if not vectors:
        return (v * g[0].unsqueeze(-2)) @ adjoint(v)
    inner = adjoint(v) @ g[1]
    # What a Hermitian matrix can change is the skew-Hermitian part.
    inner = without_diagonal(inner - adjoint(inner)) * 0.5
    inner = quotient(inner, values.unsqueeze(-2) - values.unsqueeze(-1))
    return v @ (inner + diagonal_matrix(g[0])) @ adjoint(v)


eigh = matrix_row(
    "_linalg_eigh(Tensor A, bool upper, bool vectors)",
    "The eigenvalues of Hermitian matrices, ascending, and their eigenvectors.",
    _eigh_kernel,
    shapes.eigh,
    _eigh_vjp,
)


def _eig_kernel(a: Any, vectors: bool) -> Any:
    dtype = np.result_type(a.dtype, np.complex64)
    if not vectors:
        return np.linalg.eigvals(a).astype(dtype), np.zeros((0,), dtype)
    values, v = np.linalg.eig(a)
    return values.astype(dtype), v.astype(dtype)


def _eig_vjp(g: Any, out: Any, a: Any, vectors: bool) -> Any:
    values, v = out if vectors else eig(a, True)
    vh = adjoint(v)
    if not vectors:
        return like_operand(solve(vh, g[0].unsqueeze(-1) * vh)[0], a)
    along = vh @ g[1]
    # Eigenvectors have length one: what would change it does not count.
    along = along - (vh @ v) * along.diagonal(0, -2, -1).real.unsqueeze(-2)
    inner = quotient(without_diagonal(along), (values.unsqueeze(-2) - values.unsqueeze(-1)).conj())
    return like_operand(solve(vh, (inner + diagonal_matrix(g[0])) @ vh)[0], a)


eig = matrix_row(
    "_linalg_eig(Tensor A, bool vectors)",
    "The eigenvalues, complex, and the eigenvectors.",
    _eig_kernel,
    shapes.eig,
    _eig_vjp,
)


# ---- singular values


def _svd_kernel(a: Any, full_matrices: bool, vectors: bool) -> Any:
    if vectors:
        return tuple(np.linalg.svd(a, full_matrices))
    nothing = np.zeros((0,), a.dtype)
    return nothing, np.linalg.svd(a, compute_uv=False), nothing


def _svd_vjp(g: Any, out: Any, a: Any, full_matrices: bool, vectors: bool) -> Any:
    if not vectors:
        u, _, vh = svd(a, False, True)
        return (u * g[1].unsqueeze(-2)) @ vh
    u, s, vh = out
    gu, gs, gvh = g
    m, n = a.shape[-2:]
    k = min(m, n)
    if full_matrices:
        u, gu, vh, gvh = u[..., :k], gu[..., :k], vh[..., :k, :], gvh[..., :k, :]
    v, gv, uh = adjoint(vh), adjoint(gvh), adjoint(u)
    along_u, along_v = uh @ gu, vh @ gv
    squares = s * s
    differences = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    of_u = quotient(without_diagonal(along_u - adjoint(along_u)), differences)
    of_v = quotient(without_diagonal(along_v - adjoint(along_v)), differences)
    inner = of_u * s.unsqueeze(-2) + s.unsqueeze(-1) * of_v + diagonal_matrix(gs)
    if a.is_complex():
        # The phase of each pair of vectors is free; half of each part's change is shared.
        phase = (along_u - adjoint(along_u)).diagonal(0, -2, -1) * 0.5
        inner = inner + diagonal_matrix(phase / s)
    result = u @ inner @ vh
    if m > k:
        rest = (gu - u @ along_u) / s.unsqueeze(-2)
        result = result + rest @ vh
    if n > k:
        rest = (gvh - (gvh @ v) @ vh) / s.unsqueeze(-1)
        result = result + u @ rest
    return result


svd = matrix_row(
    "_linalg_svd(Tensor A, bool full_matrices, bool vectors)",
    "U, the singular values in descending order, and V^H, of A = U diag(S) V^H.",
    _svd_kernel,
    shapes.svd,
    _svd_vjp,
)


# ---- QR


def _qr_vjp(g: Any, out: Any, _a: Any, complete: bool) -> Any:
    q, r = out
    gq, gr = g
    m, n = q.shape[-2], r.shape[-1]
    if complete and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    more = None
    if n > m:  # the columns beyond the square are Q times those of R
        right, g_right = r[..., m:], gr[..., m:]
        more = q @ g_right
        gq = gq + (q @ right) @ adjoint(g_right)
        r, gr = r[..., :m], gr[..., :m]
    inner = triu(gr @ adjoint(r) - adjoint(q) @ gq)
    inner = inner + adjoint(inner)
    # The diagonal was counted twice, and of a complex one only the real part counts.
    inner = halved_diagonal(inner)
    found = solve_triangular(adjoint(r), gq + q @ inner, False, False, False)
    return found if more is None else ROWS["cat"].call([found, more], -1)


def _qr_kernel(a: Any, complete: bool) -> Any:
    return tuple(np.linalg.qr(a, "complete" if complete else "reduced"))


qr = matrix_row(
    "_linalg_qr(Tensor A, bool complete)",
    "Q with orthonormal columns, and upper triangular R, of A = Q R.",
    _qr_kernel,
    shapes.qr,
    _qr_vjp,
)


def _geqrf_kernel(a: Any) -> Any:
    reflectors, tau = np.linalg.qr(a, "raw")
    return np.swapaxes(reflectors, -1, -2), tau


geqrf = matrix_row(
    "_geqrf(Tensor input)",
    "R, and below it the Householder reflectors of Q; their factors.",
    _geqrf_kernel,
    shapes.geqrf,
    underived("geqrf"),
)


# ---- LDL


ldl_factor = matrix_row(
    "_linalg_ldl_factor(Tensor A, bool hermitian)",
    "L and D of A = L D L^T (or L^H) in one matrix, LAPACK's pivots, and the first zero pivot, or 0.",
    lapack.ldl_factor,
    shapes.ldl_factor,
    underived("linalg_ldl_factor_ex"),
)
