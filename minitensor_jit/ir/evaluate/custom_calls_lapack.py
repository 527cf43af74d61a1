"""Custom-calls to LAPACK that JAX makes on the CPU, on logical values: layouts don't matter here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..module import Instruction
from ..narrow import array_of
from ..shape import Shape, TupleShape
from .custom_calls import custom_call
from .elementwise import Value
from .linalg import cholesky, solve_triangular
from .schur import reflector, schur, tridiagonal

__all__ = ["flag", "trsm_attributes"]


def flag(i: Instruction, name: str, letters: str) -> str:
    """A letter of the backend_config, which has characters as numbers: `{uplo = 76 : ui8}`.

    It is one of `letters`; where the config does not say, the first.
    """
    config = str(i.attrs.get("backend_config", ""))
    match = re.search(rf"\b{name} = (\d+) : ui8", config)
    if match is None:
        return letters[0]
    if int(match[1]) not in map(ord, letters):
        raise ValueError(
            f"{name} = {match[1]} in the backend_config is none of {', '.join(f'{ord(c)} ({c})' for c in letters)}"
        )
    return chr(int(match[1]))


def _names(routine: str, kinds: str = "sdcz") -> tuple[str, ...]:
    return tuple(f"lapack_{kind}{routine}_ffi" for kind in kinds)


@custom_call(*_names("potrf"))
def _potrf(i: Instruction, x: Sequence[Value]) -> Value:
    factor, found = cholesky(x[0], flag(i, "uplo", "LU") == "L")
    return factor, array_of(~found, "s32")


@custom_call(*(f"blas_{k}trsm_ffi" for k in "sdcz"), *_names("trsm"))
def _trsm(i: Instruction, x: Sequence[Value]) -> Value:
    attrs = trsm_attributes(i)
    return solve_triangular(
        x[0], x[1], left=attrs["left_side"], lower=attrs["lower"],
        unit=attrs["unit_diagonal"], transpose=attrs["transpose_a"],
    )  # fmt: skip


def trsm_attributes(i: Instruction) -> dict[str, Any]:
    """What a call of trsm says, as attributes of a `triangular-solve`."""
    return {
        "left_side": flag(i, "side", "LR") == "L",
        "lower": flag(i, "uplo", "LU") == "L",
        "unit_diagonal": flag(i, "diag", "NU") == "U",
        "transpose_a": {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[flag(i, "trans_x", "NTC")],
    }


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


@custom_call(*_names("geqrf"))
def _geqrf(i: Instruction, x: Sequence[Value]) -> Value:
    result = x[0].copy()
    rows, columns = result.shape[-2:]
    steps = min(rows, columns)
    taus = np.zeros((*result.shape[:-2], steps), result.dtype)
    for at in np.ndindex(*result.shape[:-2]):
        a = result[at]
        for k in range(steps):
            v, tau = reflector(a[k:, k])
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
    values, vectors = np.linalg.eigh(x[0], "L" if flag(i, "uplo", "LU") == "L" else "U")
    return vectors.astype(x[0].dtype), values.astype(x[0].real.dtype), np.zeros(x[0].shape[:-2], np.int32)


@custom_call(*_names("gesdd"))
def _gesdd(i: Instruction, x: Sequence[Value]) -> Value:
    """The operand's memory, singular values, left and (conjugate) right vectors, info; mode A, S or N."""
    mode = flag(i, "mode", "ASN")
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
    if flag(i, "compute_left", "NV") == "V":
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
            v, tau = reflector(a[k + 1 :, k])
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


@custom_call(*_names("gees"))
def _gees(i: Instruction, x: Sequence[Value]) -> Value:
    """Schur's form, its vectors, the eigenvalues (of real matrices in two parts), how many were selected, and info."""
    if flag(i, "sort", "NS") == "S":
        raise NotImplementedError(f"{i.name}: Schur's form with eigenvalues in an order of the caller's")
    forms, vectors = x[0].copy(), np.zeros_like(x[0])
    for at in np.ndindex(*x[0].shape[:-2]):
        forms[at], vectors[at] = schur(x[0][at])
    values = np.diagonal(forms, axis1=-2, axis2=-1)
    if forms.dtype.kind == "c":
        parts = [values.copy()]
    else:
        # A block [[a, b], [c, a]] has the eigenvalues a +- sqrt(b c).
        imaginary = np.sqrt(np.maximum(-np.diagonal(forms, 1, -2, -1) * np.diagonal(forms, -1, -2, -1), 0))
        nothing = np.zeros((*imaginary.shape[:-1], 1), imaginary.dtype)
        parts = [values.copy(), np.concatenate([imaginary, nothing], -1) - np.concatenate([nothing, imaginary], -1)]
    none = np.zeros(x[0].shape[:-2], np.int32)
    return forms, vectors, *parts, none, none


@custom_call(*_names("sytrd", "sd"), *_names("hetrd", "cz"))
def _sytrd(i: Instruction, x: Sequence[Value]) -> Value:
    """The reflectors, the diagonal, the one beside it, the reflectors' factors, and info."""
    lower = flag(i, "uplo", "LU") == "L"
    outer = x[0].shape[:-2]
    made = [tridiagonal(x[0][at], lower) for at in np.ndindex(*outer)]
    results = [np.stack(part).reshape(*outer, *part[0].shape) for part in zip(*made, strict=True)]
    return *results, np.zeros(outer, np.int32)
