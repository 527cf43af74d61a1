"""Shape rules of gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..shape import AnyShape, Shape, TupleShape
from .checks import Attrs, Rule, ShapeError, check_combiner, distinct, same_dims, wrong

__all__ = ["INDEX_RULES"]


def _batching(
    opcode: str, attrs: Attrs, of_operand: str, of_indices: str, source: Shape, indices: Shape, index_map: str
) -> tuple[int, ...]:
    """The operand's batching dimensions, each of which goes with one of the indices'."""
    ours, theirs = tuple(attrs.get(of_operand, ())), tuple(attrs.get(of_indices, ()))
    distinct(f"{opcode} {of_operand}", ours, source.rank)
    distinct(f"{opcode} {of_indices}", theirs, indices.rank)
    if len(ours) != len(theirs) or any(source.dims[a] != indices.dims[b] for a, b in zip(ours, theirs, strict=True)):
        wrong(f"{opcode}: {of_operand} {list(ours)} and {of_indices} {list(theirs)} do not go together")
    if attrs["index_vector_dim"] in theirs:
        wrong(f"{opcode}: index_vector_dim is among {of_indices}")
    if set(ours) & set(attrs[index_map]):
        wrong(f"{opcode}: {of_operand} and {index_map} have a dimension in common")
    return ours


def _gather(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, starts = shapes
    batching = _batching(
        "gather", attrs, "operand_batching_dims", "start_indices_batching_dims", source, starts, "start_index_map"
    )
    if not starts.is_integral:
        wrong(f"gather indices {starts} are not integers")
    offset, collapsed = attrs["offset_dims"], attrs["collapsed_slice_dims"]
    index_map, vector_dim, sizes = attrs["start_index_map"], attrs["index_vector_dim"], attrs["slice_sizes"]
    distinct("gather collapsed_slice_dims", collapsed, source.rank)
    distinct("gather start_index_map", index_map, source.rank)
    if not 0 <= vector_dim <= starts.rank:
        wrong(f"gather index_vector_dim {vector_dim} is out of range for {starts}")
    length = starts.dims[vector_dim] if vector_dim < starts.rank else 1
    if length != len(index_map):
        wrong(f"gather index vectors have {length} entries, start_index_map has {len(index_map)}")
    if len(sizes) != source.rank or any(not 0 <= s <= d for s, d in zip(sizes, source.dims, strict=True)):
        wrong(f"gather slice_sizes {list(sizes)} do not fit {source}")
    distinct("gather collapsed_slice_dims and operand_batching_dims", (*collapsed, *batching), source.rank)
    if any(sizes[d] != 1 for d in (*collapsed, *batching)):
        wrong(f"gather collapses a dimension whose slice size is not 1: {list(sizes)}")
    window = [sizes[d] for d in range(source.rank) if d not in collapsed and d not in batching]
    batch = [n for d, n in enumerate(starts.dims) if d != vector_dim]
    rank = len(window) + len(batch)
    distinct("gather offset_dims", offset, rank)
    if len(offset) != len(window) or list(offset) != sorted(offset):
        wrong(f"gather offset_dims {list(offset)} must be {len(window)} increasing dimensions")
    w, b = iter(window), iter(batch)
    return source.with_dims(tuple(next(w) if d in offset else next(b) for d in range(rank)))


def _scatter(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if len(shapes) < 3 or not len(shapes) % 2:
        raise ShapeError(f"scatter takes n operands, indices and n updates, got {len(shapes)} operands")
    n = len(shapes) // 2
    source, indices, updates = shapes[0], shapes[n], shapes[n + 1]
    same_dims("scatter", shapes[:n])
    same_dims("scatter updates", shapes[n + 1 :])
    batching = _batching(
        "scatter", attrs, "input_batching_dims", "scatter_indices_batching_dims", source, indices,
        "scatter_dims_to_operand_dims",
    )  # fmt: skip
    if not indices.is_integral:
        wrong(f"scatter indices {indices} are not integers")
    for x, update in zip(shapes[:n], shapes[n + 1 :], strict=True):
        if update.dtype != x.dtype:
            wrong(f"scatter of {update.dtype} updates into {x.dtype}")
    window, inserted = attrs["update_window_dims"], attrs["inserted_window_dims"]
    index_map, vector_dim = attrs["scatter_dims_to_operand_dims"], attrs["index_vector_dim"]
    distinct("scatter update_window_dims", window, updates.rank)
    distinct("scatter inserted_window_dims", inserted, source.rank)
    distinct("scatter scatter_dims_to_operand_dims", index_map, source.rank)
    if not 0 <= vector_dim <= indices.rank:
        wrong(f"scatter index_vector_dim {vector_dim} is out of range for {indices}")
    length = indices.dims[vector_dim] if vector_dim < indices.rank else 1
    if length != len(index_map):
        wrong(f"scatter index vectors have {length} entries, scatter_dims_to_operand_dims has {len(index_map)}")
    distinct("scatter inserted_window_dims and input_batching_dims", (*inserted, *batching), source.rank)
    bounds = [n for d, n in enumerate(source.dims) if d not in inserted and d not in batching]
    if len(bounds) != len(window) or any(updates.dims[d] > n for d, n in zip(window, bounds, strict=True)):
        wrong(f"scatter window of {updates} does not fit {source}")
    batch = [n for d, n in enumerate(indices.dims) if d != vector_dim]
    if [n for d, n in enumerate(updates.dims) if d not in window] != batch:
        wrong(f"scatter updates {updates} do not have the batch dimensions {batch} of {indices}")
    elements = [Shape(x.dtype) for x in shapes[:n]]
    check_combiner("scatter", attrs["to_apply"], [*elements, *elements], elements)
    return source if n == 1 else TupleShape(tuple(shapes[:n]))


INDEX_RULES: Final[dict[str, Rule]] = {"gather": _gather, "scatter": _scatter}
