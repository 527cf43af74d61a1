"""Between layouts: COO, CSR, CSC, BSR, BSC and strided."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._functions.offered import arange, searchsorted, stack, unique, zeros
from minitensor.autograd.function import Function
from minitensor.composite.dims import product
from minitensor.composite.layout import layout as layout_type
from minitensor.composite.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from minitensor.sparse.coalesce import coalesced_parts, sums_by_index, unflatten
from minitensor.sparse.masks import at_places, flat_elements
from minitensor.sparse.places import coo_of, flat_places
from minitensor.sparse.tensor import (
    BLOCKS,
    BY_COLUMNS,
    COMPRESSED,
    NAMES,
    Pattern,
    build,
    elements_of,
    is_sparse,
    layout_of,
    raw,
)

__all__ = ["as_coo", "to_compressed", "to_dense", "to_sparse"]


class SparseToDense(Function):
    """All elements, where the gradient of those that aren't there is kept, too."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        ctx.pattern = tensor._pattern
        return _filled(tensor._pattern, tensor._elements)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        pattern = ctx.pattern
        if pattern.is_coo:
            return _dense_to_coo(gradient, pattern.sparse_dim)
        return to_compressed(gradient, pattern.layout, pattern.block if pattern.block_dims else None, pattern.dense_dim)


def _filled(pattern: Pattern, values: Any) -> Any:
    coo = coo_of(pattern)
    count = product(coo.size[: coo.sparse_dim])
    return sums_by_index(flat_elements(pattern, values), flat_places(pattern), count).reshape(pattern.size)


def to_dense(tensor: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """The strided tensor with these elements and zeros elsewhere.

    Gradients are of the elements that are there, unless masked_grad is False: then of all places.
    """
    if not is_sparse(tensor):
        return tensor if dtype is None else tensor.to(dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    if masked_grad is False and _C.is_recorded(tensor):
        return SparseToDense.apply(tensor)
    return _filled(tensor._pattern, elements_of(tensor))


def as_coo(tensor: Any) -> Any:
    """A sparse tensor in layout sparse_coo."""
    pattern = tensor._pattern
    return tensor if pattern.is_coo else build(coo_of(pattern), flat_elements(pattern, elements_of(tensor)))


def _dense_to_coo(tensor: Any, sparse_dim: int) -> Any:
    if tensor.ndim and sparse_dim == 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not 0 <= sparse_dim <= tensor.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{tensor.ndim}] range, but {sparse_dim} is given"
        )
    if tensor.ndim == 0:
        some = int(bool(tensor.detach() != 0))
        pattern = Pattern(sparse_coo, (), (zeros((0, some), dtype=_C.int64),), True)
        return build(pattern, tensor.reshape(1)[:some])
    there = tensor.detach() != 0
    if sparse_dim < tensor.ndim:
        there = there.reshape(*tensor.shape[:sparse_dim], -1).any(-1)
    indices = there.nonzero().t().contiguous()
    pattern = Pattern(sparse_coo, tuple(tensor.shape), (indices,), True)
    return build(pattern, at_places(tensor, pattern))


def _no_more(kind: Any, blocksize: Any, dense_dim: Any, what: str) -> None:
    if blocksize is not None and kind not in BLOCKS:
        raise RuntimeError(f"{what} conversion does not use specified blocksize, but got layout {NAMES[kind]}")


def _named(layout: Any) -> Any:
    if not isinstance(layout, layout_type):
        raise TypeError(f"to_sparse(): argument 'layout' must be a layout, not {type(layout).__name__}")
    return layout


