"""Approximations of low rank, and a few eigenpairs of large matrices."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor import linalg as la
from minitensor.composite.registry import composite
from minitensor.ops import ROWS
from minitensor.ops.linalg import adjoint

__all__: list[str] = []

matmul = ROWS["matmul"].call


def _gaussian(*size: int, like: Any) -> Any:
    from minitensor import randn

    return randn(*size, dtype=like.dtype, device=like.device)


def _range(a: Any, q: int, niter: int, m: Any = None) -> Any:
    """An orthonormal basis that nearly spans the columns of a (less m): subspace iteration from a random start.

    Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53 (2011), algorithm 4.4.
    """

    def times(x: Any) -> Any:
        return matmul(a, x) if m is None else matmul(a, x) - matmul(m, x)

    def back(x: Any) -> Any:
        return matmul(adjoint(a), x) if m is None else matmul(adjoint(a), x) - matmul(adjoint(m), x)

    basis = la.qr(times(_gaussian(a.shape[-1], q, like=a))).Q
    for _ in range(niter):
        basis = la.qr(times(la.qr(back(basis)).Q)).Q
    return basis


@composite(method=False)
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Any, Any, Any]:
    """U, S and V of the q largest singular values of A, or of A - M, approximately."""
    for name, place, value in (("A", 1, A), ("M", 4, M)):
        if not isinstance(value, _C.Tensor) and not (name == "M" and value is None):
            raise TypeError(
                f"svd_lowrank(): argument '{name}' (position {place}) must be Tensor, not {type(value).__name__}"
            )
    rank = 6 if q is None else q
    a, mean = A, None if M is None else M.expand(tuple(A.shape))
    wide = A.shape[-2] < A.shape[-1]
    if wide:
        a, mean = adjoint(A), None if mean is None else adjoint(mean)
    basis = _range(a, rank, 2 if niter is None else niter, mean)
    small = matmul(adjoint(basis), a)
    if mean is not None:
        small = small - matmul(adjoint(basis), mean)
    u, s, vh = la.svd(small, full_matrices=False)
    u, v = matmul(basis, u), adjoint(vh)
    return (v, s, u) if wide else (u, s, v)


@composite(method=False)
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Any, Any, Any]:
    """U, S and V of the q largest singular values of A, less the mean of its rows if `center`."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not (q >= 0 and q <= min(m, n)):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise ValueError(f"input must have floating-point dtype. Got {A.dtype}")
    centered = A - A.mean(dim=(-2,), keepdim=True) if center else A
    return svd_lowrank(centered, q, niter)


@composite(method=False)
def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Any, Any]:
    """The k largest (or smallest) eigenvalues and eigenvectors of symmetric A x = lambda B x.

    Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate gradient
    method", SIAM J. Sci. Comput. 23 (2001), with orthonormal bases; `iK` is the preconditioner, `X` the start of n
    columns, `tol` bounds the relative residual. The gradient is that of the eigenvalue problem at the solution.
    `method` and the `ortho_*` parameters choose between variants in PyTorch; here there is one.
    """
    size = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    columns = k if n is None else n
    columns = columns if X is None else X.shape[-1]
    if size < 3 * columns:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x the number of "
            f"requested eigenpairs (={columns})"
        )
    wanted = largest is None or largest
    steps = -1 if niter is None else niter
    bound = tol if tol is not None else (2.0**-23 if A.dtype == _C.float32 else 2.0**-52) ** 0.5
    lead = tuple(A.shape[:-2])
    start = X if X is not None else _gaussian(*lead, size, columns, like=A)
    from minitensor.autograd import no_grad

    with no_grad():
        values, vectors = _iterate(
            A.detach(), B, start.detach(), iK, steps if steps >= 0 else 1000, bound, wanted, tracker
        )
    values, vectors = values[..., :k], vectors[..., :k]
    if _C.is_recorded(A, B):
        return _differentiable(A, B, k, wanted)
    return values, vectors


def _differentiable(A: Any, B: Any, k: int, largest: bool) -> tuple[Any, Any]:
    """The pairs as functions of A and B, by all of its eigenvalues."""
    sign = -1.0 if largest else 1.0
    if B is None:
        values, vectors = la.eigh(A * sign)
    else:
        lower = la.cholesky(B)
        half = la.solve_triangular(lower, A, upper=False)
        values, vectors = la.eigh(la.solve_triangular(adjoint(lower), half, upper=True, left=False) * sign)
        vectors = la.solve_triangular(adjoint(lower), vectors, upper=True)
    return values[..., :k] * sign, vectors[..., :k]


def _orthonormal(basis: Any, b: Any) -> Any:
    """The same span with basis^T B basis = I."""
    q = la.qr(basis).Q
    if b is None:
        return q
    lower = la.cholesky(matmul(adjoint(q), matmul(b, q)))
    return la.solve_triangular(adjoint(lower), q, upper=True, left=False)


def _iterate(
    a: Any, b: Any, x: Any, precondition: Any, steps: int, bound: float, largest: bool, tracker: Any
) -> tuple[Any, Any]:
    columns, sign = x.shape[-1], -1.0 if largest else 1.0
    norm_a = la.matrix_norm(a)[..., None]
    basis = _orthonormal(x, b)
    for step_number in range(steps + 1):
        projected = matmul(adjoint(basis), matmul(a, basis))
        # Ascending; of the negative, the largest come first.
        values, turn = la.eigh((projected + adjoint(projected)) * (0.5 * sign))
        values = values[..., :columns] * sign
        old, x = basis[..., :columns], matmul(basis, turn[..., :columns])
        bx = x if b is None else matmul(b, x)
        residual = matmul(a, x) - bx * values.unsqueeze(-2)
        size = la.vector_norm(residual, dim=-2)
        if tracker is not None:
            tracker(values, x, residual)
        if step_number == steps or bool((size <= bound * (norm_a + values.abs())).all()):
            break
        step = residual if precondition is None else matmul(precondition, residual)
        # The search space: the current vectors, the residuals and the step that led here.
        parts = [x, step]
        if step_number > 0:
            parts.append(x - matmul(old, matmul(adjoint(old), bx)))
        basis = _orthonormal(ROWS["cat"].call(parts, -1), b)
    return values, x
