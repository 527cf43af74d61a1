"""`x[key]` where the key has index tensors, masks or sequences; integers and slices alone never come here.

The basic part of a key selects a view. What is left is for some of its dimensions an index tensor: a mask stands for
the places where it holds, over as many dimensions as it has, counted as one. Several index tensors are made one that
counts through their dimensions, so that reading and writing know one index and the dimensions that it runs over.
"""

from __future__ import annotations

import operator
from typing import Any

from minitensor import _C
from minitensor._warning import warn
from minitensor.composite.dims import type_name
from minitensor.composite.registry import one_node
from minitensor.ops.elementwise import copy, fill
from minitensor.ops.index import flat_index, index_at, index_put_at
from minitensor.ops.mask import masked_fill, masked_select, nonzero

Tensor = _C.Tensor


@one_node("IndexBackward0")
def _chosen(source: Any, mask: Any) -> Any:
    return masked_select(source, mask)


_copy_, _fill_, _masked_fill_, _index_put_ = (_C.inplace_form(op) for op in (copy, fill, masked_fill, index_put_at))
_INTEGERS = (_C.int64, _C.int32)
_LONGEST_LEGACY_KEY = 32


def _as_items(key: Any) -> list[Any]:
    """The key's items; some sequences stand for tuples, as PyTorch has it for NumPy's sake of old."""
    if isinstance(key, tuple):
        return list(key)
    if isinstance(key, list) and len(key) < _LONGEST_LEGACY_KEY:
        for item in key:
            if isinstance(item, (Tensor, list, tuple, slice)) or item is None or item is Ellipsis:
                warn(
                    "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead "
                    "of x[seq]."
                )
                return list(key)
    return [key]


def _normal(item: Any) -> Any:
    """An item as None, Ellipsis, a slice, an int, a bool, an index tensor or a mask."""
    if isinstance(item, Tensor):
        dtype = item.dtype
        if item.ndim == 0 and not _C.vmap_level(item):
            if dtype is _C.bool:
                return bool(item)
            if not (item.is_floating_point() or item.is_complex()):
                return int(item)
        if dtype is _C.uint8:
            warn("indexing with dtype uint8 is now deprecated, please use a dtype bool instead.")
            return item != 0
        if dtype is not _C.bool and dtype not in _INTEGERS:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return item
    if item is None or item is Ellipsis or isinstance(item, (slice, bool)):
        return item
    if type(item).__module__ == "numpy" and getattr(item, "shape", None) == ():
        return bool(item) if item.dtype.kind == "b" else operator.index(item)
    if isinstance(item, (list, tuple, range)) or (hasattr(item, "__array__") and hasattr(item, "shape")):
        made = _C.tensor_from_data(list(item) if isinstance(item, range) else item, None, None, True)
        return _normal(made if made.numel() or made.dtype is _C.bool else made.to(_C.int64))
    if hasattr(item, "__index__"):
        return operator.index(item)
    if isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )


