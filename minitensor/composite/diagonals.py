"""Diagonals, triangles' relatives, and copies with a part of them replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.dims import ints_of, normal_dim
from minitensor.composite.layout import written_copy
from minitensor.composite.registry import composite, grad_fn
from minitensor.composite.shape import reshape
from minitensor.ops import movement
from minitensor.ops.creation import full
from minitensor.ops.elementwise import row_major

Tensor = _C.Tensor


@composite(out="exact")
def diag(input: Any, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, as a copy; of a vector, the matrix with it on the diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return row_major(movement.diagonal(input, diagonal))


@composite()
@grad_fn("DiagEmbedBackward0")
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as the diagonal of two new ones, zero elsewhere."""
    rank = input.ndim + 1
    first, second = normal_dim(dim1, rank), normal_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, size)
    made = _C.mapped_like(full(shape, 0, dtype=input.dtype, device=input.device), input)
    movement.diagonal(made, offset, first, second).copy_(input)
    return made


@composite()
def diagflat(input: Any, offset: int = 0) -> Tensor:
    """The matrix with all elements on a diagonal, zero elsewhere."""
    return diag_embed(reshape(input, -1), offset)


@composite()
@grad_fn("SelectScatterBackward0")
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Tensor:
    """A copy of input with src in place of `select(dim, index)`."""
    made = written_copy(input, src)
    _into("select_scatter", movement.select(made, dim, index), src)
    return made


@composite(out="exact")
@grad_fn("SliceScatterBackward0")
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of input with src in place of a range along dim."""
    made = written_copy(input, src)
    _into("slice_scatter", movement.slice(made, dim, start, end, step), src)
    return made


@composite()
@grad_fn("DiagonalScatterBackward0")
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of input with src in place of a diagonal."""
    made = written_copy(input, src)
    _into("diagonal_scatter", movement.diagonal(made, offset, dim1, dim2), src)
    return made


@composite()
@grad_fn("AsStridedScatterBackward0")
def as_strided_scatter(
    input: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of input with src in place of `as_strided(size, stride, storage_offset)`, which shows no element twice.

    The copy has input's strides over a copy of its memory, so what lies between the elements may be written unseen.
    """
    offset = input.storage_offset()
    start = offset if storage_offset is None else storage_offset
    if input.is_contiguous() and not offset:
        made = written_copy(input, src)
    else:
        ends = (_reach(input.shape, input.stride(), offset), _reach(size, stride, start))
        whole = written_copy(movement.as_strided(input, (max(ends),), (1,), 0), src)
        made = movement.as_strided(whole, input.shape, input.stride(), offset)
    _into("as_strided_scatter", movement.as_strided(made, size, stride, start), src)
    return made


def _reach(size: Sequence[int], stride: Sequence[int], offset: int) -> int:
    """How much memory a view needs, in elements."""
    return offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1 if 0 not in size else 0


def _into(name: str, part: Any, src: Any) -> None:
    if tuple(part.shape) != tuple(src.shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(part.shape)}"
        )
    part.copy_(src)


@composite(method=False)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803  (PyTorch's name)
    """The powers of a vector's elements as columns, the highest first, or last if `increasing`."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.numel() if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.int64)
    if count > 1024:
        x.new_empty((x.numel(), count))  # what is too large for memory is refused before its columns fill it
    columns = [full((x.numel(),), 1, dtype=x.dtype, device=x.device)]
    for _ in range(1, count):
        columns.append(columns[-1] * x)
    columns = columns[:count]
    if not columns:
        return full((x.numel(), 0), 0, dtype=x.dtype, device=x.device)
    ordered = columns if increasing else columns[::-1]
    return movement.cat([movement.unsqueeze(c, 1) for c in ordered], 1)


@composite(method=False)
def unravel_index(indices: Any, shape: int | Sequence[int]) -> tuple[Any, ...]:
    """Places that count through all elements of a shape, as one index a dimension; too large ones begin anew."""
    if not isinstance(indices, Tensor) or indices.is_floating_point() or indices.is_complex():
        what = indices.dtype if isinstance(indices, Tensor) else type(indices)
        raise TypeError(f"expected 'indices' to be integer dtype, but got {what}")
    sizes = ints_of(shape)
    for n in sizes:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to be ints, but found element of type {type(n)}")
        if n < 0:
            raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    indices = indices.to(_C.int64)
    if not sizes:
        return ()
    steps = [1]
    for n in reversed(sizes[1:]):
        steps.insert(0, steps[0] * n)
    places = indices.unsqueeze(-1) // _C.tensor_from_data(steps, _C.int64, indices.device, True)
    return tuple((places % _C.tensor_from_data(sizes, _C.int64, indices.device, True)).unbind(-1))
