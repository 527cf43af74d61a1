"""Indexing with tensors, masks and sequences; integers and slices alone never come here."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops.elementwise import where
from minitensor.ops.index import index_copy, index_select, masked_select, nonzero

Tensor = _C.Tensor


def _is_advanced(item: Any) -> bool:
    return isinstance(item, (Tensor, list, tuple, bool)) or hasattr(item, "__array__")


def _as_index(item: Any) -> Any:
    return item if isinstance(item, Tensor) else _C.tensor_from_data(item, None, None, True)


def _consumed(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, Tensor) and item.dtype is _C.bool:
        return item.ndim
    return 1


def _plan(source: Any, key: Any) -> tuple[Any, list[Any]]:
    """The view that the basic part of the key selects, and for each of its dimensions the index tensor or None."""
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_as_index(item) if _is_advanced(item) else item for item in items]
    consumed = sum(map(_consumed, items))
    if consumed > source.ndim:
        raise IndexError(f"too many indices for tensor of dimension {source.ndim}")
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    basic: list[Any] = []
    indices: list[Any] = []
    for item in items:
        if item is Ellipsis:
            free = source.ndim - consumed
            basic += [slice(None)] * free
            indices += [None] * free
        elif isinstance(item, Tensor):
            if item.dtype is _C.bool:
                at = sum(_consumed(i) for i in items[: _position(items, item)])
                _check_mask(source, item, at if _before_ellipsis(items, item) else source.ndim - _after(items, item))
                found = nonzero(item)
                basic += [slice(None)] * item.ndim
                indices += [found.select(1, d) for d in range(item.ndim)]
                continue
            if item.dtype not in (_C.int64, _C.int32, _C.uint8):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            basic.append(slice(None))
            indices.append(item)
        else:
            if not (item is None or isinstance(item, slice) or hasattr(item, "__index__")):
                raise IndexError(
                    "only integers, slices (`:`), ellipsis (`...`), None and integer or bool tensors are valid indices "
                    f"(got {type(item).__name__})"
                )
            basic.append(item)
            if item is None or isinstance(item, slice):
                indices.append(None)
    return source[tuple(basic)], indices


def _position(items: list[Any], item: Any) -> int:
    return next(i for i, other in enumerate(items) if other is item)


def _before_ellipsis(items: list[Any], item: Any) -> bool:
    return _position(items, item) < next(i for i, other in enumerate(items) if other is Ellipsis)


def _after(items: list[Any], item: Any) -> int:
    return sum(_consumed(i) for i in items[_position(items, item) :])


def _check_mask(source: Any, mask: Any, at: int) -> None:
    shape = tuple(source.shape[at : at + mask.ndim])
    if tuple(mask.shape) != shape:
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index 0 does not match the shape of the indexed tensor "
            f"{list(source.shape)} at index {at}"
        )


def _gathered(view: Any, indices: list[Any]) -> tuple[Any, Any, list[int], int]:
    """The view with its indexed dimensions merged in front, an index into them, their sizes, and the result's place."""
    dims = [d for d, index in enumerate(indices) if index is not None]
    used = [indices[d] for d in dims]
    sizes = [view.shape[d] for d in dims]
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    index = None
    for item, size, d in zip(used, sizes, dims, strict=True):
        _check_bounds(item, size, d)
        item = where(item < 0, item + size, item) if item.numel() else item.to(_C.int64)
        index = item if index is None else index * size + item
    rest = [d for d in range(view.ndim) if d not in dims]
    front = view.permute([*dims, *rest])
    merged = front.reshape((_product(sizes), *[view.shape[d] for d in rest]))
    return merged, index, sizes, dims[0] if adjacent else 0


def _check_bounds(index: Any, size: int, dim: int) -> None:
    if index.numel() == 0:
        return
    low, high = int(index.amin()), int(index.amax())
    bad = low if low < -size else high if high >= size else None
    if bad is not None:
        raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _product(sizes: list[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def getitem(source: Any, key: Any) -> Any:
    """`source[key]`."""
    if isinstance(key, Tensor) and key.dtype is _C.bool and key.ndim == source.ndim and key.ndim:
        _check_mask(source, key, 0)
        return masked_select(source, key)
    if isinstance(key, bool):
        return source.unsqueeze(0) if key else source.unsqueeze(0)[:0]
    view, indices = _plan(source, key)
    dims = [d for d, index in enumerate(indices) if index is not None]
    if not dims:
        return view
    if len(dims) == 1:
        return index_select(view, indices[dims[0]], dims[0])
    merged, index, _, place = _gathered(view, indices)
    result = index_select(merged, index, 0)
    return _moved(result, index.ndim, place)


def _moved(result: Any, count: int, place: int) -> Any:
    """The first `count` dimensions moved to `place`."""
    if place == 0:
        return result
    order = [*range(count, count + place), *range(count), *range(count + place, result.ndim)]
    return result.permute(order)


def setitem(target: Any, key: Any, value: Any) -> None:
    """`target[key] = value`."""
    if not isinstance(value, Tensor):
        value = _C.tensor_from_data(
            value, None if not isinstance(value, (int, float, bool)) else target.dtype, None, True
        )
    if value.dtype is not target.dtype:
        value = value.to(target.dtype)
    if isinstance(key, Tensor) and key.dtype is _C.bool and value.numel() == 1:
        _check_mask(target, key, 0)
        mask = key.reshape((*key.shape, *[1] * (target.ndim - key.ndim)))
        target.copy_(where(mask, value.reshape(()), target))
        return
    view, indices = _plan(target, key)
    dims = [d for d, index in enumerate(indices) if index is not None]
    if not dims:
        view.copy_(value)
        return
    merged, index, sizes, place = _gathered(view, indices)
    rest = tuple(merged.shape[1:])
    shape = (*rest[:place], *index.shape, *rest[place:])
    value = value.expand(shape)
    count = index.ndim
    if place:
        value = value.permute([*range(place, place + count), *range(place), *range(place + count, value.ndim)])
    written = index_copy(merged, index.reshape((-1,)), value.reshape((index.numel(), *rest)), 0)
    others = [d for d in range(view.ndim) if d not in dims]
    order = [*dims, *others]
    split = written.reshape((*sizes, *rest))
    view.copy_(split.permute(sorted(range(view.ndim), key=order.__getitem__)))
