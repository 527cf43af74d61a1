"""Strided views of row-major values as HLO.

A view is a list of (size, stride) over the flat value. Where the strides nest, each a multiple of the next with room
for it, the value is reshaped so that every stride is a dimension of its own; the view is then a unit-stride slice of
that shape, in another order. So a transpose stays a transpose, and a slice a slice. Any other view is a gather, or a
scatter, of positions.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape

Dims = tuple[int, ...]

MAX_RANK = 8
"""How many dimensions compiled arrays may have."""


@dataclass(frozen=True, slots=True)
class _Nest:
    """The value as `shape`; the view is the box of `sizes` at `starts` there, its dimensions ordered by stride."""

    shape: Dims
    starts: Dims
    sizes: Dims
    order: Dims
    """For each kept dimension of the view, outermost stride first: its place in the view."""


def _size(dims: Dims) -> int:
    count = 1
    for n in dims:
        count *= n
    return count


def _nest(total: int, size: Dims, stride: Dims, offset: int) -> _Nest | None:
    kept = [d for d, (n, s) in enumerate(zip(size, stride, strict=True)) if n != 1 and s != 0]
    if any(stride[d] < 0 for d in kept):
        return None
    order = sorted(kept, key=lambda d: (-stride[d], -size[d]))
    strides = [stride[d] for d in order]
    extents: list[int] = []
    outer = total
    for s in strides:
        if outer % s:
            return None
        extents.append(outer // s)
        outer = s
    starts, rest = [], offset
    for s in strides:
        starts.append(rest // s)
        rest %= s
    sizes = [size[d] for d in order]
    if outer > 1 or not strides:
        # What is below the smallest stride: one place of it.
        extents.append(outer)
        starts.append(rest)
        sizes.append(1)
    if len(extents) > MAX_RANK or any(
        start + n > extent for start, n, extent in zip(starts, sizes, extents, strict=True)
    ):
        return None
    return _Nest(tuple(extents), tuple(starts), tuple(sizes), tuple(order))


def _to_whole_rows(total: int, size: Dims, stride: Dims, offset: int) -> int:
    """How many elements are missing for the outermost stride to divide the value; 0 if that would be no nest either."""
    step, count = max(((s, n) for n, s in zip(size, stride, strict=True) if n != 1), default=(0, 1))
    if step <= 0:
        return 0
    more = (offset // step + count) * step - total
    if more <= 0 or _nest(total + more, size, stride, offset) is None:
        return 0
    return more


def _positions(b: Builder, size: Dims, stride: Dims, offset: int) -> Instruction:
    """The flat position of each element of the view."""
    shape = Shape("s64", size)
    total = b.full(shape, offset)
    for d, s in enumerate(stride):
        if s and size[d] != 1:
            total = b.add(total, b.multiply(b.iota(shape, d), b.full(shape, s)))
    return total


def _expand(b: Builder, x: Instruction, size: Dims, stride: Dims) -> Instruction:
    """x without the view's repeated dimensions (stride 0), with them."""
    repeated = [n != 1 and s == 0 for n, s in zip(size, stride, strict=True)]
    if not any(repeated):
        return b.reshape(x, size) if x.dims != size else x
    dense = tuple(n for n, again in zip(size, repeated, strict=True) if not again)
    x = b.reshape(x, dense) if x.dims != dense else x
    return b.broadcast(x, size, [d for d, again in enumerate(repeated) if not again])


def view_read(b: Builder, base: Instruction, size: Dims, stride: Dims, offset: int) -> Instruction:
    """The elements of the view, row-major."""
    dims = base.dims
    total = _size(dims)
    if _size(size) == 0:
        return b.full(Shape(base.dtype, size), 0)
    nest = _nest(total, size, stride, offset)
    if nest is None and (more := _to_whole_rows(total, size, stride, offset)):
        # The memory of a window ends with its last element, in the middle of a row: nothing of what is added is read.
        flat = b.reshape(base, (total,)) if len(dims) != 1 else base
        base = b.pad(flat, b.constant(0, base.dtype), [(0, more)])
        dims, total = base.dims, total + more
        nest = _nest(total, size, stride, offset)
    if nest is None:
        flat = b.reshape(base, (total,))
        return b.gather(
            flat,
            _positions(b, size, stride, offset),
            offset_dims=(),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=len(size),
            slice_sizes=(1,),
        )
    x = b.reshape(base, nest.shape) if dims != nest.shape else base
    if nest.sizes != nest.shape:
        limits = [start + n for start, n in zip(nest.starts, nest.sizes, strict=True)]
        x = b.slice(x, nest.starts, limits)
    kept = tuple(size[d] for d in nest.order)
    if x.dims != kept:
        x = b.reshape(x, kept)
    in_view = sorted(range(len(nest.order)), key=lambda place: nest.order[place])
    if in_view != list(range(len(in_view))):
        x = b.transpose(x, in_view)
    return _expand(b, x, size, stride)


def _apart(size: Dims, stride: Dims) -> bool:
    """Whether it is plain that the view shows no element twice."""
    span = 1
    for s, n in sorted((abs(s), n) for n, s in zip(size, stride, strict=True) if n != 1):
        if s < span:
            return False
        span += s * (n - 1)
    return True


def view_write(b: Builder, base: Instruction, value: Instruction, size: Dims, stride: Dims, offset: int) -> Instruction:
    """The base with the view's elements replaced by `value`'s.

    Where the view shows an element several times, as in `x.expand(...).fill_(1)`, `value` has one number for all of it.
    """
    dims = base.dims
    total = _size(dims)
    if _size(size) == 0:
        return base
    repeated = [n != 1 and s == 0 for n, s in zip(size, stride, strict=True)]
    if any(repeated):
        size = tuple(1 if again else n for n, again in zip(size, repeated, strict=True))
        value = b.slice(value, (0,) * len(size), size)
    nest = _nest(total, size, stride, offset)
    if nest is None:
        flat = b.reshape(base, (total,))
        # What lies side by side is one window.
        width = size[-1] if len(size) > 1 and stride[-1] == 1 else 1
        count = _size(size) // width
        first = (size[:-1], stride[:-1]) if width != 1 else (size, stride)
        written = b.scatter(
            flat,
            b.reshape(_positions(b, *first, offset), (count,)),
            b.reshape(value, (count, width) if width != 1 else (count,)),
            update_window_dims=(1,) if width != 1 else (),
            inserted_window_dims=() if width != 1 else (0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            kind="assign",
            unique_indices=_apart(size, stride),
        )
        return b.reshape(written, dims)
    in_view = sorted(nest.order)
    dense = tuple(size[d] for d in in_view)
    value = b.reshape(value, dense) if value.dims != dense else value
    permutation = [in_view.index(d) for d in nest.order]
    if permutation != list(range(len(permutation))):
        value = b.transpose(value, permutation)
    value = b.reshape(value, nest.sizes) if value.dims != nest.sizes else value
    if nest.sizes == nest.shape:
        return b.reshape(value, dims) if nest.shape != dims else value
    x = b.reshape(base, nest.shape) if dims != nest.shape else base
    written = b.dynamic_update_slice(x, value, [b.constant(start, "s64") for start in nest.starts])
    return b.reshape(written, dims) if nest.shape != dims else written
