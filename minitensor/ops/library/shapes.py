"""What ops that run in a library (LAPACK, pocketfft) give: results without data, before anything is computed.

Each rule takes its row's operands, on device "meta", and parameters. With it an op is recorded like any other, and has
device "meta".
"""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__: list[str] = []

_META = _C.device("meta")


def _made(sizes: Any, dtype: Any) -> Any:
    return _C.empty(tuple(sizes), dtype, _META)


def _batch(a: Any) -> tuple[int, ...]:
    return tuple(a.shape[:-2])


def _common_batch(a: Any, b: Any) -> tuple[int, ...]:
    batch = _C.empty(_batch(a), a.dtype, _META) + _C.empty(_batch(b), a.dtype, _META)
    return tuple(batch.shape)


def _real(dtype: Any) -> Any:
    return dtype.to_real() if dtype.is_complex else dtype


def like(a: Any, *_: Any) -> Any:
    """One result like the operand."""
    return _made(a.shape, a.dtype)


def with_info(a: Any, *_: Any) -> Any:
    """A result like the operand, and an int32 for each matrix."""
    return like(a), _made(_batch(a), _C.int32)


def lu_factor(a: Any) -> Any:
    """Both factors in one matrix, the rows swapped, and an int32 for each matrix."""
    return like(a), _made((*_batch(a), min(a.shape[-2:])), _C.int32), _made(_batch(a), _C.int32)


def ldl_factor(a: Any, hermitian: bool) -> Any:
    """Both factors in one matrix, the pivots, and an int32 for each matrix."""
    return like(a), _made(a.shape[:-1], _C.int32), _made(_batch(a), _C.int32)


def permutation(pivots: Any, m: int) -> Any:
    """A square matrix for each row of pivots."""
    return _made((*pivots.shape[:-1], m, m), _C.float64)


def solution(a: Any, b: Any, *_: Any) -> Any:
    """The second operand's matrices, for all matrices of both."""
    return _made((*_common_batch(a, b), *b.shape[-2:]), b.dtype)


def solution_by_factor(b: Any, factor: Any, *_: Any) -> Any:
    """The first operand's matrices, for all matrices of both."""
    return solution(factor, b)


def solution_by_pivots(factors: Any, _pivots: Any, b: Any, *_: Any) -> Any:
    """The third operand's matrices, for all matrices of it and the first."""
    return solution(factors, b)


def solution_with_info(a: Any, b: Any) -> Any:
    """The second operand's matrices, and an int32 for each of the first's."""
    return solution(a, b), _made(_batch(a), _C.int32)


def transposed(a: Any, *_: Any) -> Any:
    """Matrices with rows and columns exchanged."""
    return _made((*_batch(a), a.shape[-1], a.shape[-2]), a.dtype)


def pseudo_inverse(a: Any, atol: Any, rtol: Any, _hermitian: bool) -> Any:
    """Matrices with rows and columns exchanged, for all tolerances."""
    batch = _C.empty(_batch(a), _C.float64, _META)
    for tolerance in (atol, rtol):
        batch = batch + _C.empty(tuple(tolerance.shape), _C.float64, _META)
    return _made((*batch.shape, a.shape[-1], a.shape[-2]), a.dtype)


def least_squares(a: Any, b: Any, _rcond: Any) -> Any:
    """As many rows as the first operand has columns, and the ranks."""
    batch = _common_batch(a, b)
    return _made((*batch, a.shape[-1], b.shape[-1]), a.dtype), _made(batch, _C.int64)


def number(a: Any) -> Any:
    """A number for each matrix."""
    return _made(_batch(a), a.dtype)


def sign_and_logarithm(a: Any) -> Any:
    """A number, and a real one, for each matrix."""
    return number(a), _made(_batch(a), _real(a.dtype))


def eigh(a: Any, _upper: bool, vectors: bool) -> Any:
    """Real eigenvalues, and vectors if they are wanted."""
    return _made(a.shape[:-1], _real(a.dtype)), like(a) if vectors else _made((0,), a.dtype)


def eig(a: Any, vectors: bool) -> Any:
    """Complex eigenvalues, and vectors if they are wanted."""
    dtype = a.dtype if a.dtype.is_complex else a.dtype.to_complex()
    return _made(a.shape[:-1], dtype), _made(a.shape if vectors else (0,), dtype)


def svd(a: Any, full_matrices: bool, vectors: bool) -> Any:
    """U, the real singular values, and V^H; only the values unless vectors are wanted."""
    m, n = a.shape[-2:]
    k, batch = min(m, n), _batch(a)
    values = _made((*batch, k), _real(a.dtype))
    if not vectors:
        return _made((0,), a.dtype), values, _made((0,), a.dtype)
    rows, columns = (m, n) if full_matrices else (k, k)
    return _made((*batch, m, rows), a.dtype), values, _made((*batch, columns, n), a.dtype)


def qr(a: Any, complete: bool) -> Any:
    """Q and R."""
    m, n = a.shape[-2:]
    k = m if complete else min(m, n)
    return _made((*_batch(a), m, k), a.dtype), _made((*_batch(a), k, n), a.dtype)


def geqrf(a: Any) -> Any:
    """R with the reflectors, and their factors."""
    return like(a), _made((*_batch(a), min(a.shape[-2:])), a.dtype)


def half_spectrum(x: Any, dim: tuple[int, ...], _scale: int, onesided: bool) -> Any:
    """Complex numbers; of the last dimension half, if onesided."""
    sizes = list(x.shape)
    if onesided:
        sizes[dim[-1]] = sizes[dim[-1]] // 2 + 1
    return _made(sizes, _C.complex64 if x.dtype == _C.float32 else _C.complex128)


def whole_signal(x: Any, dim: tuple[int, ...], _scale: int, last_size: int) -> Any:
    """Real numbers, as many as asked for along the last dimension."""
    sizes = list(x.shape)
    sizes[dim[-1]] = last_size
    return _made(sizes, _C.float32 if x.dtype == _C.complex64 else _C.float64)