def _consumed(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype is _C.bool else 1


_ALL = slice(None)


def _is_all(item: Any) -> bool:
    return item is _ALL or (isinstance(item, slice) and item.start is item.stop is item.step is None)


class _Plan:
    """A view of the source, the dimensions of it that are indexed, and the index into them counted as one."""

    __slots__ = ("checked", "dims", "index", "view")

    def __init__(self, source: Any, key: Any) -> None:
        items = [_placed(_normal(item), source) for item in _as_items(key)]
        consumed = sum(map(_consumed, items))
        if consumed > source.ndim:
            raise IndexError(f"too many indices for tensor of dimension {source.ndim}")
        basic: list[Any] = []
        found: list[tuple[int, int, Any]] = []  # the first dimension of the view, how many, and the index or mask
        dim = at = ellipses = 0
        free = source.ndim - consumed
        for item in items:
            # A second `...` stands for as many dimensions as the first one, and nothing is left of those then.
            if ellipses > 1 and free and _consumed(item):
                raise IndexError(f"too many indices for tensor of dimension {source.ndim}")
            if item is Ellipsis:
                ellipses += 1
                if ellipses > 1:
                    continue
                basic += [_ALL] * free
                dim, at = dim + free, at + free
            elif isinstance(item, Tensor):
                count = item.ndim if item.dtype is _C.bool else 1
                if item.dtype is _C.bool:
                    _check_mask(source, item, at)
                basic += [_ALL] * count
                found.append((dim, count, item))
                dim, at = dim + count, at + count
            elif isinstance(item, bool):
                basic.append(None)
                found.append((dim, 1, _C.tensor_from_data([0] if item else [], _C.int64, source.device, True)))
                dim += 1
            else:
                basic.append(item)
                at += item is not None
                dim += item is None or isinstance(item, slice)
        # All of the source is no view of it: a write needs no slices of gradients then.
        self.view = source if all(map(_is_all, basic)) else source[tuple(basic)]
        self.dims = tuple(d for first, count, _ in found for d in range(first, first + count))
        if len(found) == 1:
            first, _, item = found[0]
            self.checked = item.dtype is _C.bool
            self.index = _places(item) if self.checked else item
            if not self.checked and item.numel() and self.view.shape[first] == 0:
                raise IndexError(
                    f"index {int(item.reshape(-1)[0])} is out of bounds for dimension {at - 1} with size 0"
                )
        elif found:
            sizes, shape = [], self.view.shape
            for first, count, _ in found:
                size = 1
                for d in range(first, first + count):
                    size *= shape[d]
                sizes.append(size)
            indices = [_places(item) if item.dtype is _C.bool else item for _, _, item in found]
            self.index = flat_index(indices, sizes, [first for first, _, _ in found])
            self.checked = True


def _placed(item: Any, source: Any) -> Any:
    """An index from the CPU into a tensor on a GPU is moved there."""
    if isinstance(item, Tensor) and item.device.type == "cpu" and source.device.type in ("cuda", "jit_gpu"):
        return item.to(source.device)
    return item


def _places(mask: Any) -> Any:
    """Where the mask holds, counting through its elements."""
    return nonzero(mask.reshape((-1,))).reshape((-1,))


def _check_mask(source: Any, mask: Any, at: int) -> None:
    shape = source.shape
    for d, size in enumerate(mask.shape):
        if shape[at + d] != size:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {at + d}"
            )


def getitem(source: Any, key: Any) -> Any:
    """`source[key]`."""
    key = _placed(key, source)
    if isinstance(key, Tensor) and key.ndim and key.dtype is _C.bool and key.ndim == source.ndim:
        _check_mask(source, key, 0)
        return _chosen(source, key)
    plan = _Plan(source, key)
    if not plan.dims:
        return plan.view.alias() if plan.view is source else plan.view
    return index_at(plan.view, plan.index, plan.dims, plan.checked)


def setitem(target: Any, key: Any, value: Any) -> None:
    """`target[key] = value`."""
    number = not isinstance(value, Tensor)
    if number and not _is_number(value):
        raise TypeError(f"can't assign a {type(value).__name__} to a minitensor.{type_name(target)}Tensor")
    key = _placed(key, target)
    if (
        isinstance(key, Tensor)
        and key.dtype is _C.bool
        and 0 < key.ndim <= target.ndim
        and (number or value.numel() == 1)
    ):
        _check_mask(target, key, 0)
        mask = key.reshape((*key.shape, *[1] * (target.ndim - key.ndim))) if key.ndim < target.ndim else key
        _masked_fill_(target, mask, value if number else value.reshape(()))
        return
    plan = _Plan(target, key)
    view = plan.view
    if not plan.dims:
        if number:
            _fill_(view, value)
        else:
            _copy_(view, _fitted(value, view.ndim))
        return
    if number:
        value = _C.tensor_from_data(value, view.dtype, None, True)
    else:
        value = _fitted(value, view.ndim - len(plan.dims) + plan.index.ndim)
    _index_put_(view, plan.index, value, plan.dims, plan.checked, False)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) or (
        type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and value.dtype.kind in "biufc"
    )


def _fitted(value: Any, rank: int) -> Any:
    """The value without leading dimensions of size 1 that the place for it lacks."""
    while value.ndim > rank and value.shape[0] == 1:
        value = value.select(0, 0)
    return value


def put_at(target: Any, key: Any, value: Any, accumulate: bool) -> None:
    """`target[key] = value`, or `+=` for every index, duplicates included."""
    plan = _Plan(target, key)
    if not plan.dims:  # numbers, as tensors
        if not any(isinstance(item, Tensor) for item in _as_items(key)):
            raise IndexError("index_put needs at least one index tensor")
        value = _fitted(value, plan.view.ndim)
        _copy_(plan.view, plan.view + value if accumulate else value)
        return
    value = _fitted(value, plan.view.ndim - len(plan.dims) + plan.index.ndim)
    _index_put_(plan.view, plan.index, value, plan.dims, plan.checked, accumulate)
