"""Decompositions by unitary similarity that NumPy does not have: Schur's, and the tridiagonal form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["reflector", "schur", "tridiagonal"]

Array = NDArray[Any]


def reflector(column: Array) -> tuple[Array, Array]:
    """(v, tau) such that (1 - tau v v^H)^H maps the column to its first component, then real (LAPACK's larfg)."""
    v = column.copy()
    alpha, rest = column[0], np.linalg.norm(column[1:])
    if rest == 0 and np.imag(alpha) == 0:
        return v, np.zeros((), column.dtype)
    beta = -np.copysign(np.hypot(np.abs(alpha), rest), np.real(alpha))
    v[1:] /= alpha - beta
    v[0] = beta
    return v, np.asarray((beta - alpha) / beta)


def schur(a: Array) -> tuple[Array, Array]:
    """(t, z) with a = z t z^H; of a real matrix t has 2 x 2 blocks where eigenvalues are complex.

    One eigenvector after the other is made the first of a basis of what is left.
    """
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    n = len(a)
    t, z = wide.copy(), np.eye(n, dtype=wide.dtype)
    k = 0
    while k < n - 1:
        values, vectors = np.linalg.eig(t[k:, k:])
        first = vectors[:, 0]
        real = a.dtype.kind != "c"
        paired = real and values[0].imag != 0
        span = np.stack([first.real, first.imag] if paired else [first.real if real else first], 1)
        basis = np.linalg.qr(np.concatenate([span, np.eye(n - k, dtype=wide.dtype)], 1))[0]
        _rotate(t, z, k, basis)
        width = span.shape[1]
        t[k + width :, k : k + width] = 0
        if paired:
            _rotate(t, z, k, _standard_basis(t[k : k + 2, k : k + 2], n - k))
        k += width
    return t.astype(a.dtype), z.astype(a.dtype)


def _rotate(t: Array, z: Array, k: int, basis: Array) -> None:
    """Changes the basis of all dimensions from k on."""
    t[k:, :] = np.conj(basis.T) @ t[k:, :]
    t[:, k:] = t[:, k:] @ basis
    z[:, k:] = z[:, k:] @ basis


def _standard_basis(block: Array, size: int) -> Array:
    """A rotation of the first two dimensions after which both diagonal elements of the block are equal."""
    (a, b), (c, d) = block
    basis = np.eye(size)
    # tan(2 angle) makes the difference of the diagonal vanish.
    angle = 0.5 * np.arctan2(d - a, b + c)
    basis[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return basis


def tridiagonal(a: Array, lower: bool) -> tuple[Array, Array, Array, Array]:
    """The packed reflectors, the diagonal, the one beside it, and the reflectors' factors (LAPACK's sytrd, hetrd)."""
    if not lower:
        packed, *rest = tridiagonal(a[::-1, ::-1], True)
        diagonal, beside, taus = (part[::-1].copy() for part in rest)
        return np.ascontiguousarray(packed[::-1, ::-1]), diagonal, beside, taus
    n = len(a)
    full = np.tril(a) + np.conj(np.tril(a, -1).T)
    packed = a.copy()
    taus = np.zeros(max(n - 1, 0), a.dtype)
    for k in range(n - 1):
        v, tau = reflector(full[k + 1 :, k])
        taus[k] = tau
        packed[k + 1 :, k] = v
        unit = np.concatenate([np.ones(1, v.dtype), v[1:]])
        full[:, k + 1 :] -= tau * np.outer(full[:, k + 1 :] @ unit, np.conj(unit))
        full[k + 1 :, :] -= np.conj(tau) * np.outer(unit, np.conj(unit) @ full[k + 1 :, :])
    diagonal = np.diagonal(full).real.copy()
    beside = np.diagonal(full, -1).real.copy()
    line = np.arange(n)
    packed[line, line] = diagonal
    packed[line[1:], line[:-1]] = beside
    return packed, diagonal, beside, taus
