"""Linear algebra: kernels through LAPACK, gradients through ops.

The formulas: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008); Murray, "Differentiation of the Cholesky decomposition" (2016); Townsend, "Differentiating the singular value
decomposition" (2016); Seeger et al., "Auto-differentiating linear algebra" (2017); Golub and Pereyra, "The
differentiation of pseudo-inverses" (1973). A complex gradient is the conjugate one: dL = Re tr(g^H dA).

The rows are private: `minitensor.linalg` checks arguments, reports failures and names results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

from minitensor import _C
from minitensor._import.lazy import LazyModule
from minitensor.ops.library import lapack, shapes
from minitensor.ops.library.interruptible import interruptible
from minitensor.ops.library.threads import for_matrices
from minitensor.ops.row import ROWS, opaque, underived

np: Any = LazyModule("numpy")

__all__: list[str] = []

_WHY = "it runs in a library (LAPACK)"
_IN_ORDER = "each row of a triangular system needs those before it"
_DTYPES = {"float32", "float64", "complex64", "complex128"}


class LinAlgError(RuntimeError):
    """A computation failed because of the values of a matrix: it is singular, or not positive-definite, ..."""


LinAlgError.__module__ = "minitensor.linalg"


def adjoint(x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return x.mT.conj() if x.is_complex() else x.mT


def _of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a row: tensors become arrays for `function`, and its arrays tensors."""

    def run(*arguments: Any) -> Any:
        given = [a.numpy() if isinstance(a, _C.Tensor) else a for a in arguments]
        try:
            with for_matrices(max((n for a in given if isinstance(a, np.ndarray) for n in a.shape[-2:]), default=0)):
                found = interruptible(_quietly(function), *given) if _takes_long(given) else _quietly(function)(*given)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(str(error)) from None
        made = tuple(
            _C.from_numpy(np.require(a, requirements=["C", "W", "O"]))
            for a in (found if isinstance(found, tuple) else (found,))
        )
        return made if isinstance(found, tuple) else made[0]

    return run


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without NumPy's warnings."""

    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return run


def _takes_long(arguments: list[Any]) -> bool:
    """Whether a cubic algorithm needs more than about a tenth of a second for one of them."""
    return any(isinstance(a, np.ndarray) and a.ndim > 1 and a.size * max(a.shape[-2:]) > 1 << 28 for a in arguments)


def _row(
    schema: str, doc: str, kernel: Callable[..., Any], shape: Callable[..., Any], vjp: Any = None, **options: Any
) -> Any:
    """A row whose kernel is for arrays."""
    return _of_tensors(schema, doc, _of_arrays(kernel), shape, vjp, why=_WHY, **options)


