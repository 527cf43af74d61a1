"""Sums and softmax of sparse tensors."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import int8, int16, int32, int64, uint8
from minitensor._functions import offered
from minitensor._functions.offered import unique
from minitensor.autograd.function import Function
from minitensor.sparse.coalesce import coalesce
from minitensor.sparse.conversion import as_coo, to_compressed
from minitensor.sparse.dispatch import handler, refuse
from minitensor.sparse.places import flat_of
from minitensor.sparse.tensor import Pattern, build, elements_of, is_sparse, layout_of

__all__ = ["log_softmax", "softmax", "sum_of"]


def _dims(dim: Any, rank: int) -> list[int]:
    given = [dim] if not isinstance(dim, (tuple, list)) else list(dim)
    found = []
    for one in given:
        number = one.__index__()
        if not -rank <= number < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {number})"
            )
        if number % rank in found:
            raise RuntimeError(f"dim {number % rank} appears multiple times in the list of dims")
        found.append(number % rank)
    return sorted(found)


class SparseTotal(Function):
    """The sum of all elements; its gradient is of all places."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        ctx.size = tensor._pattern.size
        return tensor._elements.sum()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.expand(ctx.size)


@handler("sum")
def _sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None) -> Any:
    dim = dim if axis is None else axis
    if dtype is not None:
        input = build(input._pattern, elements_of(input).to(dtype))
    if (dim is None and not keepdim) or (isinstance(dim, (tuple, list)) and not dim and not keepdim):
        if _C.is_recorded(input):
            return SparseTotal.apply(input)
        return input._elements.sum()
    dims = (
        _dims(range(input.ndim) if dim is None or dim == () else dim, input.ndim) if not isinstance(dim, range) else []
    )
    if not input._pattern.is_coo:
        return _compressed_sum(input, dims, keepdim)
    return sum_of(input, dims, keepdim)


def _compressed_sum(tensor: Any, dims: list[int], keepdim: bool) -> Any:
    pattern = tensor._pattern
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if pattern.layout._name != "sparse_csr" or pattern.batch_dims or pattern.dense_dim:
        raise refuse("sum over dimensions", tensor)
    return to_compressed(sum_of(as_coo(tensor), dims, True), pattern.layout)


def sum_of(tensor: Any, dims: list[int], keepdim: bool = False) -> Any:
    """The sum over dimensions of a sparse_coo tensor: sparse, unless no sparse dimension is left."""
    pattern = tensor._pattern
    sparse, rank = pattern.sparse_dim, len(pattern.size)
    values = elements_of(tensor)
    if values.dtype in (_C.bool, uint8, int8, int16, int32):
        values = values.to(int64)
    inner = [d - sparse + 1 for d in dims if d >= sparse]
    if inner:
        values = values.sum(inner, keepdim=keepdim)
    left = [d for d in range(sparse) if d not in dims]
    size = [1 if d in dims else n for d, n in enumerate(pattern.size) if keepdim or d not in dims]
    if not left and not keepdim:
        return values.sum(0)
    own = pattern.indices[0]
    if len(left) == sparse:
        return build(Pattern(pattern.layout, tuple(size), (own,), pattern.coalesced), values)
    if keepdim:
        gone = own.clone()
        gone[offered.tensor([d for d in dims if d < sparse], device=own.device)] = 0
        indices = gone
    else:
        indices = own.index_select(0, offered.tensor(left, dtype=int64, device=own.device))
    if rank == 0:
        return values.sum(0)
    return coalesce(build(Pattern(pattern.layout, tuple(size), (indices,)), values))


def masked_sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """`sparse.sum`: as `Tensor.sum`, with gradients at the places that are there."""
    if not is_sparse(input) or not input._pattern.is_coo:
        raise RuntimeError(f"sparse.sum expected sparse coordinate tensor layout but got {layout_of(input)}")
    if dtype is not None:
        input = build(input._pattern, elements_of(input).to(dtype))
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return elements_of(input).sum()
    return sum_of(input, _dims(dim, input.ndim))


def _grouped(input: Any, dim: Any, dtype: Any, name: str) -> Any:
    if not is_sparse(input) or not input._pattern.is_coo:
        raise RuntimeError(f"sparse.{name} expected sparse coordinate tensor layout but got {layout_of(input)}")
    (at,) = _dims(dim, max(input.ndim, 1))
    if dtype is not None:
        input = build(input._pattern, elements_of(input).to(dtype))
    tensor = coalesce(input)
    pattern, values = tensor._pattern, elements_of(tensor)
    if not values.is_floating_point():
        raise NotImplementedError(f"\"{name}\" not implemented for '{values.type().rpartition('.')[2]}'")
    sparse = pattern.sparse_dim
    if at >= sparse:
        return build(pattern, getattr(offered, name)(values, at - sparse + 1))
    if not pattern.nnz:
        return build(pattern, values)
    others = [d for d in range(sparse) if d != at]
    lead = pattern.indices[0].index_select(0, offered.tensor(others, dtype=int64, device=values.device))
    if others:
        groups, inverse = unique(flat_of(lead, tuple(pattern.size[d] for d in others)), return_inverse=True)
        count = int(groups.shape[0])
    else:
        inverse, count = pattern.indices[0].new_zeros(pattern.nnz), 1
    # Places that aren't there count as -inf.
    index = inverse.reshape(-1, *(1 for _ in values.shape[1:])).expand(values.shape)
    most = values.detach().new_zeros((count, *values.shape[1:]))
    most = most.scatter_reduce(0, index, values.detach(), "amax", include_self=False)
    shifted = values - most.index_select(0, inverse)
    powers = shifted.exp()
    totals = powers.new_zeros((count, *values.shape[1:])).index_add(0, inverse, powers)
    if name == "softmax":
        return build(pattern, powers / totals.index_select(0, inverse))
    return build(pattern, shifted - totals.log().index_select(0, inverse))


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The softmax over a dimension of a sparse tensor: `exp(x) / sum(exp(x))` of the elements that are there.

    Places without an element count as -inf, and stay without. `dtype` is what the elements are converted to first.
    """
    with _C.DisableTorchFunctionSubclass():
        return _grouped(input, dim, dtype, "softmax")


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax` over a dimension of a sparse tensor, at the elements that are there."""
    with _C.DisableTorchFunctionSubclass():
        return _grouped(input, dim, dtype, "log_softmax")
