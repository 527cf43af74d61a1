"""Sparse tensors with each place once: indices that repeat are added up."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._functions.offered import arange, searchsorted, stack, unique, zeros
from minitensor.composite.layout import sparse_coo
from minitensor.sparse.masks import flat_elements
from minitensor.sparse.places import coo_of, flat_places
from minitensor.sparse.tensor import Pattern, build, elements_of, layout_of

__all__ = ["coalesce", "coalesced_parts", "each_place_once", "sums_by_index", "unflatten"]


def unflatten(flat: Any, size: tuple[int, ...]) -> Any:
    """Places in row-major order as indices `[dims, nnz]` in that size."""
    rows = []
    for length in reversed(size):
        rows.append(flat % length if length else flat)
        flat = flat // length if length else flat
    return stack(rows[::-1]) if rows else flat.new_zeros((0, flat.shape[0]))


def sums_by_index(values: Any, index: Any, count: int) -> Any:
    """Rows of values added up where index says, in their order; bools are joined by or."""
    if values.dtype is _C.bool:
        counts = zeros((count, *values.shape[1:]), dtype=_C.int64, device=values.device)
        return counts.index_add(0, index, values.to(_C.int64)) != 0
    return zeros((count, *values.shape[1:]), dtype=values.dtype, device=values.device).index_add(0, index, values)


def coalesced_parts(tensor: Any) -> tuple[Any, Any]:
    """The places of a sparse tensor as rising numbers, and what there is at each, added up."""
    pattern = tensor._pattern
    values = flat_elements(pattern, elements_of(tensor))
    flat = flat_places(pattern)
    if coo_of(pattern).coalesced:
        return flat, values

    def work_out() -> tuple[Any, Any]:
        return unique(flat, return_inverse=True)  # type: ignore[no-any-return]

    places, inverse = pattern.known("unique", work_out)
    return places, sums_by_index(values, inverse, int(places.shape[0]))


def each_place_once(pattern: Pattern, values: Any) -> tuple[Pattern, Any]:
    """The coalesced pattern, and of what there is at each place the first; both as they are if no place repeats."""
    if not pattern.is_coo or pattern.coalesced:
        return pattern, values

    def first_of_each() -> Any:
        places, inverse = unique(flat_places(pattern), return_inverse=True)
        order = inverse.argsort(stable=True)
        return places, order.index_select(0, searchsorted(inverse[order], arange(places.shape[0])))

    places, first = pattern.known("first", first_of_each)
    if places.shape[0] == pattern.nnz:
        return pattern, values
    return _coalesced(pattern, places), values.index_select(0, first)


def _coalesced(pattern: Pattern, places: Any) -> Pattern:
    def work_out() -> Pattern:
        size = pattern.size[: pattern.sparse_dim]
        return Pattern(sparse_coo, pattern.size, (unflatten(places, size),), True)

    return pattern.known("coalesced", work_out)  # type: ignore[no-any-return]


def coalesce(tensor: Any) -> Any:
    """A sparse_coo tensor with each place once, in row-major order; itself if it is so."""
    pattern = tensor._pattern
    if not pattern.is_coo:
        raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {layout_of(tensor)}")
    if pattern.coalesced:
        return tensor
    places, values = coalesced_parts(tensor)
    return build(_coalesced(pattern, places), values)
