"""Kernels of linear algebra: NumPy arrays in, NumPy arrays out, batched over leading dimensions.

What `numpy.linalg` has comes from there. LU factors and triangular solves, which it lacks, are blocked so that nearly
all of the work is in matrix products; solves that are ops of their own have a kernel in C++
(`kernels/cpu/linalg/triangular.cpp`). LDL factors come from SciPy, which is imported when one is asked for.
"""

from __future__ import annotations

from typing import Any

from minitensor._import.lazy import LazyModule

np: Any = LazyModule("numpy")

__all__: list[str] = []

Array = Any
# Columns that are factored, and rows that are solved, one by one between two matrix products.
_BLOCK = 32


def flat(a: Array) -> Array:
    """The batch dimensions as one."""
    return a.reshape((-1, *a.shape[-2:])) if a.size else a.reshape((int(np.prod(a.shape[:-2])), *a.shape[-2:]))


def adjoint(a: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return a.swapaxes(-1, -2).conj()


def _routine(dtype: Any, name: str) -> Any:
    """LAPACK's routine for a dtype, from SciPy; None if that is not installed."""
    try:
        from scipy.linalg import lapack
    except ImportError:
        return None
    letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[np.dtype(dtype).name]
    return getattr(lapack, f"{letter}{name}")


def lu_factor(a: Array) -> tuple[Array, Array, Array]:
    """L (unit lower) and U in one matrix, the rows that were swapped with (from 1), and the first zero pivot (or 0).

    By LAPACK where SciPy is installed; else Golub and Van Loan, "Matrix Computations", 4th ed., algorithm 3.4.1, in
    panels.
    """
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    x = flat(a).copy()
    k, rows = min(m, n), np.arange(len(x))
    pivots, info = np.zeros((len(x), k), np.int32), np.zeros(len(x), np.int32)
    routine = _routine(a.dtype, "getrf") if k else None
    if routine is not None:
        for i in range(len(x)):
            x[i], pivots[i], info[i] = routine(x[i])
        return x.reshape(a.shape), (pivots + 1).reshape((*batch, k)), info.reshape(batch)
    for start in range(0, k, _BLOCK):
        end = min(start + _BLOCK, k)
        for j in range(start, end):
            column = x[:, j:, j]
            # LAPACK compares |re| + |im|.
            size = np.abs(column.real) + np.abs(column.imag) if np.iscomplexobj(x) else np.abs(column)
            at = j + size.argmax(1)
            pivots[:, j] = at + 1
            moved = x[rows, at]
            x[rows, at] = x[:, j]
            x[:, j] = moved
            pivot = x[:, j, j]
            info[(pivot == 0) & (info == 0)] = j + 1
            x[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot).astype(x.dtype)[:, None]
            x[:, j + 1 :, j + 1 : end] -= x[:, j + 1 :, j, None] * x[:, j, None, j + 1 : end]
        if end < n:
            x[:, start:end, end:] = _substitute(x[:, start:end, start:end], x[:, start:end, end:], False, True)
            x[:, end:, end:] -= x[:, end:, start:end] @ x[:, start:end, end:]
    return x.reshape(a.shape), pivots.reshape((*batch, k)), info.reshape(batch)


def _substitute(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """The solution of a x = b for triangular a, by rows where it's small and by halves where it is not."""
    n = a.shape[-1]
    if n > _BLOCK:
        h = n // 2
        first, last = slice(0, h), slice(h, n)
        if upper:
            first, last = last, first
        x = np.empty_like(b)
        x[..., first, :] = _substitute(a[..., first, first], b[..., first, :], upper, unit)
        rest = b[..., last, :] - a[..., last, first] @ x[..., first, :]
        x[..., last, :] = _substitute(a[..., last, last], rest, upper, unit)
        return x
    x = b.copy()
    for i in range(n - 1, -1, -1) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        if known.start < known.stop:
            x[..., i, :] -= (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


def solve_triangular(a: Array, b: Array, upper: bool, left: bool, unit: bool) -> Array:
    """The x with a x = b, or x a = b, for a triangular a whose other triangle is not read."""
    if not left:
        return solve_triangular(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, True, unit).swapaxes(-1, -2)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    with np.errstate(all="ignore"):
        return _substitute(a, np.broadcast_to(b, (*batch, *b.shape[-2:])), upper, unit)


def permutation(pivots: Array, m: int) -> Array:
    """The rows of A in the order in which the factors have them, from the rows that were swapped (from 1)."""
    if pivots.size and not (pivots.min() >= 1 and pivots.max() <= m):
        raise RuntimeError(f"pivots must be between 1 and {m}, the rows of LU: are they what lu_factor gave?")
    count = int(np.prod(pivots.shape[:-1]))
    swaps = pivots.reshape((count, pivots.shape[-1]))
    order = np.tile(np.arange(m), (count, 1))
    rows = np.arange(len(order))
    for i in range(pivots.shape[-1]):
        at = swaps[:, i] - 1
        order[rows, i], order[rows, at] = order[rows, at].copy(), order[rows, i].copy()
    return order.reshape((*pivots.shape[:-1], m))


def inverse(a: Array) -> tuple[Array, Array]:
    """The inverses, and the first zero pivot of each matrix or 0."""
    try:
        return np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        return _by_factors(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


def solve(a: Array, b: Array) -> tuple[Array, Array]:
    """The x with a x = b, and the first zero pivot of each matrix or 0."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if not b.size or not a.size:
        return np.zeros((*batch, *b.shape[-2:]), b.dtype), np.zeros(a.shape[:-2], np.int32)
    try:
        return np.linalg.solve(a, b), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        return _by_factors(a, b)


def _by_factors(a: Array, b: Array) -> tuple[Array, Array]:
    """A solution with infinities and NaNs where a pivot is zero, as LAPACK's getrs gives."""
    factors, pivots, info = lu_factor(a)
    order = permutation(pivots, a.shape[-1])
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    permuted = np.take_along_axis(b, np.broadcast_to(order[..., None], (*batch, a.shape[-1], 1)), -2)
    y = solve_triangular(factors, permuted, upper=False, left=True, unit=True)
    return solve_triangular(factors, y, upper=True, left=True, unit=False), info


def cholesky(a: Array) -> tuple[Array, Array]:
    """The lower factors, and the order of the first leading minor that is not positive-definite, or 0."""
    try:
        factors = np.linalg.cholesky(a)
        # LAPACK's own stops at a NaN.
        if not np.isnan(np.diagonal(factors, 0, -2, -1)).any():
            return factors, np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        pass
    factors, info = np.tril(flat(a)), np.zeros(int(np.prod(a.shape[:-2])), np.int32)
    for which, x in enumerate(factors):
        for j in range(len(x)):
            pivot = (x[j, j] - x[j, :j] @ x[j, :j].conj()).real
            if not pivot > 0:
                x[j, j], info[which] = pivot, j + 1
                break
            x[j, j] = np.sqrt(pivot)
            x[j + 1 :, j] = (x[j + 1 :, j] - x[j + 1 :, :j] @ x[j, :j].conj()) / x[j, j]
    return factors.reshape(a.shape), info.reshape(a.shape[:-2])


def matrix_exp(a: Array) -> Array:
    """The exponentials by the [13/13] Pade approximant with scaling and squaring.

    Higham, "The scaling and squaring method for the matrix exponential revisited", SIAM J. Matrix Anal. Appl. 26
    (2005).
    """
    if not a.size:
        return a.copy()
    shape, dtype = a.shape, a.dtype
    a = flat(a).astype(np.complex128 if np.iscomplexobj(a) else np.float64)
    bound = 5.371920351148152
    norms = np.abs(a).sum(-2).max(-1)
    with np.errstate(all="ignore"):
        squarings = np.where(norms > bound, np.ceil(np.log2(norms / bound)), 0)
    squarings = np.where(np.isfinite(squarings), squarings, 0).astype(np.int64)
    a = a / np.exp2(squarings)[:, None, None]
    b = [1.0]
    for j in range(1, 14):
        b.append(b[-1] * (13 - j + 1) / (j * (26 - j + 1)))
    one = np.eye(a.shape[-1])
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    x = solve(even - odd, even + odd)[0]
    for step in range(int(squarings.max())):
        more = squarings > step
        x[more] = x[more] @ x[more]
    with np.errstate(over="ignore"):
        return x.astype(dtype).reshape(shape)


def pinv(a: Array, atol: Array, rtol: Array, hermitian: bool) -> Array:
    """The inverse without the singular values up to max(atol, rtol * the largest)."""
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        s, u = np.linalg.eigh(a)
        size, vh = np.abs(s), adjoint(u)
    else:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        size = s
    keep = size > np.maximum(atol, rtol * size.max(-1))[..., None]
    inverse_s = np.where(keep, 1 / np.where(keep, s, 1), 0).astype(s.dtype)
    return np.asarray((adjoint(vh) * inverse_s[..., None, :]) @ adjoint(u), a.dtype)


def lstsq(a: Array, b: Array, rcond: float | None) -> tuple[Array, Array]:
    """Least squares solutions of minimal norm, and ranks."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, n), columns = a.shape[-2:], b.shape[-1]
    x = np.zeros((*batch, n, columns), a.dtype)
    rank = np.zeros(batch, np.int64)
    if a.size and b.size:
        a, b = np.broadcast_to(a, (*batch, m, n)), np.broadcast_to(b, (*batch, m, columns))
        for i in np.ndindex(batch):
            if not (np.isfinite(a[i]).all() and np.isfinite(b[i]).all()):
                x[i] = np.nan  # LAPACK's iteration may never end
                continue
            x[i], _, rank[i], _ = np.linalg.lstsq(a[i], b[i], rcond=rcond)
    return x, rank


def _ldl_routine(dtype: Any, hermitian: bool, end: str) -> Any:
    kind = "he" if hermitian and np.dtype(dtype).kind == "c" else "sy"
    routine = _routine(dtype, f"{kind}{end}")
    if routine is None:
        raise ImportError("LDL factorizations need SciPy. Install it with: python -m pip install 'minitensor[linalg]'")
    return routine


def ldl_factor(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """Bunch and Kaufman's factors in one lower triangle, LAPACK's pivots, and its info."""
    routine = _ldl_routine(a.dtype, hermitian, "trf")
    n = a.shape[-1]
    factors = np.tril(flat(a))
    pivots, info = np.zeros((len(factors), n), np.int32), np.zeros(len(factors), np.int32)
    for i in range(len(factors) if n else 0):
        factors[i], pivots[i], info[i] = routine(factors[i], lower=1)
    return factors.reshape(a.shape), pivots.reshape(a.shape[:-1]), info.reshape(a.shape[:-2])


def ldl_solve(factors: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """The x with a x = b for a's factors."""
    rows = np.abs(pivots.astype(np.int64))
    if rows.size and not (rows.min() >= 1 and rows.max() <= factors.shape[-1]):
        raise RuntimeError(
            f"pivots must be between 1 and {factors.shape[-1]}, or negative numbers of these: are they what ldl_factor "
            "gave?"
        )
    routine = _ldl_routine(factors.dtype, hermitian, "trs")
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])))
    if not x.size:
        return x
    factors = np.broadcast_to(factors, (*batch, *factors.shape[-2:]))
    pivots = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    for i in np.ndindex(batch):
        x[i] = routine(factors[i], pivots[i], x[i], lower=1)[0]
    return x
