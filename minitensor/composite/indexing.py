"""Reading and writing elements chosen by indices and masks, with PyTorch's order of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.dims import normal_dim, type_name
from minitensor.composite.gather_scatter import REDUCTIONS, ordered_mode
from minitensor.composite.layout import written_copy
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, composite, grad_fn, in_place_method, overwritten, shortcut
from minitensor.composite.shape import broadcast_shapes, broadcast_tensors, reshape
from minitensor.ops import elementwise, index, mask, movement, scatter
from minitensor.ops.checks import refuse_where
from minitensor.ops.creation import full

Tensor = _C.Tensor

_in_place: dict[str, Callable[..., Any]] = {
    name: _C.inplace_form(op)
    for name, op in {
        "scatter_reduce": scatter.scatter_reduce_at,
        "index_add": index.index_add,
        "index_copy": index.index_copy,
        "index_put": index.index_put_at,
        "masked_fill": mask.masked_fill,
    }.items()
}


# ---- one index a slice


def _vector(name: str, index: Any) -> None:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")


@composite(out="apart")
def index_select(input: Any, dim: int, index: Any) -> Tensor:
    """The slices along dim that index, a vector of integers from the beginning, names. IndexError if there are none."""
    _vector("index_select", index)
    d = normal_dim(dim, input.ndim)
    if index.ndim == 0:
        index = reshape(index, 1)
    return _index.index_select(input, index, d)


_index = index


def _check_added(input: Any, d: int, index: Any, source: Any) -> None:
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_add(): self ({type_name(input)}) and source ({type_name(source)}) must have the same scalar type"
        )
    if source.ndim <= d and (d or source.ndim):
        raise RuntimeError(
            f"index_add_(): Indexing dim {d} is out of bounds of the source tensor with dim {source.ndim}"
        )
    count = source.shape[d] if source.ndim else 1
    if index.numel() != count:
        raise RuntimeError(
            f"index_add_(): Number of indices ({index.numel()}) should be equal to source.size(dim): ({count}), "
            f"for dim: {d}"
        )
    if (*input.shape[:d], *input.shape[d + 1 :]) != (*source.shape[:d], *source.shape[d + 1 :]) or (
        input.ndim != source.ndim
    ):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(input.shape)} source.shape = {list(source.shape)}"
        )


def _check_copied(input: Any, d: int, index: Any, source: Any) -> None:
    if source.ndim == 0 and index.numel() != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {index.numel()})")
    if source.ndim and input.ndim and source.ndim != input.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({input.ndim})"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_copy_(): self and source expected to have the same dtype, but got (self) {type_name(input)} and "
            f"(source) {type_name(source)}"
        )
    sliced, given = [(*t.shape[:d], *t.shape[d + 1 :]) for t in (input, source)]
    if sliced != given:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, sliced))} at dimension {d} and source slice shape: {' '.join(map(str, given))} at "
            "dimension 0."
        )
    count = source.shape[d] if source.ndim else 1
    if index.numel() != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.numel()}) should be equal to source.size(dim) ({count})"
        )


def _slices(name: str, input: Any, dim: int, index: Any, source: Any) -> tuple[Any, int, Any]:
    """index and source of index_add and index_copy, checked, as the ops want them."""
    d = normal_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index should have dimension 1 or 0 (got {index.ndim})")
    if name == "index_copy" and index.dtype is not _C.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {type_name(index)}")
    if index.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"{name}_(): Expected dtype int32/int64 for index but got: {type_name(index)}")
    (_check_added if name == "index_add" else _check_copied)(input, d, index, source)
    shape = (*input.shape[:d], index.numel(), *input.shape[d + 1 :])
    index = reshape(index, -1)
    return index, d, source if tuple(source.shape) == shape else reshape(source, shape)


def _scaled(source: Any, alpha: Any) -> Any:
    alpha = number(alpha, "index_add", "alpha")
    return source if alpha == 1 else source * alpha


@composite(out="exact")
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """input with source, times alpha, added to the slices along dim that index names."""
    index, d, source = _slices("index_add", input, dim, index, source)
    return _index.index_add(input, index, _scaled(source, alpha), d)


@in_place_method
def index_add_(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """`index_add` in place."""
    index, d, source = _slices("index_add", input, dim, index, source)
    return _in_place["index_add"](input, index, _scaled(source, alpha), d)


@composite(out="exact")
@autocast("widest", "")
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Tensor:
    """input with the slices along dim that index names replaced by those of source."""
    index, d, source = _slices("index_copy", input, dim, index, source)
    return _index.index_copy(input, index, source, d)


@in_place_method
def index_copy_(input: Any, dim: int, index: Any, source: Any) -> Tensor:
    """`index_copy` in place."""
    index, d, source = _slices("index_copy", input, dim, index, source)
    return _in_place["index_copy"](input, index, source, d)


def _filling(input: Any, dim: int, index: Any, value: Any) -> tuple[Any, Any, tuple[int, ...]]:
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if index.dtype not in (_C.int64, _C.int32):
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    d = normal_dim(dim, input.ndim)
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        value = value.to(input.dtype)
    else:
        value = full((), value, dtype=input.dtype, device=input.device)
    return reshape(index, -1), value, (d,)


def _named(input: Any, places: Any, dims: tuple[int, ...]) -> Any:
    """Whether places names an index along the dimension, in a shape that broadcasts with input."""
    count = input.shape[dims[0]] if input.ndim else 1
    no, yes = (full((), b, dtype=_C.bool, device=input.device) for b in (False, True))
    marked = _index.index_put_at(movement.expand(no, (count,)), places, yes, (0,), False, False)
    return reshape(marked, tuple(count if d == dims[0] else 1 for d in range(input.ndim)))


@composite()
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Tensor:
    """input with `value`, a number or a tensor of one, in the slices along dim that index names."""
    places, value, dims = _filling(input, dim, index, value)
    if value.requires_grad or _C.is_recorded(
        value
    ):  # by a mask: the gradient counts a place once, however often it's named
        return _mask.masked_fill(input, _named(input, places, dims), value)
    if input.ndim == 0:
        return reshape(_index.index_put_at(reshape(input, 1), places, value, (0,), False, False), ())
    return _in_place["index_put"](written_copy(input, places, value), places, value, dims, False, False)


@in_place_method
def index_fill_(input: Any, dim: int, index: Any, value: Any) -> Tensor:
    """`index_fill` in place."""
    places, value, dims = _filling(input, dim, index, value)
    if value.requires_grad or _C.is_recorded(value):
        return _C.write_as("index_fill_", _in_place["masked_fill"], input, _named(input, places, dims), value)
    if input.ndim == 0:
        _in_place["index_put"](movement.view_(input, (1,)), places, value, (0,), False, False)
        return input
    return _C.write_as("index_fill_", _in_place["index_put"], input, places, value, dims, False, False)


def _spread(input: Any, dim: int, index: Any, source: Any, reduce: str) -> tuple[Any, ...]:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    mode = ordered_mode(input, REDUCTIONS[reduce], "index_reduce")
    index, d, source = _slices("index_reduce", input, dim, index, source)
    size = input.shape[d] if input.ndim else 1
    refuse_where((index < 0) | (index >= size), "index out of range in self")
    place = [1] * source.ndim
    place[d] = index.numel()
    return movement.expand(reshape(index, place), source.shape), source, d, mode


@composite(out="exact")
@grad_fn("IndexReduceBackward0")
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """input with source combined into the slices along dim that index names: "prod", "mean", "amax" or "amin"."""
    return scatter.scatter_reduce_at(input, *_spread(input, dim, index, source, reduce), include_self)


@in_place_method
def index_reduce_(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """`index_reduce` in place."""
    return _in_place["scatter_reduce"](input, *_spread(input, dim, index, source, reduce), include_self)


# ---- all elements as a line


def _flat_index(name: str, input: Any, index: Any) -> None:
    if index.dtype is not _C.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {type_name(index)}")
    if input.numel() == 0 and index.numel():
        raise IndexError(f"{name}(): tried to {name.rstrip('_')} from an empty tensor")


@composite(out="apart")
@grad_fn("TakeBackward0")
def take(input: Any, index: Any) -> Tensor:
    """The elements of input as a line at the places that index, of any shape, names; they may count from the end."""
    _flat_index("take", input, index)
    return _index.index_at(reshape(input, -1), index, (0,), False)


def _put(input: Any, index: Any, source: Any, accumulate: bool) -> Any:
    _flat_index("put_", input, index)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {type_name(input)} and "
            f"source.dtype = {type_name(source)}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    flat = _index.index_put_at(reshape(input, -1), reshape(index, -1), reshape(source, -1), (0,), False, accumulate)
    made = reshape(flat, tuple(input.shape))
    order = _C.memory_order(input)
    if order is None:
        return made
    back = sorted(range(input.ndim), key=order.__getitem__)
    return movement.permute(elementwise.row_major(movement.permute(made, order)), back)


@composite()
@grad_fn("PutBackward0")
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """input with the elements of source at the places of all elements as a line that index names, or added to them."""
    return _put(input, index, source, accumulate)


@in_place_method
def put_(input: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """`put` in place."""
    return input.copy_(_put(overwritten(input, source), index, source, accumulate))


# ---- several indices


def _key(input: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    if len(indices) > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim} (got {len(indices)})")
    return tuple(slice(None) if i is None else i for i in indices)


@composite()
@autocast("", "widest")
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    """input with values, broadcast, written at input[indices] or added to it; an index may be None for all."""
    return index_put_(written_copy(input, values, *indices), indices, values, accumulate)


@in_place_method
def index_put_(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor:
    """`index_put` in place."""
    from minitensor._tensor.indexing import put_at

    put_at(input, _key(input, indices), values, accumulate)
    return input


# ---- masks


@composite()
def masked_scatter(input: Any, mask: Any, source: Any) -> Tensor:
    """input with the elements of source, one after the other, where mask, broadcast, holds."""
    if mask.ndim > input.ndim or tuple(broadcast_shapes(input.shape, mask.shape)) != tuple(input.shape):
        input, mask = broadcast_tensors(input, mask)
    return _mask.masked_scatter(input, mask, source)


_mask = mask


@composite()
def argwhere(input: Any) -> Tensor:
    """The indices of the elements that are not zero, one row each."""
    return _mask.nonzero(input)


@composite(out="exact")
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: one row each, or with as_tuple one vector a dimension."""
    if not as_tuple:
        return _mask.nonzero(input)
    found = _mask.nonzero(reshape(input, 1) if input.ndim == 0 else input)
    return tuple(movement.select(found, 1, d) for d in range(found.shape[1]))


