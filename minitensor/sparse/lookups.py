"""Lookups in a table whose gradient is a sparse tensor: of the rows, or elements, that were named."""

from __future__ import annotations

from typing import Any

from minitensor._C import int64
from minitensor._functions import offered
from minitensor._functions.offered import arange, stack
from minitensor.autograd.function import Function
from minitensor.composite.layout import sparse_coo
from minitensor.ops.nn.embedding import embedding as _embedding
from minitensor.sparse.tensor import Pattern, build

__all__ = ["embedding", "gather"]


class SparseEmbedding(Function):
    """Rows of a table. Its gradient has a row for each that was named, in the order of the indices."""

    @staticmethod
    def forward(ctx: Any, weight: Any, indices: Any, padding_idx: int) -> Any:
        ctx.size, ctx.padding_idx = tuple(weight.shape), padding_idx
        ctx.save_for_backward(indices)
        return _embedding(weight, indices, padding_idx, False)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (indices,) = ctx.saved_tensors
        rows = indices.reshape(-1).to(int64)
        values = gradient.reshape(-1, ctx.size[1])
        if ctx.padding_idx >= 0:
            kept = (rows != ctx.padding_idx).nonzero().reshape(-1)
            rows, values = rows.index_select(0, kept), values.index_select(0, kept)
        return build(Pattern(sparse_coo, ctx.size, (rows.unsqueeze(0),)), values), None, None


class SparseGather(Function):
    """Elements along a dimension. Its gradient has an element for each that was named."""

    @staticmethod
    def forward(ctx: Any, input: Any, dim: int, index: Any) -> Any:
        ctx.size, ctx.dim = tuple(input.shape), dim
        ctx.save_for_backward(index)
        return offered.gather(input, dim, index)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (index,) = ctx.saved_tensors
        places = []
        for dim, length in enumerate(index.shape):
            if dim == ctx.dim:
                places.append(index.reshape(-1))
            else:
                shape = [length if d == dim else 1 for d in range(index.ndim)]
                places.append(arange(length, device=index.device).reshape(shape).expand(index.shape).reshape(-1))
        pattern = Pattern(sparse_coo, ctx.size, (stack(places),))
        return build(pattern, gradient.reshape(-1)), None, None


def embedding(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """`nn.functional.embedding` with a sparse gradient for the weight."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    return SparseEmbedding.apply(weight, indices, padding_idx)


def gather(input: Any, dim: int, index: Any) -> Any:
    """`gather` with a sparse gradient for the input."""
    return SparseGather.apply(input, dim % max(input.ndim, 1), index)
