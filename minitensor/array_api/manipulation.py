"""Shapes and indices, by the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._functions import offered
from minitensor._functions.offered import (
    broadcast_shapes,
    broadcast_tensors,
    cat,
    gather,
    index_select,
    movedim,
    permute,
    repeat_interleave,
    unbind,
    unsqueeze,
    where,
)
from minitensor.array_api.dtypes import result_type

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "matrix_transpose", "moveaxis",
    "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip

Axes = int | Sequence[int] | None


def axes_of(axis: Axes, ndim: int) -> list[int]:
    """The axes, counted from the front; all for None."""
    if axis is None:
        return list(range(ndim))
    given = [axis] if isinstance(axis, int) else list(axis)
    for a in given:
        if not -ndim <= a < ndim:
            raise IndexError(f"axis {a} is out of bounds for an array of {ndim} dimensions")
    return [a % ndim for a in given]


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The arrays in the shape that all broadcast to."""
    return list(broadcast_tensors(*arrays))


def broadcast_to(x: Any, /, shape: Sequence[int]) -> Any:
    """The array in a larger shape."""
    return offered.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """The arrays one after the other along an axis; flat if it is None."""
    dtype = result_type(*arrays)
    if axis is None:
        return cat([a.to(dtype).reshape((-1,)) for a in arrays], 0)
    return cat([a.to(dtype) for a in arrays], axis)


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Any:
    """The arrays side by side along a new axis."""
    dtype = result_type(*arrays)
    return offered.stack([a.to(dtype) for a in arrays], axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis."""
    return tuple(unbind(x, axis))


def expand_dims(x: Any, /, axis: int | Sequence[int]) -> Any:
    """The array with new axes of size one."""
    given = [axis] if isinstance(axis, int) else list(axis)
    rank = x.ndim + len(given)
    for a in given:
        if not -rank <= a < rank:
            raise IndexError(f"axis {a} is out of bounds for an array of {rank} dimensions")
    for a in sorted(a % rank for a in given):
        x = unsqueeze(x, a)
    return x


def squeeze(x: Any, /, axis: int | Sequence[int]) -> Any:
    """The array without axes of size one."""
    dims = axes_of(axis, x.ndim)
    for d in dims:
        if x.shape[d] != 1:
            raise ValueError("cannot squeeze an axis whose size is not one")
    return offered.squeeze(x, dims) if dims else x


def flip(x: Any, /, *, axis: Axes = None) -> Any:
    """The elements in reverse order along axes."""
    return offered.flip(x, axes_of(axis, x.ndim))


def matrix_transpose(x: Any, /) -> Any:
    """The transpose of each matrix."""
    if x.ndim < 2:
        raise ValueError("matrix_transpose needs at least two dimensions")
    return x.mT


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int], /) -> Any:
    """The array with axes at other places."""
    return movedim(x, source, destination)


def permute_dims(x: Any, /, axes: Sequence[int]) -> Any:
    """The array with its axes in another order."""
    return permute(x, tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Every element, or slice along an axis, repeated."""
    if isinstance(repeats, _C.Tensor):
        repeats = repeats.to(_C.int64)
    return repeat_interleave(x, repeats, axis)


def reshape(x: Any, /, shape: Sequence[int], *, copy: bool | None = None) -> Any:
    """The same elements in another shape."""
    if copy:
        x = x.clone()
    elif copy is False:
        try:
            return x.view(tuple(shape))
        except RuntimeError as error:
            raise ValueError(str(error)) from None
    return offered.reshape(x, tuple(shape))


def roll(x: Any, /, shift: int | Sequence[int], *, axis: Axes = None) -> Any:
    """The elements moved along axes, those that leave come in at the other end."""
    return offered.roll(x, shift) if axis is None else offered.roll(x, shift, axis)


def tile(x: Any, repetitions: Sequence[int], /) -> Any:
    """The array repeated as a whole."""
    return offered.tile(x, tuple(repetitions))


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The slices along an axis that indices name."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis must be given for an array that is not one-dimensional")
        axis = 0
    at = axes_of(axis, x.ndim)[0]
    places = where(indices < 0, indices + x.shape[at], indices)
    found = index_select(x, at, places.reshape((-1,)))
    return found.reshape((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """The elements along an axis that indices name, place by place."""
    at = axes_of(axis, x.ndim)[0]
    shape = list(broadcast_shapes(*(tuple(1 if d == at else n for d, n in enumerate(t.shape)) for t in (x, indices))))
    x = offered.broadcast_to(x, [x.shape[at] if d == at else n for d, n in enumerate(shape)])
    indices = offered.broadcast_to(indices, [indices.shape[at] if d == at else n for d, n in enumerate(shape)])
    return gather(x, at, where(indices < 0, indices + x.shape[at], indices).to(_C.int64))