@composite(out="exact")
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`; if there are fewer, rows of `fill_value` follow. RuntimeError if size < 0."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    found = _mask.nonzero(input)
    count = found.shape[0]
    if count < size:
        return movement.constant_pad_nd(found, (0, 0, 0, size - count), fill_value)
    return elementwise.row_major(movement.slice(found, 0, 0, size))


_bool, _where_row = _C.bool, elementwise.where


@composite(method=False, out="exact")
@shortcut("BTT", _where_row)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, other elsewhere; with the condition alone, the indices where it holds.

    ``condition`` (bool), ``input`` and ``other``, tensors or numbers, broadcast to the result's shape; its dtype is
    promoted from the last two. Raises RuntimeError where shapes don't broadcast or the condition isn't of bools.
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or a condition, input and other")
    if condition.dtype is not _bool:
        if condition.dtype is not _C.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {type_name(condition)}"
            )
        condition = condition != 0
    return _where_row(condition, input, other)


def _where_method(self: Any, condition: Any, other: Any) -> Any:
    """The tensor where the condition holds, other elsewhere."""
    return where(condition, self, other)


_where_method.__name__, _where_method.__qualname__ = "where", "Tensor.where"
_where_method.__module__ = "minitensor"
_C.add_method("where", _where_method)


# ---- membership

_FEW = 16
"""Test elements that are compared one by one."""


@composite(method=False, out="exact")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among the test elements, or with `invert` is not. One of both may be a number."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin() takes a Tensor as elements or as test_elements")
    number = not isinstance(elements, Tensor)
    if number:
        elements = full((), elements, dtype=None, device=test_elements.device)
    if not isinstance(test_elements, Tensor):
        test_elements = full((), test_elements, dtype=None, device=elements.device)
    for x in (elements, test_elements):
        if x.is_complex() or (x.dtype is _C.bool and not number):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {type_name(x)}")
    wanted = reshape(test_elements, -1)
    found = full(tuple(elements.shape), False, dtype=_C.bool, device=elements.device)
    if wanted.numel() <= _FEW:
        for x in wanted.unbind(0) if wanted.numel() else ():
            found = elementwise.logical_or(found, elementwise.eq(elements, x))
    elif elements.numel():
        found = _among_sorted(elements, wanted)
    return elementwise.logical_not(found) if invert else found


def _among_sorted(elements: Any, wanted: Any) -> Any:
    """Binary search: how many of the sorted test elements are not greater, and whether the last of these is equal."""
    both = elementwise.add(reshape(elements, -1)[:1], wanted[:1]).dtype
    elements, ordered = elements.to(both), wanted.to(both).sort()[0]
    flat, count = reshape(elements, -1), ordered.numel()
    place = full((flat.numel(),), 0, dtype=_C.int64, device=flat.device)
    step = 1 << (count.bit_length() - 1)
    while step:
        tried = place + step
        known = _index.index_at(ordered, tried.clamp(max=count) - 1, (0,), False)
        fits = elementwise.logical_and(tried <= count, known <= flat)
        place = elementwise.where(fits, tried, place)
        step >>= 1
    last = _index.index_at(ordered, (place - 1).clamp(min=0), (0,), False)
    return reshape(elementwise.eq(last, flat), tuple(elements.shape))
