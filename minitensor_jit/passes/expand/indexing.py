"""Gather and scatter with batching dimensions: the place in the batch becomes a part of the index."""

from __future__ import annotations

from typing import Final

from ...ir.builder import Builder
from ...ir.module import Attrs, Instruction
from ...ir.shape import DTYPES
from .rule import Rule

__all__ = ["INDEXING_RULES"]


def _with_batch(b: Builder, indices: Instruction, vector_dim: int, batching: tuple[int, ...]) -> Instruction:
    """The index vectors with their places in the batch before them."""
    if DTYPES[indices.dtype].itemsize < 4:
        indices = b.convert(indices, "s32")  # the batch may have more places than a small integer counts
    if vector_dim == len(indices.dims):
        indices = b.reshape(indices, (*indices.dims, 1))
    single = indices.array_shape.with_dims(tuple(1 if d == vector_dim else n for d, n in enumerate(indices.dims)))
    return b.concatenate([*(b.iota(single, d) for d in batching), indices], vector_dim)


def _gather(b: Builder, i: Instruction) -> Instruction | None:
    attrs: Attrs = dict(i.attrs)
    ours, theirs = attrs.pop("operand_batching_dims", ()), attrs.pop("start_indices_batching_dims", ())
    if not ours:
        return None
    attrs.pop("indices_are_sorted", None)
    indices = _with_batch(b, i.operands[1], attrs["index_vector_dim"], theirs)
    attrs["start_index_map"] = (*ours, *attrs["start_index_map"])
    attrs["collapsed_slice_dims"] = tuple(sorted((*ours, *attrs["collapsed_slice_dims"])))
    return b.emit("gather", (i.operands[0], indices), attrs)


def _scatter(b: Builder, i: Instruction) -> Instruction | None:
    attrs: Attrs = dict(i.attrs)
    ours, theirs = attrs.pop("input_batching_dims", ()), attrs.pop("scatter_indices_batching_dims", ())
    if not ours:
        return None
    attrs.pop("indices_are_sorted", None)
    n = len(i.operands) // 2
    indices = _with_batch(b, i.operands[n], attrs["index_vector_dim"], theirs)
    attrs["scatter_dims_to_operand_dims"] = (*ours, *attrs["scatter_dims_to_operand_dims"])
    attrs["inserted_window_dims"] = tuple(sorted((*ours, *attrs["inserted_window_dims"])))
    return b.emit("scatter", (*i.operands[:n], indices, *i.operands[n + 1 :]), attrs)


INDEXING_RULES: Final[dict[str, Rule]] = {"gather": _gather, "scatter": _scatter}
