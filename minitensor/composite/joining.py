"""Tensors put together, and taken apart."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._warning import warn_of_pytorch
from minitensor.composite.dims import is_int, normal_dim
from minitensor.composite.numbers import whole_sizes
from minitensor.composite.registry import composite, grad_fn, one_node, shortcut
from minitensor.composite.shape import atleast_1d, atleast_2d, atleast_3d, reshape, unpacked
from minitensor.ops import movement
from minitensor.ops.creation import full

Tensor = _C.Tensor
_slice = movement.slice


def _some(name: str, tensors: Sequence[Any]) -> Sequence[Any]:
    if not isinstance(tensors, (tuple, list)):
        kind = type(tensors).__name__
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {kind}")
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@composite(method=False, out="castable")
@shortcut("L", _C.stack)
@grad_fn("StackBackward0")
def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, side by side along a new dimension."""
    first = _some("stack", tensors)[0].shape
    dim = normal_dim(dim, len(first) + 1)
    for i, other in enumerate(tensors):
        if other.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 "
                f"and {list(other.shape)} at entry {i}"
            )
    return movement.cat([movement.unsqueeze(other, dim) for other in tensors], dim)


@composite(method=False, out="castable")
def hstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors along the second dimension; vectors along their only one."""
    parts = atleast_1d(list(_some("hstack", tensors)))
    return movement.cat(parts, 0 if parts[0].ndim == 1 else 1)


@composite(aliases=("row_stack",), method=False, out="castable")
def vstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors along the first dimension, vectors as rows."""
    return movement.cat(atleast_2d(list(_some("vstack", tensors))), 0)


@composite(method=False, out="castable")
def dstack(tensors: Sequence[Any]) -> Tensor:
    """The tensors along the third dimension."""
    return movement.cat(atleast_3d(list(_some("dstack", tensors))), 2)


@composite(method=False, out="castable")
def column_stack(tensors: Sequence[Any]) -> Tensor:
    """The tensors along the second dimension, vectors as columns."""
    parts = [reshape(x, (x.numel(), 1)) if x.ndim <= 1 else x for x in _some("column_stack", tensors)]
    return movement.cat(parts, 1)


@composite(method=False)
@grad_fn("BlockDiagBackward0")
def block_diag(*tensors: Any) -> Tensor:
    """The matrices along the diagonal of a large one that is zero elsewhere; vectors count as rows."""
    if not tensors:
        return full((1, 0), 0, dtype=_C.get_default_dtype())
    blocks = []
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
        blocks.append(atleast_2d(x))
    width = sum(x.shape[1] for x in blocks)
    rows, left = [], 0
    for x in blocks:
        rows.append(movement.constant_pad_nd(x, (left, width - left - x.shape[1])))
        left += x.shape[1]
    return movement.cat(rows, 0)


@composite(method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Coordinates of the grid over vectors: each expanded over the others' dimensions.

    `indexing` "ij" has one dimension a vector in their order, "xy" the first two swapped. Numbers count as vectors.
    """
    given = unpacked(tensors)
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn_of_pytorch(
            "minitensor.meshgrid: in an upcoming release, it will be required to pass the indexing argument."
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in given:
        if x.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
        if x.dtype is not given[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(given) >= 2
    if swap:
        given = (given[1], given[0], *given[2:])
    shape = tuple(x.numel() for x in given)
    grids = []
    for d, x in enumerate(given):
        column = reshape(x, tuple(n if i == d else 1 for i, n in enumerate(shape)))
        grids.append(movement.expand(column, shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@composite(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All ways to take one element of each vector, a row each; of one vector, itself."""
    given = unpacked(tensors)
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in given:
        if x.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(given) == 1:
        return given[0]
    return stack([reshape(g, -1) for g in meshgrid(*given, indexing="ij")], 1)


@composite()
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take r elements of a vector, in order, a row each."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    r = operator.index(r)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return full((0,), 0, dtype=input.dtype, device=input.device)
    count = math.comb(input.numel() + (r - 1 if with_replacement else 0), r)
    if count * r >= 2**40:  # before the work of listing them
        raise _C.OutOfMemoryError(f"combinations: {count} rows of {r} elements take more than {count * r * 8} bytes")
    from minitensor.ops.index import index_select

    places = _choices(input.numel(), r, count, with_replacement) if count else full((0, r), 0, dtype=_C.int64)
    return index_select(input, places.to(input.device), 0)


def _choices(n: int, r: int, count: int, again: bool) -> Any:
    """The `count` ways to choose r of n numbers, in order, a row each."""
    import numpy as np

    try:
        rows = np.empty((count, r), np.int64)
        step = 0 if again else 1
        # How many rows go on from each number in each column: the sum over the numbers that may follow.
        onward = [np.ones(n, np.int64)]
        for _ in range(r - 1):
            following = np.cumsum(onward[-1][::-1])[::-1]
            onward.append(np.append(following[step:], np.zeros(step, np.int64)))
        onward.reverse()
        column = np.flatnonzero(onward[0])
        rows[:, 0] = np.repeat(column, onward[0][column])
        for k in range(1, r):
            high = n - step * (r - 1 - k)
            several = high - step - column
            ends = np.cumsum(several)
            column = np.arange(ends[-1]) + np.repeat(column + step - (ends - several), several)
            rows[:, k] = np.repeat(column, onward[k][column])
    except MemoryError:
        raise _C.OutOfMemoryError(f"combinations: no memory for {count} rows of {r} elements") from None
    return _C.from_numpy(rows)


# ---- apart


@composite()
@shortcut("Ti?i", _C.split, after=(0,))
def split(tensor: Any, split_size_or_sections: Any = None, dim: int = 0, **more: Any) -> tuple[Any, ...]:
    """The tensor in parts along dim: of one size, the last smaller, or of the sizes given. Parts are views."""
    size = more.pop("split_size", split_size_or_sections)
    if more or size is None:
        raise TypeError("split() takes a tensor, a size or a sequence of sizes, and a dimension")
    if isinstance(size, Tensor):  # of any dtype, if it has one element
        if size.numel() != 1:
            raise TypeError(f"split(): a tensor that is a size has one element, got one of shape {list(size.shape)}")
        size = int(size)
    if isinstance(size, bool):
        raise TypeError("split(): argument 'split_size' must be int or a sequence of ints, not bool")
    if not isinstance(size, int):
        return _parts_of_sizes(tensor, size, dim)
    shape = tensor.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    d = normal_dim(dim, len(shape)) if dim else 0
    n = shape[d]
    if size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    if n == 0:
        return (movement.alias(tensor),)
    return _parts(tensor, d, size, n)


@one_node(None, "SplitBackward0")
def _parts(tensor: Any, d: int, size: int, n: int) -> tuple[Any, ...]:
    return tuple([_slice(tensor, d, i, i + size, 1) for i in range(0, n, size)])


@composite()
@grad_fn(None, "SplitWithSizesBackward0")
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """The tensor in parts of the sizes given along dim."""
    if input.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = normal_dim(dim, input.ndim)
    n, sizes = input.shape[d], list(whole_sizes(split_sizes, "split_with_sizes", "split_sizes"))
    for size in sizes:
        if size < 0:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
            )
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), "
            f"but got split_sizes={sizes}"
        )
    parts, start = [], 0
    for size in sizes:
        parts.append(movement.slice(input, d, start, start + size, 1))
        start += size
    return tuple(parts)


