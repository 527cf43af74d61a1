"""Creation ops."""

from __future__ import annotations

from typing import Any

from minitensor.ops.row import creation

__all__: list[str] = []

full = creation(
    "full(int[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None)", "A tensor of one value.",
    lower=lambda b, size, fill_value, dtype, device: b.filled(fill_value),
)  # fmt: skip


def _arange_lower(b: Any, start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Any:
    index = b.iota(b.result, 0)
    if step != 1:
        index = b.multiply(index, b.full(b.result, step))
    return b.add(index, b.full(b.result, start)) if start != 0 else index


def _arange_refuse(call: Any) -> str | None:
    # start + i * step rounds once for integers only.
    return "floating-point ranges have no compiled form" if call.result_floating else None


arange = creation(
    "arange(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None, device? device=None)",
    "Evenly spaced values in [start, end).",
    lower=_arange_lower, refuse=_arange_refuse,
)  # fmt: skip
eye = creation(
    "eye(int n, int? m=None, *, dtype? dtype=None, device? device=None)",
    "Ones on the diagonal.",
    lower=lambda b, *_: b.diagonal_ones(),
)
linspace = creation(
    "linspace(Scalar start, Scalar end, int steps, *, dtype? dtype=None, device? device=None)",
    "Evenly spaced values from start to end.",
)
tril_indices = creation(
    "tril_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None)",
    "The places of a matrix at and below a diagonal: rows, then columns.",
    out="none",
)
triu_indices = creation(
    "triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None)",
    "The places of a matrix at and above a diagonal: rows, then columns.",
    out="none",
)