def to_sparse(
    input: Any, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Any:
    """The tensor in a sparse layout, sparse_coo unless another is named: with the elements that aren't zero.

    `sparse_dim`, of sparse_coo, is how many dimensions indices have; the others are dense: a part is there if any of
    its elements isn't zero. `dense_dim` says so for the other layouts. `blocksize` is of those with blocks.
    """
    if sparse_dim is not None:
        if layout is not None or blocksize is not None or dense_dim is not None:
            raise TypeError("to_sparse() takes sparse_dim, or layout, blocksize and dense_dim")
        if not is_sparse(input):
            return _dense_to_coo(input, sparse_dim.__index__())
        if not input._pattern.is_coo or sparse_dim != input._pattern.sparse_dim:
            raise RuntimeError(
                f"to_sparse: conversion from {layout_of(input)} to Sparse with sparse_dim argument "
                "!=self.sparse_dim() is not supported"
            )
        return input
    kind = sparse_coo if layout is None else _named(layout)
    if kind is strided:
        return to_dense(input)
    _no_more(kind, blocksize, dense_dim, f"to_sparse: {layout_of(input)} to {NAMES[kind]}")
    if kind in BLOCKS and blocksize is None and not (is_sparse(input) and input._pattern.layout in BLOCKS):
        raise RuntimeError(
            f"to_sparse: {layout_of(input)} to {NAMES[kind]} conversion requires blocksize to be specified"
        )
    if kind in COMPRESSED:
        return to_compressed(input, kind, blocksize, dense_dim)
    if is_sparse(input):
        return as_coo(input) if dense_dim is None else _other_dims(input, dense_dim)
    return _dense_to_coo(input, input.ndim - (dense_dim or 0))


def _other_dims(tensor: Any, dense_dim: int) -> Any:
    if tensor._pattern.dense_dim != dense_dim:
        raise RuntimeError(
            f"to_sparse: conversion from {layout_of(tensor)} to Sparse with another number of dense dimensions is not "
            "supported"
        )
    return as_coo(tensor)


def to_compressed(tensor: Any, kind: Any, blocksize: Any = None, dense_dim: Any = None) -> Any:
    """A tensor, strided or in any sparse layout, in a compressed one."""
    if kind in BLOCKS and blocksize is not None:
        blocksize = tuple(n.__index__() for n in blocksize)
        if len(blocksize) != 2 or min(blocksize) < 1:
            raise RuntimeError(f"blocksize needs to be a tuple of two positive ints, but got {list(blocksize)}")
    name = NAMES[kind].removeprefix("Sparse").lower()
    if is_sparse(tensor):
        pattern = tensor._pattern
        if pattern.layout is kind and (kind not in BLOCKS or blocksize in (None, pattern.block)):
            return tensor
        if dense_dim is not None and dense_dim != pattern.dense_dim:
            raise RuntimeError(
                f"to_sparse_{name}: conversion from {layout_of(tensor)} with another number of dense dimensions is not "
                "supported"
            )
        if kind in BLOCKS and blocksize is None:
            blocksize = pattern.block
        dense = pattern.dense_dim
        batch = len(pattern.size) - 2 - dense
        if pattern.is_coo and batch:
            raise RuntimeError(
                f"to_sparse_{name}: conversion from Sparse to {NAMES[kind]} for input tensors with sparse_dim()!=2 is "
                "not supported"
            )
    else:
        dense = 0 if dense_dim is None else dense_dim.__index__()
        if tensor.ndim < 2:
            raise RuntimeError(
                f"to_sparse_{name}: conversion from Strided to {NAMES[kind]} for input tensors with less than 2 "
                f"dimensions is not supported, got {tensor.ndim}"
            )
        if not 0 <= dense <= tensor.ndim - 2:
            raise RuntimeError(
                f"dense_to_sparse_{name}: number of dense dimensions (={dense}) must be at most the number of "
                f"dimensions minus 2 (={tensor.ndim - 2})"
            )
        batch = tensor.ndim - 2 - dense
    size = tuple(tensor.shape)
    block = blocksize if kind in BLOCKS else (1, 1)
    if size[batch] % block[0] or size[batch + 1] % block[1]:
        raise RuntimeError(
            f"dense_to_sparse_{name}: tensor sparse size ({size[batch]},{size[batch + 1]}) must be divisible by given "
            f"blocksize ({block[0]},{block[1]})"
        )
    if is_sparse(tensor):
        places, _ = coalesced_parts(raw(tensor._pattern, tensor._elements))
    else:
        there = tensor.detach() != 0
        if dense:
            there = there.reshape(*size[: batch + 2], -1).any(-1)
        places = there.reshape(-1).nonzero().reshape(-1)
    pattern = _compressed_pattern(kind, size, batch, block, places)
    return build(pattern, at_places(tensor, pattern))


def _compressed_pattern(kind: Any, size: tuple[int, ...], batch: int, block: tuple[int, int], places: Any) -> Pattern:
    """The pattern of a compressed layout that has the places, rising numbers in row-major order."""
    rows, cols = size[batch] // block[0], size[batch + 1] // block[1]
    count = product(size[:batch])
    lead = unflatten(places, (count, size[batch], size[batch + 1]))
    main, other = lead[1] // block[0], lead[2] // block[1]
    if kind in BY_COLUMNS:
        main, other, rows, cols = other, main, cols, rows
    flat = (lead[0] * rows + main) * cols + other
    if kind in BLOCKS or kind in BY_COLUMNS:
        flat = unique(flat)
    number, main, other = unflatten(flat, (count, rows, cols))
    first, second = [], []
    nnz = None
    for at in range(count):
        mine = number == at if count > 1 else None
        row, col = (main, other) if mine is None else (main[mine], other[mine])
        if nnz is not None and int(col.shape[0]) != nnz:
            raise RuntimeError("Expect the same number of specified elements per batch.")
        nnz = int(col.shape[0])
        first.append(_crow(row.contiguous(), rows))
        second.append(col)
    if batch:
        none = places.new_zeros((0, rows + 1))
        compressed = (stack(first) if first else none).reshape(*size[:batch], rows + 1)
        plain = (stack(second) if second else none[:, :0]).reshape(*size[:batch], nnz or 0)
    else:
        compressed, plain = first[0], second[0]
    return Pattern(kind, size, (compressed, plain), block=block)


def _crow(row: Any, count: int) -> Any:
    return searchsorted(row, arange(count + 1, device=row.device))


def to_sparse_csr(input: Any, dense_dim: Any = None) -> Any:
    """The tensor in layout sparse_csr; see `to_sparse`."""
    return to_compressed(input, sparse_csr, None, dense_dim)


def to_sparse_csc(input: Any, dense_dim: Any = None) -> Any:
    """The tensor in layout sparse_csc; see `to_sparse`."""
    return to_compressed(input, sparse_csc, None, dense_dim)


def to_sparse_bsr(input: Any, blocksize: Any, dense_dim: Any = None) -> Any:
    """The tensor in layout sparse_bsr, of blocks of that size; see `to_sparse`."""
    return to_compressed(input, sparse_bsr, blocksize, dense_dim)


def to_sparse_bsc(input: Any, blocksize: Any, dense_dim: Any = None) -> Any:
    """The tensor in layout sparse_bsc, of blocks of that size; see `to_sparse`."""
    return to_compressed(input, sparse_bsc, blocksize, dense_dim)
