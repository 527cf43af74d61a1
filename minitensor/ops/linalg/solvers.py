"""Linear systems and inverses."""

from __future__ import annotations

from typing import Any

from minitensor._import.lazy import LazyModule
from minitensor.ops.library import lapack, shapes
from minitensor.ops.linalg.matrix_row import IN_ORDER, adjoint, eye, matrix_row, real_part, tensor_row, tril, triu
from minitensor.ops.row import ROWS, opaque, underived

__all__: list[str] = []

np: Any = LazyModule("numpy")


# ---- triangular systems


def _solve_triangular_vjp(
    g: Any, out: Any, a: Any, _b: Any, upper: bool, left: bool, unitriangular: bool
) -> tuple[Any, Any]:
    gb = solve_triangular(adjoint(a), g, not upper, left, unitriangular)

    def ga() -> Any:
        full = -(gb @ adjoint(out)) if left else -(adjoint(out) @ gb)
        return triu(full, int(unitriangular)) if upper else tril(full, -int(unitriangular))

    return ga, gb


solve_triangular = opaque(
    "_linalg_solve_triangular(Tensor A, Tensor B, bool upper, bool left, bool unitriangular)",
    "The X with A X = B, or X A = B, for a triangular A whose other triangle is not read.",
    why=IN_ORDER,
    vjp=_solve_triangular_vjp,
)


# ---- systems by Cholesky factors


def _by_cholesky(b: Any, factor: Any, upper: bool) -> Any:
    lower = adjoint(factor) if upper else factor
    y = solve_triangular(lower, b, False, True, False)
    return solve_triangular(adjoint(lower), y, True, True, False)


def _of_factor(g: Any, factor: Any, upper: bool) -> Any:
    """The gradient of the factor of A from that of A; of both triangles, as PyTorch gives it."""
    g = g + adjoint(g)
    return factor @ g if upper else g @ factor


def _cholesky_solve_vjp(g: Any, out: Any, _b: Any, factor: Any, upper: bool) -> tuple[Any, Any]:
    gb = cholesky_solve(g, factor, upper)
    return gb, lambda: -_of_factor(gb @ adjoint(out), factor, upper)


cholesky_solve = tensor_row(
    "_cholesky_solve(Tensor B, Tensor factor, bool upper)",
    "The X with A X = B for A's Cholesky factor.",
    _by_cholesky,
    shapes.solution_by_factor,
    _cholesky_solve_vjp,
)


def _cholesky_inverse_kernel(factor: Any, upper: bool) -> Any:
    return _by_cholesky(eye(factor.shape[-1], factor), factor, upper)


cholesky_inverse = tensor_row(
    "_cholesky_inverse(Tensor factor, bool upper)",
    "The inverse of A from its Cholesky factor.",
    _cholesky_inverse_kernel,
    shapes.like,
    lambda g, out, factor, upper: -_of_factor(out @ g @ out, factor, upper),
)


# ---- inverses and systems


def _inv_vjp(g: Any, out: Any, _a: Any) -> Any:
    back = adjoint(out[0])
    return -(back @ g[0] @ back)


inv = matrix_row(
    "_linalg_inv(Tensor A)",
    "The inverses, and the first zero pivot of each matrix, or 0.",
    lapack.inverse,
    shapes.with_info,
    _inv_vjp,
    grad_fn="LinalgInvExBackward0",
)


def _solve_vjp(g: Any, out: Any, a: Any, _b: Any) -> tuple[Any, Any]:
    gb = solve(adjoint(a), g[0])[0]
    return lambda: -(gb @ adjoint(out[0])), gb


solve = matrix_row(
    "_linalg_solve(Tensor A, Tensor B)",
    "The X with A X = B, and the first zero pivot of each A, or 0.",
    lapack.solve,
    shapes.solution_with_info,
    _solve_vjp,
    grad_fn="LinalgSolveExBackward0",
)


def _pinv_vjp(g: Any, out: Any, a: Any, _atol: Any, _rtol: Any, hermitian: bool) -> tuple[Any, None, None]:
    p, ph, gh = out, adjoint(out), adjoint(g)
    ga = -(ph @ g @ ph)
    ga = ga + (gh - a @ (p @ gh)) @ (p @ ph) + (ph @ p) @ (gh - (gh @ p) @ a)
    return ga, None, None


pinv = matrix_row(
    "_linalg_pinv(Tensor A, Tensor atol, Tensor rtol, bool hermitian)",
    "The pseudo-inverse, without singular values up to max(atol, rtol * the largest).",
    lapack.pinv,
    shapes.pseudo_inverse,
    _pinv_vjp,
)


def _lstsq_vjp(g: Any, out: Any, a: Any, b: Any, _rcond: Any) -> tuple[Any, Any]:
    real = real_part(a).dtype
    zero = ROWS["full"].call((), 0.0, dtype=real)
    inverse = pinv(a, zero, zero + max(a.shape[-2:]) * _epsilon(real), False)
    gb = adjoint(inverse) @ g[0]
    return lambda: _pinv_vjp(g[0] @ adjoint(b), inverse, a, None, None, False)[0], gb


def _epsilon(dtype: Any) -> float:
    return float(np.finfo(dtype.name).eps)


lstsq = matrix_row(
    "_linalg_lstsq(Tensor A, Tensor B, float? rcond)",
    "The X that minimizes ||A X - B||, of minimal norm, and the rank of A.",
    lapack.lstsq,
    shapes.least_squares,
    _lstsq_vjp,
)
ldl_solve = matrix_row(
    "_linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian)",
    "The X with A X = B for A's LDL factors.",
    lapack.ldl_solve,
    shapes.solution_by_pivots,
    underived("linalg_ldl_solve"),
)