def _of_tensors(
    schema: str,
    doc: str,
    kernel: Callable[..., Any],
    shape: Callable[..., Any],
    vjp: Any,
    why: str = _IN_ORDER,
    dtypes: Collection[str] | None = _DTYPES,
    called: str = "",
) -> Any:
    """A row whose kernel is for tensors, with a first operand of these dtypes; None: any."""
    name = schema[: schema.index("(")]

    def checked(rule: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            if dtypes is not None and arguments[0].dtype.name not in dtypes:
                raise NotImplementedError(f"{name} is not implemented for {arguments[0].dtype.name}")
            return rule(*arguments)

        return run

    return opaque(schema, doc, why=why, kernel=checked(kernel), shape=checked(shape), vjp=vjp, called=called)


def _tril(x: Any, diagonal: int = 0) -> Any:
    return ROWS["tril"].call(x, diagonal)


def _triu(x: Any, diagonal: int = 0) -> Any:
    return ROWS["triu"].call(x, diagonal)


def _eye(n: int, like: Any) -> Any:
    return ROWS["eye"].call(n, dtype=like.dtype, device=like.device)


def _real(x: Any) -> Any:
    return x.real if x.is_complex() else x


def _like(g: Any, a: Any) -> Any:
    """The gradient of a real operand is the real part of what a complex function gives."""
    return g.real if g.is_complex() and not a.is_complex() else g


def _halved_diagonal(x: Any) -> Any:
    """The matrix with half its diagonal."""
    n = x.shape[-1]
    real = _real(x)
    return x * (1 - 0.5 * ROWS["eye"].call(n, dtype=real.dtype, device=x.device))


def _without_diagonal(x: Any) -> Any:
    return x * (1 - ROWS["eye"].call(x.shape[-1], dtype=_real(x).dtype, device=x.device))


def _diagonal_matrix(d: Any) -> Any:
    return d.unsqueeze(-1) * _eye(d.shape[-1], d)


def _quotient(x: Any, differences: Any) -> Any:
    """x / differences, and zero where both are, as on the diagonal; linear in x, as what goes forward needs."""
    nothing = (x == 0).logical_and(differences == 0)
    return ROWS["where"].call(nothing, x * 0, x / _nonzero(nothing, differences))


def _nonzero(nothing: Any, differences: Any) -> Any:
    return ROWS["where"].call(nothing, differences * 0 + 1, differences)


# ---- Cholesky


def _cholesky_kernel(a: Any, upper: bool) -> Any:
    if not upper:
        return lapack.cholesky(a)
    factors, info = lapack.cholesky(lapack.adjoint(a))
    return lapack.adjoint(factors), info


def _cholesky_vjp(g: Any, out: Any, _a: Any, upper: bool) -> Any:
    factor, g = (adjoint(out[0]), adjoint(g[0])) if upper else (out[0], g[0])
    inner = _tril(adjoint(factor) @ g)
    inner = (inner + adjoint(_tril(inner, -1))) * 0.5
    left = solve_triangular(adjoint(factor), inner, True, True, False)
    return solve_triangular(factor, left, False, False, False)


cholesky = _row(
    "_linalg_cholesky(Tensor A, bool upper)",
    "The factors of A = L L^H, and where the factorization failed, or 0.",
    _cholesky_kernel,
    shapes.with_info,
    _cholesky_vjp,
)


# ---- triangular systems


def _solve_triangular_vjp(
    g: Any, out: Any, a: Any, _b: Any, upper: bool, left: bool, unitriangular: bool
) -> tuple[Any, Any]:
    gb = solve_triangular(adjoint(a), g, not upper, left, unitriangular)

    def ga() -> Any:
        full = -(gb @ adjoint(out)) if left else -(adjoint(out) @ gb)
        return _triu(full, int(unitriangular)) if upper else _tril(full, -int(unitriangular))

    return ga, gb


solve_triangular = opaque(
    "_linalg_solve_triangular(Tensor A, Tensor B, bool upper, bool left, bool unitriangular)",
    "The X with A X = B, or X A = B, for a triangular A whose other triangle is not read.",
    why=_IN_ORDER,
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


cholesky_solve = _of_tensors(
    "_cholesky_solve(Tensor B, Tensor factor, bool upper)",
    "The X with A X = B for A's Cholesky factor.",
    _by_cholesky,
    shapes.solution_by_factor,
    _cholesky_solve_vjp,
)


def _cholesky_inverse_kernel(factor: Any, upper: bool) -> Any:
    return _by_cholesky(_eye(factor.shape[-1], factor), factor, upper)


cholesky_inverse = _of_tensors(
    "_cholesky_inverse(Tensor factor, bool upper)",
    "The inverse of A from its Cholesky factor.",
    _cholesky_inverse_kernel,
    shapes.like,
    lambda g, out, factor, upper: -_of_factor(out @ g @ out, factor, upper),
)


# ---- LU


def _lu_vjp(g: Any, out: Any, _a: Any) -> Any:
    factors, pivots, _ = out
    m, n = factors.shape[-2:]
    k = min(m, n)
    g = g[0]
    square = factors[..., :k, :k]
    lower, upper = _tril(square, -1) + _eye(k, square), _triu(square)
    g_lower, g_upper = _tril(g[..., :k, :k], -1), _triu(g[..., :k, :k])
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
    inner = solve_triangular(adjoint(lower), _tril(by_lower, -1) + _triu(by_upper), True, True, True)
    inner = solve_triangular(adjoint(upper), inner, False, False, False)
    if more is not None:
        inner = ROWS["cat"].call([inner, more], -1 if n > k else -2)
    return permutation_matrix(pivots, m, inner) @ inner


lu_factor = _row(
    "_linalg_lu_factor(Tensor A)",
    "L and U of A = P L U in one matrix, the rows that were swapped, and the first zero pivot, or 0.",
    lapack.lu_factor,
    shapes.lu_factor,
    _lu_vjp,
)


def _permutation_kernel(pivots: Any, m: int) -> Any:
    return np.swapaxes(np.eye(m, dtype=np.float64)[lapack.permutation(pivots, m)], -1, -2)


_permutation = _row(
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


# ---- inverses and systems


def _inv_vjp(g: Any, out: Any, _a: Any) -> Any:
    back = adjoint(out[0])
    return -(back @ g[0] @ back)


inv = _row(
    "_linalg_inv(Tensor A)",
    "The inverses, and the first zero pivot of each matrix, or 0.",
    lapack.inverse,
    shapes.with_info,
    _inv_vjp,
)


def _solve_vjp(g: Any, out: Any, a: Any, _b: Any) -> tuple[Any, Any]:
    gb = solve(adjoint(a), g[0])[0]
    return lambda: -(gb @ adjoint(out[0])), gb


solve = _row(
    "_linalg_solve(Tensor A, Tensor B)",
    "The X with A X = B, and the first zero pivot of each A, or 0.",
    lapack.solve,
    shapes.solution_with_info,
    _solve_vjp,
)


def _pinv_vjp(g: Any, out: Any, a: Any, _atol: Any, _rtol: Any, hermitian: bool) -> tuple[Any, None, None]:
    p, ph, gh = out, adjoint(out), adjoint(g)
    ga = -(ph @ g @ ph)
    ga = ga + (gh - a @ (p @ gh)) @ (p @ ph) + (ph @ p) @ (gh - (gh @ p) @ a)
    return ga, None, None


pinv = _row(
    "_linalg_pinv(Tensor A, Tensor atol, Tensor rtol, bool hermitian)",
    "The pseudo-inverse, without singular values up to max(atol, rtol * the largest).",
    lapack.pinv,
    shapes.pseudo_inverse,
    _pinv_vjp,
)


def _lstsq_vjp(g: Any, out: Any, a: Any, b: Any, _rcond: Any) -> tuple[Any, Any]:
    real = _real(a).dtype
    zero = ROWS["full"].call((), 0.0, dtype=real)
    inverse = pinv(a, zero, zero + max(a.shape[-2:]) * _epsilon(real), False)
    gb = adjoint(inverse) @ g[0]
    return lambda: _pinv_vjp(g[0] @ adjoint(b), inverse, a, None, None, False)[0], gb


def _epsilon(dtype: Any) -> float:
    return float(np.finfo(dtype.name).eps)


lstsq = _row(
    "_linalg_lstsq(Tensor A, Tensor B, float? rcond)",
    "The X that minimizes ||A X - B||, of minimal norm, and the rank of A.",
    lapack.lstsq,
    shapes.least_squares,
    _lstsq_vjp,
)


# ---- determinants


def _cofactors(a: Any) -> Any:
    """The gradient of det(A), conjugate, by its singular values: also where A is singular."""
    u, s, vh = svd(a, False, True)
    n = s.shape[-1]
    ones = _eye(n, s)
    # Of each singular value, the product of the others.
    others = (s.unsqueeze(-2) * (1 - ones) + ones).prod(-1)
    sign = (det(u) * det(vh)).conj() if a.is_complex() else det(u) * det(vh)
    return sign[..., None, None] * ((u * others.unsqueeze(-2)) @ vh)


def _det_vjp(g: Any, out: Any, a: Any) -> Any:
    if bool(_C.all_slices(out == 0).any()):
        return g[..., None, None] * _cofactors(a)
    value = out.conj() if a.is_complex() else out
    return (g * value)[..., None, None] * adjoint(inv(a)[0])


det = _row(
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


slogdet = _row(
    "_linalg_slogdet(Tensor A)",
    "The sign of the determinant, and the logarithm of its absolute value.",
    lambda a: tuple(np.linalg.slogdet(a)),
    shapes.sign_and_logarithm,
    _slogdet_vjp,
)


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
    inner = _without_diagonal(inner - adjoint(inner)) * 0.5
    inner = _quotient(inner, values.unsqueeze(-2) - values.unsqueeze(-1))
    return v @ (inner + _diagonal_matrix(g[0])) @ adjoint(v)


eigh = _row(
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
        return _like(solve(vh, g[0].unsqueeze(-1) * vh)[0], a)
    along = vh @ g[1]
    # Eigenvectors have length one: what would change it does not count.
    along = along - (vh @ v) * along.diagonal(0, -2, -1).real.unsqueeze(-2)
    inner = _quotient(_without_diagonal(along), (values.unsqueeze(-2) - values.unsqueeze(-1)).conj())
    return _like(solve(vh, (inner + _diagonal_matrix(g[0])) @ vh)[0], a)


eig = _row(
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
    of_u = _quotient(_without_diagonal(along_u - adjoint(along_u)), differences)
    of_v = _quotient(_without_diagonal(along_v - adjoint(along_v)), differences)
    inner = of_u * s.unsqueeze(-2) + s.unsqueeze(-1) * of_v + _diagonal_matrix(gs)
    if a.is_complex():
        # The phase of each pair of vectors is free; half of each part's change is shared.
        phase = (along_u - adjoint(along_u)).diagonal(0, -2, -1) * 0.5
        inner = inner + _diagonal_matrix(phase / s)
    result = u @ inner @ vh
    if m > k:
        rest = (gu - u @ along_u) / s.unsqueeze(-2)
        result = result + rest @ vh
    if n > k:
        rest = (gvh - (gvh @ v) @ vh) / s.unsqueeze(-1)
        result = result + u @ rest
    return result


svd = _row(
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
    inner = _triu(gr @ adjoint(r) - adjoint(q) @ gq)
    inner = inner + adjoint(inner)
    # The diagonal was counted twice, and of a complex one only the real part counts.
    inner = _halved_diagonal(inner)
    found = solve_triangular(adjoint(r), gq + q @ inner, False, False, False)
    return found if more is None else ROWS["cat"].call([found, more], -1)


def _qr_kernel(a: Any, complete: bool) -> Any:
    return tuple(np.linalg.qr(a, "complete" if complete else "reduced"))


qr = _row(
    "_linalg_qr(Tensor A, bool complete)",
    "Q with orthonormal columns, and upper triangular R, of A = Q R.",
    _qr_kernel,
    shapes.qr,
    _qr_vjp,
)


def _geqrf_kernel(a: Any) -> Any:
    reflectors, tau = np.linalg.qr(a, "raw")
    return np.swapaxes(reflectors, -1, -2), tau


geqrf = _row(
    "_geqrf(Tensor input)",
    "R, and below it the Householder reflectors of Q; their factors.",
    _geqrf_kernel,
    shapes.geqrf,
    underived("geqrf"),
)


# ---- LDL


ldl_factor = _row(
    "_linalg_ldl_factor(Tensor A, bool hermitian)",
    "L and D of A = L D L^T (or L^H) in one matrix, LAPACK's pivots, and the first zero pivot, or 0.",
    lapack.ldl_factor,
    shapes.ldl_factor,
    underived("linalg_ldl_factor_ex"),
)
ldl_solve = _row(
    "_linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian)",
    "The X with A X = B for A's LDL factors.",
    lapack.ldl_solve,
    shapes.solution_by_pivots,
    underived("linalg_ldl_solve"),
)


# ---- the exponential


def _matrix_exp_vjp(g: Any, _out: Any, a: Any) -> Any:
    # The derivative along g is a block of the exponential of a block matrix (Van Loan, 1978).
    back, n = adjoint(a), a.shape[-1]
    top = ROWS["cat"].call([back, g], -1)
    bottom = ROWS["cat"].call([back * 0, back], -1)
    return matrix_exp(ROWS["cat"].call([top, bottom], -2))[..., :n, n:]


matrix_exp = _row(
    "_linalg_matrix_exp(Tensor A)", "The exponential of each matrix.", lapack.matrix_exp, shapes.like, _matrix_exp_vjp
)
