"""Determinants and the exponential of a matrix."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._import.lazy import LazyModule
from minitensor.ops.library import lapack, shapes
from minitensor.ops.linalg.decompositions import svd
from minitensor.ops.linalg.matrix_row import adjoint, eye, matrix_row
from minitensor.ops.linalg.solvers import inv
from minitensor.ops.row import ROWS

__all__: list[str] = []

np: Any = LazyModule("numpy")


# ---- determinants


def _cofactors(a: Any) -> Any:
    """The gradient of det(A), conjugate, by its singular values: also where A is singular."""
    u, s, vh = svd(a, False, True)
    n = s.shape[-1]
    ones = eye(n, s)
    # Of each singular value, the product of the others.
    others = (s.unsqueeze(-2) * (1 - ones) + ones).prod(-1)
    sign = (det(u) * det(vh)).conj() if a.is_complex() else det(u) * det(vh)
    return sign[..., None, None] * ((u * others.unsqueeze(-2)) @ vh)


def _det_vjp(g: Any, out: Any, a: Any) -> Any:
    if bool(_C.all_slices(out == 0).any()):
        return g[..., None, None] * _cofactors(a)
    value = out.conj() if a.is_complex() else out
    return (g * value)[..., None, None] * adjoint(inv(a)[0])


det = matrix_row(
    "_linalg_det(Tensor A)",
    "The determinant of each matrix.",
    lambda matrix: np.linalg.det(matrix),
    shapes.number,
    _det_vjp,
)


def _slogdet_vjp(g: Any, out: Any, a: Any) -> Any:
    factor = g[1]
    if a.is_complex():
        turned = (g[0].conj() * out[0]).imag
        factor = ROWS["complex"].call(factor, -turned)
    return factor[..., None, None] * adjoint(inv(a)[0])


slogdet = matrix_row(
    "_linalg_slogdet(Tensor A)",
    "The sign of the determinant, and the logarithm of its absolute value.",
    lambda a: tuple(np.linalg.slogdet(a)),
    shapes.sign_and_logarithm,
    _slogdet_vjp,
)


# ---- the exponential


def _matrix_exp_vjp(g: Any, _out: Any, a: Any) -> Any:
    # The derivative along g is a block of the exponential of a block matrix (Van Loan, 1978).
    back, n = adjoint(a), a.shape[-1]
    top = ROWS["cat"].call([back, g], -1)
    bottom = ROWS["cat"].call([back * 0, back], -1)
    return matrix_exp(ROWS["cat"].call([top, bottom], -2))[..., :n, n:]


matrix_exp = matrix_row(
    "_linalg_matrix_exp(Tensor A)", "The exponential of each matrix.", lapack.matrix_exp, shapes.like, _matrix_exp_vjp
)
