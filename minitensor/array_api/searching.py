"""Searching, sorting and sets, by the array API standard."""

from __future__ import annotations

from typing import Any, NamedTuple

from minitensor import _C
from minitensor._functions import offered
from minitensor._functions.offered import cumsum, full, index_select, unique
from minitensor.array_api.dtypes import result_type
from minitensor.array_api.manipulation import Axes, axes_of

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "where",
]  # fmt: skip


class UniqueAll(NamedTuple):
    """The results of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def _extreme(name: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    function = getattr(offered, name)
    if axis is None:
        found = function(x.reshape((-1,)), 0)
        return found.reshape((1,) * x.ndim) if keepdims else found
    return function(x, axis, keepdims)


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first largest element."""
    return _extreme("argmax", x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the first smallest element."""
    return _extreme("argmin", x, axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """The number of elements that are not zero."""
    dims = axes_of(axis, x.ndim)
    found = (x != 0).to(_C.int64)
    return offered.sum(found, dims, keepdim=keepdims) if dims else found


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, one array for each dimension."""
    if x.ndim == 0:
        raise ValueError("nonzero needs at least one dimension")
    return tuple(offered.nonzero(x).unbind(1))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """The places in sorted x1 before (or after, for "right") which the elements of x2 belong."""
    return offered.searchsorted(x1, x2, side=side, sorter=sorter)


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """x1 where the condition holds, x2 elsewhere."""
    dtype = result_type(x1, x2)
    first, second = (x.to(dtype) if isinstance(x, _C.Tensor) else full((), x, dtype=dtype) for x in (x1, x2))
    return offered.where(condition, first, second)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along an axis."""
    return offered.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that put the elements in order along an axis."""
    return offered.sort(x, dim=axis, descending=descending, stable=stable)[1]


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements, where each is first, which each element is, and how often each is there."""
    values, inverse, counts = unique(x.reshape((-1,)), return_inverse=True, return_counts=True)
    order = offered.sort(inverse, dim=0, stable=True)[1]
    first = index_select(order, 0, cumsum(counts, 0) - counts) if values.numel() else counts
    return UniqueAll(values, first, inverse.reshape(tuple(x.shape)), counts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements, and how often each is there."""
    values, counts = unique(x.reshape((-1,)), return_counts=True)
    return UniqueCounts(values, counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements, and which each element is."""
    values, inverse = unique(x.reshape((-1,)), return_inverse=True)
    return UniqueInverse(values, inverse.reshape(tuple(x.shape)))


def unique_values(x: Any, /) -> Any:
    """The distinct elements."""
    return unique(x.reshape((-1,)))
