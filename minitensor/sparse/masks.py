"""Elements at the places of a pattern."""

from __future__ import annotations

from typing import Any

from minitensor._functions.offered import searchsorted
from minitensor._warning import as_shown
from minitensor.composite.dims import product
from minitensor.sparse.places import coo_of, flat_places
from minitensor.sparse.tensor import Pattern, build, elements_of, is_sparse

__all__ = ["at_places", "flat_elements", "in_shape", "sparse_mask"]


def flat_elements(pattern: Pattern, values: Any) -> Any:
    """Values as `[places, *dense]`, a row for each of `flat_places`."""
    if pattern.is_coo:
        return values
    dense = values.ndim - pattern.batch_dims - 1 - len(pattern.block_dims)
    return values.reshape(product(values.shape[: values.ndim - dense]), *values.shape[values.ndim - dense :])


def in_shape(pattern: Pattern, flat: Any) -> Any:
    """The same back in the shape that values of the pattern have."""
    return flat if pattern.is_coo else flat.reshape(pattern.values_shape)


def at_places(source: Any, pattern: Pattern) -> Any:
    """What a tensor, sparse or dense, has at the pattern's places, in the shape of the pattern's values."""
    if not is_sparse(source):
        places = coo_of(pattern)
        sparse = places.sparse_dim
        rows = source.reshape(product(source.shape[:sparse]), *source.shape[sparse:])
        return in_shape(pattern, rows.index_select(0, flat_places(pattern)))
    own = source._pattern
    if own is pattern or _same_indices(own, pattern):
        return elements_of(source)
    if coo_of(own).sparse_dim != coo_of(pattern).sparse_dim:
        raise RuntimeError(
            f"sparse tensors of {coo_of(own).sparse_dim} and {coo_of(pattern).sparse_dim} sparse dimensions don't fit"
        )
    from minitensor.sparse.coalesce import coalesced_parts

    there, values = coalesced_parts(source)
    wanted = flat_places(pattern)
    if not there.numel():
        return in_shape(pattern, values.new_zeros((wanted.shape[0], *values.shape[1:])))
    found = searchsorted(there, wanted).clamp(max=there.shape[0] - 1)
    hit = (there[found] == wanted).reshape(-1, *(1 for _ in values.shape[1:]))
    taken = values.index_select(0, found)
    return in_shape(pattern, taken.masked_fill(~hit, 0))


def _same_indices(a: Pattern, b: Pattern) -> bool:
    return (
        a.layout is b.layout
        and a.size == b.size
        and all(x is y or _same_memory(x, y) for x, y in zip(a.indices, b.indices, strict=True))
    )


def _same_memory(x: Any, y: Any) -> bool:
    return bool(
        x._storage_id() == y._storage_id()
        and x.storage_offset() == y.storage_offset()
        and x.shape == y.shape
        and x.stride() == y.stride()
    )


def sparse_mask(input: Any, mask: Any) -> Any:
    """The elements of a tensor at the places of a sparse one, in its layout."""
    if not is_sparse(mask):
        raise RuntimeError(
            as_shown("sparse_mask: expected mask to be a sparse tensor, but got one of layout minitensor.strided")
        )
    if tuple(input.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(input.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    return build(mask._pattern, at_places(input, mask._pattern))
