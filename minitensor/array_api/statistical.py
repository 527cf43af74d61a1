"""Sums, extremes and moments, by the array API standard."""

from __future__ import annotations

import builtins
from typing import Any

from minitensor import _C
from minitensor._functions import offered
from minitensor._functions.offered import amax, amin, cat, full, logical_xor, sqrt
from minitensor.array_api.manipulation import Axes, axes_of

__all__ = ["all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var"]


def _total_dtype(x: Any, dtype: Any) -> Any:
    """Sums of integers are of the default integer type, signed or not."""
    if dtype is not None:
        return dtype
    if x.dtype.name.startswith("uint"):
        return _C.uint64
    return _C.int64 if x.dtype == _C.bool or x.dtype.name.startswith("int") else x.dtype


def sum(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum."""
    dims, to = axes_of(axis, x.ndim), _total_dtype(x, dtype)
    return offered.sum(x.to(to), dims, keepdim=keepdims, dtype=to) if dims else x.to(to)


def prod(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product."""
    to = _total_dtype(x, dtype)
    found = x.to(to)
    for d in sorted(axes_of(axis, x.ndim), reverse=True):
        found = offered.prod(found, d, keepdim=keepdims, dtype=to)
    return found


def mean(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """The mean."""
    dims = axes_of(axis, x.ndim)
    return offered.mean(x, dims, keepdim=keepdims) if dims else x.clone()


def var(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance; the squares' sum is divided by the count less `correction`."""
    dims = axes_of(axis, x.ndim)
    if not dims:  # each element by itself
        return (x - x) / builtins.max(1.0 - correction, 0.0)
    return offered.var(x, dims, correction=correction, keepdim=keepdims)


def std(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The standard deviation."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def max(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """The largest element."""
    dims = axes_of(axis, x.ndim)
    return amax(x, dims, keepdim=keepdims) if dims else x.clone()


def min(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """The smallest element."""
    dims = axes_of(axis, x.ndim)
    return amin(x, dims, keepdim=keepdims) if dims else x.clone()


def all(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether every element is true."""
    dims, found = axes_of(axis, x.ndim), x != 0
    return offered.all(found, dims, keepdim=keepdims) if dims else found


def any(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Whether some element is true."""
    dims, found = axes_of(axis, x.ndim), x != 0
    return offered.any(found, dims, keepdim=keepdims) if dims else found


def _cumulative(name: str, start: int, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    if axis is None:
        if x.ndim > 1:
            raise ValueError("axis must be given for an array of several dimensions")
        axis = 0
    d, to = axes_of(axis, x.ndim)[0] if x.ndim else 0, _total_dtype(x, dtype)
    found = getattr(offered, name)(x.to(to), d, dtype=to)
    if not include_initial:
        return found
    shape = [1 if i == d else n for i, n in enumerate(x.shape)]
    return cat([full(shape, start, dtype=to), found], d)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The sums up to each element."""
    return _cumulative("cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """The products up to each element."""
    return _cumulative("cumprod", 1, x, axis, dtype, include_initial)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours, n times."""
    parts = [t for t in (prepend, x, append) if t is not None]
    found = cat(parts, axis) if len(parts) > 1 else x
    d = axes_of(axis, x.ndim)[0]
    for _ in range(n):
        size = found.shape[d]
        count = size - 1 if size else 0
        after, before = found.narrow(d, size - count, count), found.narrow(d, 0, count)
        found = logical_xor(after, before) if found.dtype == _C.bool else after - before
    return found.clone() if n == 0 else found
