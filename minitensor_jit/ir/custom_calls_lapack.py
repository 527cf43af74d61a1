"""Custom-calls to LAPACK that JAX makes on the CPU, on logical values: layouts don't matter here."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .custom_calls import custom_call
from .evaluate_elementwise import Array, Value
from .evaluate_linalg import cholesky, solve_triangular
from .module import Instruction
from .narrow import array_of
from .shape import Shape, TupleShape

__all__: list[str] = []


def _flag(i: Instruction, name: str, default: str) -> str:
    """A letter of the backend_config, which has characters as numbers: `{uplo = 76 : ui8}`."""
    match = re.search(rf"\b{name} = (\d+) : ui8", str(i.attrs.get("backend_config", "")))
    return chr(int(match[1])) if match else default


def _names(routine: str, kinds: str = "sdcz") -> tuple[str, ...]:
    return tuple(f"lapack_{kind}{routine}_ffi" for kind in kinds)


@custom_call(*_names("potrf"))
def _potrf(i: Instruction, x: Sequence[Value]) -> Value:
    factor, found = cholesky(x[0], _flag(i, "uplo", "L") == "L")
    return factor, array_of(~found, "s32")


@custom_call(*(f"blas_{k}trsm_ffi" for k in "sdcz"), *_names("trsm"))
def _trsm(i: Instruction, x: Sequence[Value]) -> Value:
    transpose = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[_flag(i, "trans_x", "N")]
    return solve_triangular(
        x[0], x[1], left=_flag(i, "side", "L") == "L", lower=_flag(i, "uplo", "L") == "L",
        unit=_flag(i, "diag", "N") == "U", transpose=transpose,
    )  # fmt: skip


@custom_call(*_names("getrf"))
def _getrf(i: Instruction, x: Sequence[Value]) -> Value:
    lu = x[0].copy()
    rows, columns = lu.shape[-2:]
    steps = min(rows, columns)
    pivots = np.zeros((*lu.shape[:-2], steps), np.int32)
    info = np.zeros(lu.shape[:-2], np.int32)
    for at in np.ndindex(*lu.shape[:-2]):
        a = lu[at]
        for k in range(steps):
            column = a[k:, k]
            size = np.abs(column.real) + np.abs(column.imag)
            p = k + int(np.argmax(size))
            pivots[(*at, k)] = p + 1  # LAPACK counts from one
            if a[p, k] == 0:
                info[at] = info[at] or k + 1
                continue
            a[[k, p]] = a[[p, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return lu, pivots, info


def _reflector(column: Array) -> tuple[Array, Array]:
    """(v, tau) such that (1 - tau v v^H)^H maps the column to its first component, then real (LAPACK's larfg)."""
    v = column.copy()
    alpha, rest = column[0], np.linalg.norm(column[1:])
    if rest == 0 and np.imag(alpha) == 0:
        return v, np.zeros((), column.dtype)
    beta = -np.copysign(np.hypot(np.abs(alpha), rest), np.real(alpha))
    v[1:] /= alpha - beta
    v[0] = beta
    return v, np.asarray((beta - alpha) / beta)


@custom_call(*_names("geqrf"))
def _geqrf(i: Instruction, x: Sequence[Value]) -> Value:
    result = x[0].copy()
    rows, columns = result.shape[-2:]
    steps = min(rows, columns)
    taus = np.zeros((*result.shape[:-2], steps), result.dtype)
    for at in np.ndindex(*result.shape[:-2]):
        a = result[at]
        for k in range(steps):
            v, tau = _reflector(a[k:, k])
            a[k:, k] = v
            taus[(*at, k)] = tau
            unit = np.concatenate([np.ones(1, v.dtype), v[1:]])
            a[k:, k + 1 :] -= np.conj(tau) * np.outer(unit, np.conj(unit) @ a[k:, k + 1 :])
    return result, taus


@custom_call(*_names("orgqr", "sd"), *_names("ungqr", "cz"))
def _orgqr(i: Instruction, x: Sequence[Value]) -> Value:
    packed, taus = x
    result = np.zeros(packed.shape, packed.dtype)
    rows, columns = packed.shape[-2:]
    for at in np.ndindex(*packed.shape[:-2]):
        q = np.eye(rows, columns, dtype=packed.dtype)
        for k in reversed(range(taus.shape[-1])):
            unit = np.concatenate([np.ones(1, q.dtype), packed[at][k + 1 :, k]])
            q[k:, :] -= taus[(*at, k)] * np.outer(unit, np.conj(unit) @ q[k:, :])
        result[at] = q
    return result


@custom_call(*_names("syevd", "sd"), *_names("heevd", "cz"))
def _syevd(i: Instruction, x: Sequence[Value]) -> Value:
    values, vectors = np.linalg.eigh(x[0], "L" if _flag(i, "uplo", "L") == "L" else "U")
    return vectors.astype(x[0].dtype), values.astype(x[0].real.dtype), np.zeros(x[0].shape[:-2], np.int32)


@custom_call(*_names("gesdd"))
def _gesdd(i: Instruction, x: Sequence[Value]) -> Value:
    """The operand's memory, singular values, left and (conjugate) right vectors, info; mode A, S or N."""
    mode = _flag(i, "mode", "A")
    info = np.zeros(x[0].shape[:-2], np.int32)
    if mode == "N":
        assert isinstance(i.shape, TupleShape)
        left, right = (np.zeros(s.dims, x[0].dtype) for s in i.shape.elements[2:4] if isinstance(s, Shape))
        return x[0], np.linalg.svd(x[0], compute_uv=False), left, right, info
    u, values, v = np.linalg.svd(x[0], full_matrices=mode == "A")
    return x[0], values, u, v, info


@custom_call(*_names("geev"))
def _geev(i: Instruction, x: Sequence[Value]) -> Value:
    """Eigenvalues (of real matrices in two parts), left and right eigenvectors of unit length, info."""
    values, right = np.linalg.eig(x[0])
    kind = np.complex64 if x[0].dtype in (np.float32, np.complex64) else np.complex128
    right = right.astype(kind)
    left = np.zeros_like(right)
    if _flag(i, "compute_left", "N") == "V":
        # The rows of the inverse are the left eigenvectors, conjugate.
        left = np.conj(np.swapaxes(np.linalg.inv(right), -1, -2))
        left /= np.linalg.norm(left, axis=-2, keepdims=True)
    values = values.astype(kind)
    parts = (values,) if x[0].dtype.kind == "c" else (values.real.copy(), values.imag.copy())
    return *parts, left, right, np.zeros(x[0].shape[:-2], np.int32)


@custom_call(*_names("gehrd"))
def _gehrd(i: Instruction, x: Sequence[Value]) -> Value:
    """The Hessenberg form with the reflectors below it, their factors, and info."""
    result = x[0].copy()
    n = result.shape[-1]
    taus = np.zeros((*result.shape[:-2], max(n - 1, 0)), result.dtype)
    for at in np.ndindex(*result.shape[:-2]):
        a = result[at]
        for k in range(n - 2):
            v, tau = _reflector(a[k + 1 :, k])
            taus[(*at, k)] = tau
            unit = np.concatenate([np.ones(1, v.dtype), v[1:]])
            a[k + 1 :, k] = v
            a[:, k + 1 :] -= tau * np.outer(a[:, k + 1 :] @ unit, np.conj(unit))
            a[k + 1 :, k + 1 :] -= np.conj(tau) * np.outer(unit, np.conj(unit) @ a[k + 1 :, k + 1 :])
    return result, taus, np.zeros(result.shape[:-2], np.int32)


@custom_call(*_names("gtsv"))
def _gtsv(i: Instruction, x: Sequence[Value]) -> Value:
    """The diagonals as they were, and the solution of the tridiagonal system."""
    lower, diagonal, upper, right = x
    n = diagonal.shape[-1]
    full = np.zeros((*diagonal.shape, n), diagonal.dtype)
    line = np.arange(n)
    full[..., line, line] = diagonal
    # Both have n elements; those beyond the corner are not read.
    full[..., line[1:], line[:-1]] = lower[..., 1:]
    full[..., line[:-1], line[1:]] = upper[..., : n - 1]
    solution = np.linalg.solve(full, right).astype(right.dtype)
    return lower, diagonal, upper, solution, np.zeros(diagonal.shape[:-1], np.int32)
