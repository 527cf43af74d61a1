"""Sparse tensors with other shapes: transposed, joined, cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._C import int32, int64
from minitensor._functions.offered import arange, cat, promote_types, searchsorted, tensor, where
from minitensor.composite.layout import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from minitensor.sparse.conversion import as_coo, to_compressed
from minitensor.sparse.dispatch import handler, refuse
from minitensor.sparse.tensor import BLOCKS, Pattern, build, elements_of, is_sparse

__all__ = ["permute", "transpose"]

_OTHER_WAY = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


def _dim(dim: Any, rank: int) -> int:
    number = dim.__index__()
    if not -rank <= number < max(rank, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], but got "
            f"{number})"
        )
    return int(number % rank) if rank else 0


def _numbers(dims: Any) -> tuple[Any, ...]:
    return tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], (tuple, list, _C.Size)) else dims


@handler("permute")
def permute(input: Any, *dims: Any) -> Any:
    """The dimensions in another order: the sparse ones among themselves, and so the dense ones."""
    rank = input.ndim
    order = [_dim(d, rank) for d in _numbers(dims)]
    if sorted(order) != list(range(rank)):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(order)}"
            if len(order) != rank
            else "permute(): duplicate dims are not allowed."
        )
    pattern = input._pattern
    if not pattern.is_coo:
        if order == list(range(rank)):
            return input
        batch = pattern.batch_dims
        if order == [*range(batch), batch + 1, batch, *range(batch + 2, rank)]:
            return transpose(input, batch, batch + 1)
        raise refuse("permute", input)
    sparse = pattern.sparse_dim
    if any((d < sparse) != (i < sparse) for i, d in enumerate(order)):
        raise RuntimeError(
            "transpose(): sparse dimensions can't be swapped with dense ones: "
            f"the first {sparse} dimensions are sparse, the order is {order}"
        )
    if order == list(range(rank)):
        return build(pattern, elements_of(input))
    size = tuple(pattern.size[d] for d in order)
    first = order[:sparse]
    moves = first != list(range(sparse))
    indices = pattern.indices[0][tensor(first, device=input.device)] if moves else pattern.indices[0]
    values = elements_of(input)
    values = values.permute(0, *(d - sparse + 1 for d in order[sparse:])) if pattern.dense_dim else values
    return build(Pattern(pattern.layout, size, (indices,), pattern.coalesced and not moves), values)


@handler("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: Any, dim1: Any) -> Any:
    """Two dimensions swapped; a compressed layout becomes the other one, over the same components."""
    rank = input.ndim
    a, b = sorted((_dim(dim0, rank), _dim(dim1, rank)))
    pattern = input._pattern
    if pattern.is_coo:
        order = list(range(rank))
        if order:
            order[a], order[b] = order[b], order[a]
        return permute(input, order)
    if a == b:
        return input
    batch = pattern.batch_dims
    if (a, b) != (batch, batch + 1):
        raise RuntimeError("transpose(): can only swap the two sparse dimensions of a compressed layout")
    size = list(pattern.size)
    size[a], size[b] = size[b], size[a]
    block = (pattern.block[1], pattern.block[0])
    values = elements_of(input)
    if pattern.layout in BLOCKS:
        values = values.transpose(batch + 1, batch + 2)
    kind = _OTHER_WAY[pattern.layout]

    def work_out() -> Pattern:
        return Pattern(kind, tuple(size), pattern.indices, block=block)

    return build(pattern.known("transposed", work_out), values)


@handler("adjoint")
def _adjoint(input: Any) -> Any:
    turned = _t(input)
    return turned if not input.is_complex() else build(turned._pattern, elements_of(turned).conj())


@handler("t", "get T", "get mT")
def _t(input: Any) -> Any:
    if input.ndim > 2 or (not input._pattern.is_coo and input.ndim != 2):
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {input._pattern.sparse_dim} sparse "
            f"and {input._pattern.dense_dim} dense dimensions"
        )
    return transpose(input, 0, 1) if input.ndim == 2 else input


@handler("unsqueeze")
def _unsqueeze(input: Any, dim: Any) -> Any:
    pattern = input._pattern
    if not pattern.is_coo:
        raise refuse("unsqueeze", input)
    at = _dim(dim, input.ndim + 1)
    size = (*pattern.size[:at], 1, *pattern.size[at:])
    if at > pattern.sparse_dim:
        values = elements_of(input).unsqueeze(at - pattern.sparse_dim + 1)
        return build(Pattern(pattern.layout, size, pattern.indices, pattern.coalesced), values)
    own = pattern.indices[0]
    indices = cat([own[:at], own.new_zeros((1, own.shape[1])), own[at:]])
    return build(Pattern(pattern.layout, size, (indices,), pattern.coalesced), elements_of(input))


@handler("squeeze")
def _squeeze(input: Any, dim: Any = None) -> Any:
    pattern = input._pattern
    if not pattern.is_coo:
        raise refuse("squeeze", input)
    rank = input.ndim
    given = range(rank) if dim is None else [_dim(d, rank) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]
    gone = {d for d in given if rank and pattern.size[d] == 1}
    sparse = pattern.sparse_dim
    kept = [d for d in range(sparse) if d not in gone]
    values = elements_of(input)
    shape = (values.shape[0], *(n for d, n in enumerate(pattern.size) if d >= sparse and d not in gone))
    indices = pattern.indices[0][tensor(kept, dtype=int64, device=input.device)]
    size = tuple(n for d, n in enumerate(pattern.size) if d not in gone)
    return build(Pattern(pattern.layout, size, (indices,), pattern.coalesced), values.reshape(shape))


@handler("cat", "concat", "concatenate")
def _cat(tensors: Sequence[Any], dim: Any = 0, *, axis: Any = None, out: Any = None) -> Any:
    dim = dim if axis is None else axis
    if not all(is_sparse(t) and t._pattern.is_coo for t in tensors):
        raise RuntimeError(
            "cat: expected all tensors to be of layout sparse_coo: a sparse and a dense one can't be joined"
        )
    first = tensors[0]._pattern
    rank = len(first.size)
    at = _dim(dim, rank)
    for one in tensors[1:]:
        own = one._pattern
        if own.sparse_dim != first.sparse_dim or own.dense_dim != first.dense_dim:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {first.sparse_dim}, {first.dense_dim}, but "
                f"one has {own.sparse_dim}, {own.dense_dim}"
            )
        if any(n != m for d, (n, m) in enumerate(zip(first.size, own.size, strict=True)) if d != at):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.size)} (except in the concatenating dimension), "
                f"but one is {list(own.size)}"
            )
    dtype = tensors[0].dtype
    for one in tensors[1:]:
        dtype = promote_types(dtype, one.dtype)
    indices, values, begin = [], [], 0
    sparse = first.sparse_dim
    total = sum(one._pattern.size[at] for one in tensors)
    for one in tensors:
        own, elements = one._pattern, elements_of(one).to(dtype)
        here = own.indices[0]
        if at < sparse:
            shift = here.new_zeros((sparse, 1))
            shift[at] = begin
            here = here + shift
        else:
            # The others' parts of a dense dimension are zero where only this one has an element.
            inner = at - sparse + 1
            before = elements.new_zeros((*elements.shape[:inner], begin, *elements.shape[inner + 1 :]))
            rest = total - begin - own.size[at]
            after = elements.new_zeros((*elements.shape[:inner], rest, *elements.shape[inner + 1 :]))
            elements = cat([before, elements, after], inner)
        begin += own.size[at]
        indices.append(here)
        values.append(elements)
    size = (*first.size[:at], total, *first.size[at + 1 :])
    return build(Pattern(first.layout, size, (cat(indices, 1),)), cat(values))


@handler("stack")
def _stack(tensors: Sequence[Any], dim: Any = 0, *, out: Any = None) -> Any:
    if not all(map(is_sparse, tensors)):
        raise RuntimeError("stack: expected all tensors to be sparse: a sparse and a dense one can't be joined")
    at = _dim(dim, tensors[0].ndim + 1)
    return _cat([_unsqueeze(one, at) for one in tensors], at)


def _kept(pattern: Pattern, values: Any, keep: Any, indices: Any, size: tuple[int, ...], coalesced: bool) -> Any:
    places = keep.nonzero().reshape(-1)
    made = Pattern(pattern.layout, size, (indices.index_select(1, places),), coalesced)
    return build(made, values.index_select(0, places))


@handler("select", "select_copy")
def _select(input: Any, dim: Any, index: Any) -> Any:
    if not input._pattern.is_coo:
        return _select_compressed(input, dim, index)
    pattern, rank = input._pattern, input.ndim
    if rank == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at = _dim(dim, rank)
    length, number = pattern.size[at], index.__index__()
    if not -length <= number < length:
        raise IndexError(
            f"select(): index {number} out of range for tensor of size {list(pattern.size)} at dimension {at}"
        )
    number %= length
    size = (*pattern.size[:at], *pattern.size[at + 1 :])
    if at >= pattern.sparse_dim:
        values = elements_of(input).select(at - pattern.sparse_dim + 1, number)
        return build(Pattern(pattern.layout, size, pattern.indices, pattern.coalesced), values)
    own = pattern.indices[0]
    rows = [d for d in range(pattern.sparse_dim) if d != at]
    hit = (own[at] == number).nonzero().reshape(-1)
    values = elements_of(input).index_select(0, hit)
    if not rows:
        return values.sum(0)  # no sparse dimension is left: PyTorch gives the dense part
    indices = own.index_select(1, hit)[tensor(rows, device=input.device)]
    return build(Pattern(pattern.layout, size, (indices,), pattern.coalesced), values)


def _select_compressed(input: Any, dim: Any, index: Any) -> Any:
    pattern = input._pattern
    at = _dim(dim, input.ndim)
    batch = pattern.batch_dims
    if at < batch:
        length, number = pattern.size[at], index.__index__()
        if not -length <= number < length:
            raise IndexError(
                f"select(): index {number} out of range for tensor of size {list(pattern.size)} at dimension {at}"
            )
        parts = tuple(one.select(at, number) for one in pattern.indices)
        size = (*pattern.size[:at], *pattern.size[at + 1 :])
        return build(Pattern(pattern.layout, size, parts, block=pattern.block), elements_of(input).select(at, number))
    if batch or pattern.block_dims or pattern.dense_dim:
        raise refuse("select", input)
    # Of one row, or column, the elements as a tensor of one dimension.
    return _select(as_coo(input), at, index)


@handler("index_select")
def _index_select(input: Any, dim: Any, index: Any, *, out: Any = None) -> Any:
    if is_sparse(index) or not is_sparse(input):
        raise refuse("index_select by sparse indices", index)
    if not input._pattern.is_coo:
        made = _index_select(as_coo(input), dim, index)
        return to_compressed(made, input._pattern.layout, input._pattern.block if input._pattern.block_dims else None)
    pattern, rank = input._pattern, input.ndim
    at = _dim(dim, rank)
    if index.ndim > 1 or index.dtype not in (int64, int32):
        raise IndexError("index_select() argument index must be 1-D long-tensor.")
    index = index.reshape(-1).to(int64)
    length = pattern.size[at]
    if index.numel() and (int(index.min()) < -length or int(index.max()) >= length):
        raise IndexError(f"index_select(): index contains one that is out of range for dimension of size {length}")
    index = where(index < 0, index + length, index)
    size = (*pattern.size[:at], int(index.shape[0]), *pattern.size[at + 1 :])
    if at >= pattern.sparse_dim:
        values = elements_of(input).index_select(at - pattern.sparse_dim + 1, index)
        return build(Pattern(pattern.layout, size, pattern.indices, pattern.coalesced), values)
    own = pattern.indices[0]
    # Pairs of an element and a place of the index that names its own, in the order of the index.
    order = index.argsort(stable=True)
    rising = index[order]
    low = searchsorted(rising, own[at].contiguous())
    counts = searchsorted(rising, own[at].contiguous(), right=True) - low
    which = arange(own.shape[1], device=own.device).repeat_interleave(counts)
    begin = counts.cumsum(0) - counts
    step = arange(which.shape[0], device=own.device) - begin[which]
    indices = own.index_select(1, which)
    indices[at] = order[low[which] + step]
    return build(Pattern(pattern.layout, size, (indices,)), elements_of(input).index_select(0, which))


@handler("narrow_copy", "narrow")
def _narrow_copy(input: Any, dim: Any, start: Any, length: Any) -> Any:
    if not input._pattern.is_coo:
        raise refuse("narrow_copy", input)
    pattern, rank = input._pattern, input.ndim
    at = _dim(dim, rank)
    whole, begin, count = pattern.size[at], int(start), int(length)
    begin = begin + whole if begin < 0 else begin
    if count < 0 or begin < 0 or begin + count > whole:
        raise RuntimeError(
            f"Invalid range to narrow. range(start, start+length) must be a subset of range(0, {whole})."
        )
    size = (*pattern.size[:at], count, *pattern.size[at + 1 :])
    values = elements_of(input)
    if at >= pattern.sparse_dim:
        values = values.narrow(at - pattern.sparse_dim + 1, begin, count)
        return build(Pattern(pattern.layout, size, pattern.indices, pattern.coalesced), values)
    own = pattern.indices[0]
    shift = own.new_zeros((pattern.sparse_dim, 1))
    shift[at] = begin
    keep = (own[at] >= begin) & (own[at] < begin + count)
    return _kept(pattern, values, keep, own - shift, size, pattern.coalesced)


@handler("__getitem__")
def _getitem(input: Any, key: Any) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    if is_sparse(key) or any(isinstance(k, _C.Tensor) and is_sparse(k) for k in keys):
        raise refuse("__getitem__ with a sparse index", _found(keys))
    if any(k is Ellipsis for k in keys):
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        fill = input.ndim - sum(k is not None for k in keys) + 1
        keys = (*keys[:at], *[slice(None)] * fill, *keys[at + 1 :])
    made, dim = input, 0
    for number, k in enumerate(keys):
        if not is_sparse(made):
            return made[tuple([slice(None)] * dim + list(keys[number:]))]
        if k is None:
            made, dim = _unsqueeze(made, dim), dim + 1
        elif isinstance(k, slice):
            begin, end, step = k.indices(made.shape[dim])
            if step != 1:
                raise refuse("__getitem__ with a step", made)
            if (begin, end) != (0, made.shape[dim]):
                made = _narrow_copy(made, dim, begin, max(end - begin, 0))
            dim += 1
        elif isinstance(k, _C.Tensor) and k.ndim == 1 and k.dtype in (int64, int32):
            made, dim = _index_select(made, dim, k), dim + 1
        elif isinstance(k, _C.Tensor) and k.ndim == 1 and k.dtype is _C.bool:
            made, dim = _index_select(made, dim, k.nonzero().reshape(-1)), dim + 1
        elif isinstance(k, (tuple, list)):
            made, dim = _index_select(made, dim, tensor(list(k), dtype=int64)), dim + 1
        elif isinstance(k, _C.Tensor) and k.ndim:
            raise refuse("__getitem__ with such an index", made)
        else:
            made = _select(made, dim, k)
    return made


def _found(keys: Any) -> Any:
    return next(k for k in keys if is_sparse(k))


@handler("unbind")
def _unbind(input: Any, dim: Any = 0) -> Any:
    return tuple(_select(input, dim, i) for i in range(input.shape[dim]))


@handler("__iter__")
def _iter(input: Any) -> Any:
    return iter(_unbind(input))


@handler("equal")
def _equal(input: Any, other: Any) -> bool:
    raise refuse("equal", input if is_sparse(input) else other)


handler("is_same_size")(lambda input, other: tuple(input.shape) == tuple(other.shape))
