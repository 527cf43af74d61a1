"""The evaluator's rules for dynamic slices, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..module import Instruction
from ..semantics.reduction import reduction_kind
from .computation import scalar_function
from .elementwise import Array, Rule, Value

__all__ = ["INDEX_RULES"]


def _starts(indices: Sequence[Array], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [min(max(int(s), 0), d - n) for s, d, n in zip(indices, dims, sizes, strict=True)]


def _dynamic_slice(i: Instruction, x: Sequence[Value]) -> Value:
    sizes = i.attrs["dynamic_slice_sizes"]
    at = _starts(x[1:], x[0].shape, sizes)
    return x[0][tuple(slice(s, s + n) for s, n in zip(at, sizes, strict=True))]


def _dynamic_update_slice(i: Instruction, x: Sequence[Value]) -> Value:
    at = _starts(x[2:], x[0].shape, x[1].shape)
    result = x[0].copy()
    result[tuple(slice(s, s + n) for s, n in zip(at, x[1].shape, strict=True))] = x[1]
    return result


def _window_starts(
    indices: Array, vector_dim: int, index_map: Sequence[int], rank: int, batching: Sequence[tuple[int, int]] = ()
) -> Array:
    """The start in every operand dimension, for each batch position: [batch..., rank].

    `batching` are pairs of an operand's dimension and the indices' dimension that runs along with it.
    """
    vectors = indices[..., None] if vector_dim == indices.ndim else np.moveaxis(indices, vector_dim, -1)
    if vectors.dtype == np.uint64:  # beyond int64 is out of bounds anyway
        vectors = np.minimum(vectors, np.uint64(np.iinfo(np.int64).max))
    wide = vectors.astype(np.int64)
    starts = np.zeros((*vectors.shape[:-1], rank), np.int64)
    for k, d in enumerate(index_map):
        starts[..., d] = wide[..., k]
    for ours, theirs in batching:
        axis = theirs - (theirs > vector_dim)
        line = np.arange(starts.shape[axis]).reshape([-1 if d == axis else 1 for d in range(starts.ndim - 1)])
        starts[..., ours] = line
    return starts


def _batching(i: Instruction, ours: str, theirs: str) -> list[tuple[int, int]]:
    return list(zip(i.attrs.get(ours, ()), i.attrs.get(theirs, ()), strict=True))


def _window(starts: Array, sizes: Sequence[int]) -> tuple[Array, ...]:
    """For each operand dimension, the index of each element of each window; they broadcast to [batch..., sizes...]."""
    rank, batch = len(sizes), starts.ndim - 1
    result = []
    for d, size in enumerate(sizes):
        within = np.arange(size).reshape((1,) * (batch + d) + (size,) + (1,) * (rank - d - 1))
        result.append(starts[..., d].reshape(starts.shape[:-1] + (1,) * rank) + within)
    return tuple(result)


def _gather(i: Instruction, x: Sequence[Value]) -> Value:
    source, attrs = x[0], i.attrs
    sizes = attrs["slice_sizes"]
    batching = _batching(i, "operand_batching_dims", "start_indices_batching_dims")
    gone = {*attrs["collapsed_slice_dims"], *(ours for ours, _ in batching)}
    starts = _window_starts(x[1], attrs["index_vector_dim"], attrs["start_index_map"], source.ndim, batching)
    starts = np.clip(starts, 0, np.array(source.shape, np.int64) - np.array(sizes, np.int64))
    if source.ndim == 0:
        windows = np.broadcast_to(source, starts.shape[:-1])
    elif 0 in i.dims:
        return np.empty(i.dims, source.dtype)
    else:
        windows = source[_window(starts, sizes)]
    batch = starts.ndim - 1
    windows = windows.reshape(windows.shape[:batch] + tuple(n for d, n in enumerate(sizes) if d not in gone))
    offset = list(attrs["offset_dims"])
    outer = [d for d in range(windows.ndim) if d not in offset]
    return np.moveaxis(windows, range(windows.ndim), outer + offset)


def _scatter(i: Instruction, x: Sequence[Value]) -> Value:
    n, attrs = len(x) // 2, i.attrs
    sources, indices, first = x[:n], x[n], x[n + 1]
    rank = sources[0].ndim
    window_dims = list(attrs["update_window_dims"])
    batch_dims = [d for d in range(first.ndim) if d not in window_dims]
    batching = _batching(i, "input_batching_dims", "scatter_indices_batching_dims")
    inserted = {*attrs["inserted_window_dims"], *(ours for ours, _ in batching)}
    window = iter(first.shape[d] for d in window_dims)
    sizes = [1 if d in inserted else next(window) for d in range(rank)]
    index_map = attrs["scatter_dims_to_operand_dims"]
    starts = _window_starts(indices, attrs["index_vector_dim"], index_map, rank, batching)
    limits = np.array(sources[0].shape, np.int64) - np.array(sizes, np.int64)
    inside = np.all((starts >= 0) & (starts <= limits), axis=-1)  # a window that sticks out is skipped as a whole
    results = [source.copy() for source in sources]
    moved = [u.transpose(batch_dims + window_dims) for u in x[n + 1 :]]
    updates = [u.reshape(*u.shape[: len(batch_dims)], *sizes) for u in moved]
    combine = attrs["to_apply"]
    adds = n == 1 and reduction_kind(combine) == "add" and sources[0].dtype.kind != "b"
    function = scalar_function(combine)
    for at in np.ndindex(*inside.shape):
        if not inside[at]:
            continue
        where = tuple(slice(int(s), int(s) + size) for s, size in zip(starts[at], sizes, strict=True))
        if adds:
            results[0][where] += updates[0][at]
            continue
        made = function(*(r[where] for r in results), *(u[at] for u in updates))
        for result, value in zip(results, made if n > 1 else (made,), strict=True):
            result[where] = value
    return tuple(results) if n > 1 else results[0]


INDEX_RULES: Final[dict[str, Rule]] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
}