_parts_of_sizes = one_node(None, "SplitWithSizesBackward0")(split_with_sizes)


@composite()
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` parts of equal size along dim, the last smaller."""
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if not is_int(chunks):
        raise TypeError(f"chunk(): argument 'chunks' must be int, not {type(chunks).__name__}")
    chunks = int(chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = normal_dim(dim, input.ndim)
    n = input.shape[d]
    size = -(-n // chunks)
    if size == 0:
        if chunks > 1 << 31:
            raise _C.OutOfMemoryError(f"chunk: {chunks} tensors take more than {chunks * 64} bytes")
        return split_with_sizes(input, [0] * chunks, d)
    return split(input, size, d)


@composite()
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Any, ...]:
    """The tensor in parts along dim: so many, the first ones larger, or cut at the indices."""
    given = next((a for a in (indices_or_sections, indices, sections) if a is not None), None)
    if given is None:
        raise TypeError("tensor_split() needs indices or a number of sections")
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = normal_dim(dim, input.ndim)
    if isinstance(given, Tensor):
        if given.dtype is not _C.int64 or given.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor"
                " of dtype long"
            )
        given = given.tolist()
    elif isinstance(given, bool):
        raise TypeError("tensor_split(): argument 'sections' must be int, not bool")
    elif is_int(given):
        given = operator.index(given)
    n = input.shape[d]
    if isinstance(given, int) and given > 1 << 31:
        raise _C.OutOfMemoryError(f"tensor_split: {given} tensors take more than {given * 64} bytes")
    if isinstance(given, int):
        if given <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {given}")
        small, larger = divmod(n, given)
        given = [small * i + (i if i < larger else larger) for i in range(1, given)]
    ends = [*given, n]
    parts, start = [], 0
    for end in ends:
        parts.append(movement.slice(input, d, start, end, 1))
        start = end
    return tuple(parts)


def _split_along(name: str, input: Any, given: Any, dim: int) -> tuple[Any, ...]:
    if is_int(given):
        given = operator.index(given)
    if isinstance(given, int) and (given <= 0 or input.shape[dim] % given):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{input.shape[dim]} is not divisible by the split_size {given}!"
        )
    return tensor_split(input, given, dim)


def _one_of(*given: Any) -> Any:
    return next((a for a in given if a is not None), None)


@composite()
def hsplit(
    input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` by columns; equal parts only. Vectors are split along their dimension."""
    if input.ndim < 1:
        raise RuntimeError(
            "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!"
        )
    return _split_along("hsplit", input, _one_of(indices_or_sections, indices, sections), 0 if input.ndim == 1 else 1)


@composite()
def vsplit(
    input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` by rows; equal parts only."""
    if input.ndim < 2:
        raise RuntimeError(
            f"torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with {input.ndim} dimensions!"
        )
    return _split_along("vsplit", input, _one_of(indices_or_sections, indices, sections), 0)


@composite()
def dsplit(
    input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along the third dimension; equal parts only."""
    if input.ndim < 3:
        raise RuntimeError(
            f"torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with {input.ndim} dimensions!"
        )
    return _split_along("dsplit", input, _one_of(indices_or_sections, indices, sections), 2)


@composite()
@grad_fn(None, "UnsafeSplitBackward0")
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """`split`."""
    return split(input, split_size, dim)


@composite()
def unsafe_split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """`split_with_sizes`."""
    return split_with_sizes(input, split_sizes, dim)


@composite()
@grad_fn(None, "UnsafeSplitBackward0")
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """`chunk`."""
    return chunk(input, chunks, dim)
