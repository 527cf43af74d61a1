"""The evaluator's rules for fft, cholesky and triangular-solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..module import Instruction
from .elementwise import Array, Rule, Value

__all__ = ["LINALG_RULES", "cholesky", "solve_triangular"]


def _fft(i: Instruction, x: Sequence[Value]) -> Value:
    lengths = tuple(i.attrs["fft_length"])
    dtype = i.array_shape.numpy_dtype
    if 0 in i.dims or 0 in x[0].shape:
        return np.zeros(i.dims, dtype)
    axes = range(x[0].ndim - len(lengths), x[0].ndim)
    function: Callable[..., Array] = _TRANSFORMS[i.attrs["fft_type"]]
    return np.asarray(function(x[0], lengths, tuple(axes))).astype(dtype)


_TRANSFORMS: Final[dict[str, Any]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


def cholesky(a: Array, lower: bool) -> tuple[Array, Array]:
    """The triangular factor of each matrix, read from one triangle, and whether there is one."""
    full = np.tril(a) if lower else np.conj(np.swapaxes(np.triu(a), -1, -2))
    result = np.full(a.shape, np.nan, a.dtype)
    found = np.ones(a.shape[:-2], bool)
    for at in np.ndindex(*a.shape[:-2]):
        half = full[at]
        try:
            # NumPy reads the lower triangle only.
            factor = np.linalg.cholesky(half)
        except np.linalg.LinAlgError:
            found[at] = False
            continue
        result[at] = factor if lower else np.conj(factor.T)
    return result, found


def _cholesky(i: Instruction, x: Sequence[Value]) -> Value:
    return cholesky(x[0], bool(i.attrs.get("lower", False)))[0]


def solve_triangular(
    a: Array, b: Array, *, left: bool, lower: bool, unit: bool, transpose: str = "NO_TRANSPOSE"
) -> Array:
    """x of op(a) x = b (or x op(a) = b), by substitution, from one triangle of a."""
    triangle = np.tril(a) if lower else np.triu(a)
    n = a.shape[-1]
    if unit:
        triangle = triangle.copy()
        triangle[..., np.arange(n), np.arange(n)] = 1
    if transpose == "ADJOINT":
        triangle = np.conj(triangle)
    if transpose != "NO_TRANSPOSE":
        triangle, lower = np.swapaxes(triangle, -1, -2), not lower
    if not left:
        # x A = b is A^T x^T = b^T.
        triangle, lower, b = np.swapaxes(triangle, -1, -2), not lower, np.swapaxes(b, -1, -2)
    x = np.zeros(b.shape, b.dtype)
    for k in range(n) if lower else reversed(range(n)):
        rest = b[..., k, :] - np.einsum("...j,...jc->...c", triangle[..., k, :], x)
        x[..., k, :] = rest / triangle[..., k, k][..., None]
    return x if left else np.ascontiguousarray(np.swapaxes(x, -1, -2))


def _triangular_solve(i: Instruction, x: Sequence[Value]) -> Value:
    attrs = i.attrs
    return solve_triangular(
        x[0], x[1], left=bool(attrs.get("left_side")), lower=bool(attrs.get("lower")),
        unit=bool(attrs.get("unit_diagonal")), transpose=str(attrs.get("transpose_a", "NO_TRANSPOSE")),
    )  # fmt: skip


LINALG_RULES: Final[dict[str, Rule]] = {
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
}
