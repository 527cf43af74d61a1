"""Shapes, parts and arrangements of tensors under TensorFlow's names.

`shape` and what is computed from it are arrays of NumPy in a run: sizes are known when it begins, and a program is for
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitensor import _C, nn
from minitensor._C import float32, int32, int64
from minitensor._functions import offered
from minitensor._functions.offered import arange, cat, empty, flip, full, index_select, unbind
from minitensor.compat.v1.framework.constants import as_dtype, constant, convert_to_tensor, node, same_types, sizes_of
from minitensor.compat.v1.framework.graph import Tensor, get_default_graph
from minitensor.compat.v1.framework.inference import NUMPY_TYPES, probes
from minitensor.compat.v1.framework.shapes import TensorShape

__all__ = [
    "boolean_mask", "concat", "expand_dims", "eye", "fill", "gather", "linspace", "one_hot", "ones",
    "ones_like", "pad", "range", "rank", "reshape", "reverse", "shape", "size", "slice", "split", "squeeze", "stack",
    "stop_gradient", "tile", "transpose", "unstack", "where", "zeros", "zeros_like",
]  # fmt: skip

_range = range
_slice = slice


def _filled(type: str, value: float, sizes: Any, dtype: Any, name: str | None) -> Tensor:
    kind = as_dtype(dtype)
    wanted = sizes_of(sizes)

    def probe(size: np.ndarray) -> _C.Tensor:
        return empty(size.tolist(), dtype=kind, device="meta")

    return node(type, lambda size: full(size.tolist(), value, dtype=kind), [wanted], name, host_inputs=[0], probe=probe)


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Zeros."""
    return _filled("zeros", 0, shape, dtype, name)


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Ones."""
    return _filled("ones", 1, shape, dtype, name)


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of that shape whose elements all are `value`."""

    def filled(sizes: np.ndarray, one: _C.Tensor) -> _C.Tensor:
        return one.expand(sizes.tolist()).clone()

    return node("Fill", filled, [sizes_of(dims), value], name, host_inputs=[0])


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros in the shape of a tensor."""
    kind = None if dtype is None else as_dtype(dtype)
    return node("zeros_like", lambda x: offered.zeros_like(x, dtype=kind), [tensor], name)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones in the shape of a tensor."""
    kind = None if dtype is None else as_dtype(dtype)
    return node("ones_like", lambda x: offered.ones_like(x, dtype=kind), [tensor], name)


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = float32, name: str | None = None) -> Tensor:
    """A matrix with ones on its diagonal."""
    return constant(np.eye(num_rows, num_columns), as_dtype(dtype), name=name or "eye")


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """The numbers from `start`, or 0, up to but not including `limit`. They may come of shapes."""
    first, last = (0, start) if limit is None else (start, limit)
    plain = all(not isinstance(getattr(each, "graph_element", each), Tensor) for each in (first, last, delta))
    if plain:
        array = np.arange(first, last, delta)
        return constant(array if dtype else array.tolist() or np.zeros(0, np.int32), dtype, name=name)
    operands = same_types("Range", first, last, delta)
    kind = operands[0].dtype
    if kind not in (int32, int64):
        raise TypeError("range: limits that are tensors must be integers")

    def host(a: np.ndarray, b: np.ndarray, step: np.ndarray) -> np.ndarray:
        return np.arange(int(a), int(b), int(step), dtype=NUMPY_TYPES[kind])

    found = node(
        "Range", lambda *values: host(*(np.asarray(v.tolist()) for v in values)), operands, name, host_call=host
    )
    return found if dtype is None else node("Cast", lambda x: x.to(as_dtype(dtype)), [found])


def linspace(start: float, stop: float, num: int, name: str = "LinSpace") -> Tensor:
    """So many numbers at equal distances, both ends among them; float32."""
    return constant(np.linspace(start, stop, num), float32, name=name)


def shape(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """The shape of a tensor, which is known when it has run: integers [rank]."""
    kind = NUMPY_TYPES[as_dtype(out_type)]

    def sizes(x: Any) -> np.ndarray:
        return np.asarray(tuple(x.shape), kind)

    return node("Shape", sizes, [input], name, host_call=sizes)


def size(input: Any, name: str | None = None, out_type: Any = int32) -> Tensor:
    """How many elements a tensor has."""
    kind = NUMPY_TYPES[as_dtype(out_type)]

    def count(x: Any) -> np.ndarray:
        return np.asarray(np.prod(tuple(x.shape), dtype=np.int64), kind)

    return node("Size", count, [input], name, host_call=count)


def rank(input: Any, name: str | None = None) -> Tensor:
    """How many dimensions a tensor has."""

    def count(x: Any) -> np.ndarray:
        return np.asarray(len(x.shape), np.int32)

    return node("Rank", count, [input], name, host_call=count)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The elements in another shape, in which one size may be -1."""
    sizes = sizes_of(shape)
    held = sizes.op.held
    hints = [abs(int(np.prod(held)))] if isinstance(held, np.ndarray) else []

    def reshaped(x: _C.Tensor, to: np.ndarray) -> _C.Tensor:
        return x.reshape(to.tolist())

    return node(
        "Reshape", reshaped, [tensor, sizes], name, host_inputs=[1], host_call=lambda x, to: x.reshape(to), hints=hints
    )


def transpose(a: Any, perm: Any = None, name: str | None = None) -> Tensor:
    """The dimensions in the order `perm`, or in the opposite one."""
    order = None if perm is None else [int(each) for each in perm]
    return node("Transpose", lambda x: x.permute(order or [*_range(x.ndim)][::-1]), [a], name)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """The tensor with a dimension of size 1 before that axis."""
    place = int(dim if axis is None else axis)
    return node("ExpandDims", lambda x: x.unsqueeze(place), [input], name, host_call=lambda x: np.expand_dims(x, place))


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """The tensor without these dimensions of size 1, or without any; ValueError for one of another size."""
    chosen = squeeze_dims if axis is None else axis

    def squeezed(x: _C.Tensor) -> _C.Tensor:
        if chosen is None:
            return x.squeeze()
        places = [int(place) for place in np.ravel(chosen)]
        for place in places:
            if x.shape[place] != 1:
                raise ValueError(f"Can not squeeze dim[{place}], expected a dimension of 1, got {x.shape[place]}")
        return x.squeeze(tuple(places))

    return node("Squeeze", squeezed, [input], name)


def concat(values: Any, axis: Any, name: str | None = None) -> Tensor:
    """The tensors one after the other along an axis."""
    if isinstance(values, int):
        raise TypeError("concat takes the tensors first and then the axis")
    along = int(axis)
    tensors = same_types("ConcatV2", *values)
    return node("ConcatV2", lambda *x: cat(x, along), tensors, name, host_call=lambda *x: np.concatenate(x, along))


def stack(values: Any, axis: int = 0, name: str | None = None) -> Tensor:
    """The tensors side by side along a new axis."""
    plain = [convert_to_tensor(each) if isinstance(each, list | tuple) else each for each in values]
    tensors = same_types("Pack", *plain)
    return node("Pack", lambda *x: offered.stack(x, axis), tensors, name, host_call=lambda *x: np.stack(x, axis))


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = None) -> list[Tensor]:
    """The tensor's parts along an axis, without it; `num`, if the size isn't known."""
    tensor = convert_to_tensor(value)
    count = tensor.shape[axis].value if num is None else num
    if count is None:
        raise ValueError(f"Cannot infer num from shape {tensor.shape}")

    def parts(x: _C.Tensor) -> list[_C.Tensor]:
        if x.shape[axis] != count:
            raise ValueError(f"unstack: the size of axis {axis} is {x.shape[axis]}, not {count}")
        return list(unbind(x, axis))

    return get_default_graph().add("Unpack", parts, [tensor], name=name, hints=[count]).outputs


def split(value: Any, num_or_size_splits: Any, axis: int = 0, name: str | None = None) -> list[Tensor]:
    """Parts along an axis: so many equal ones, or of these sizes."""
    tensor, sizes = convert_to_tensor(value), num_or_size_splits
    total = sizes if isinstance(sizes, int) else sum(int(each) for each in sizes)

    def parts(x: _C.Tensor) -> list[_C.Tensor]:
        if not isinstance(sizes, int):
            return list(offered.split(x, [int(each) for each in sizes], axis))
        if x.shape[axis] % sizes:
            raise ValueError(f"Dimension size {x.shape[axis]} must be evenly divisible by {sizes}")
        return list(offered.split(x, x.shape[axis] // sizes, axis))

    return get_default_graph().add("Split", parts, [tensor], name=name, hints=[total]).outputs


def gather(params: Any, indices: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """The parts of `params` at these indices, an integer tensor of any shape, along an axis."""

    def gathered(x: _C.Tensor, i: _C.Tensor) -> _C.Tensor:
        place = axis % x.ndim
        found = index_select(x, place, i.reshape(-1))
        return found.reshape([*x.shape[:place], *i.shape, *x.shape[place + 1 :]])

    return node("GatherV2", gathered, [params, indices], name, host_call=lambda x, i: np.asarray(np.take(x, i, axis)))


def boolean_mask(tensor: Any, mask: Any, name: str | None = None) -> Tensor:
    """The parts of `tensor` where `mask`, which has its first dimensions, is true, one behind the other."""
    values, chosen = convert_to_tensor(tensor), convert_to_tensor(mask)
    if chosen.dtype is not _C.bool or not chosen.shape.ndims:
        raise ValueError(f"mask must be a bool tensor with dimensions, and {chosen!r} is not")
    rest = None if values.shape.ndims is None else [None, *values.shape.as_list()[chosen.shape.ndims :]]
    shape = TensorShape(rest)
    found = [(values.dtype, shape, probes(shape, values.dtype))]
    return node("BooleanMask", lambda x, keep: x[keep], [values, chosen], name, found=found)


def one_hot(
    indices: Any,
    depth: int,
    on_value: Any = 1,
    off_value: Any = 0,
    axis: int = -1,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """`on_value` at each index and `off_value` elsewhere, along a new axis of size `depth`.

    An index that isn't in it has `off_value` everywhere.
    """
    kind = float32 if dtype is None else as_dtype(dtype)

    def hot(i: _C.Tensor) -> _C.Tensor:
        found = i.unsqueeze(-1) == arange(depth, dtype=i.dtype, device=i.device)
        chosen = (
            found.to(kind) if (on_value, off_value) == (1, 0) else offered.where(found, on_value, off_value).to(kind)
        )
        return chosen if axis == -1 else chosen.movedim(-1, axis)

    return node("OneHot", hot, [indices], name)


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """The tensor repeated so many times along each dimension."""
    return node("Tile", lambda x, times: x.repeat(times.tolist()), [input, sizes_of(multiples)], name, host_inputs=[1])


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: float = 0
) -> Tensor:
    """The tensor with so many elements before and after along each dimension; `mode` must be CONSTANT."""
    if mode.upper() != "CONSTANT":
        raise ValueError(f"pad: mode {mode!r} is not here; minitensor.nn.functional.pad has it")
    widths = [[int(a), int(b)] for a, b in np.asarray(paddings).tolist()]
    flat = [width for pair in reversed(widths) for width in pair]

    def padded(x: _C.Tensor) -> _C.Tensor:
        if x.ndim != len(widths):
            raise ValueError(f"paddings must have a row for each of {x.ndim} dimensions, not {len(widths)}")
        return nn.functional.pad(x, flat, value=constant_values)

    return node("Pad", padded, [tensor], name)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """The elements in the opposite order along these axes."""
    places = [int(each) for each in np.ravel(axis)]
    return node("ReverseV2", lambda x: flip(x, places), [tensor], name)


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """The part that begins there and has that size, -1 for all that is left."""

    def part(x: Any, first: np.ndarray, sizes: np.ndarray) -> Any:
        ends = zip(x.shape, first.tolist(), sizes.tolist(), strict=True)
        key = []
        for whole, start, count in ends:
            end = whole if count == -1 else start + count
            if not 0 <= start <= end <= whole:
                raise ValueError(f"slice: from {start} to {end} is not within a size of {whole}")
            key.append(_slice(start, end))
        return x[tuple(key)]

    return node("Slice", part, [input_, sizes_of(begin), sizes_of(size)], name, host_inputs=[1, 2], host_call=part)


def getitem(tensor: Any, key: Any) -> Tensor:
    """`tensor[key]`: ints, slices, `...` and None; their numbers may come of shapes. ValueError out of range."""
    keys = key if isinstance(key, tuple) else (key,)
    numbers: list[Any] = []
    plan: list[Any] = []

    def place(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(getattr(value, "graph_element", value), Tensor):
            numbers.append(value)
            return [len(numbers)]
        return int(value)

    for each in keys:
        if each is None or each is Ellipsis:
            plan.append(each)
        elif isinstance(each, _slice):
            plan.append(_slice(place(each.start), place(each.stop), place(each.step)))
        else:
            plan.append(place(each))

    def part(x: Any, *given: np.ndarray) -> Any:
        def number(value: Any) -> Any:
            return int(given[value[0] - 1]) if isinstance(value, list) else value

        found = []
        for each in plan:
            if isinstance(each, _slice):
                found.append(_slice(number(each.start), number(each.stop), number(each.step)))
            else:
                found.append(number(each))
        if isinstance(x, np.ndarray):
            return np.asarray(x[tuple(found)])
        backwards = [e.step for e in found if isinstance(e, _slice) and e.step is not None and e.step < 0]
        if backwards:
            raise ValueError("a slice must go forwards; tf.reverse turns a tensor round")
        return x[tuple(found)]

    inputs = [tensor, *numbers]
    return node("StridedSlice", part, inputs, "strided_slice", host_inputs=_range(1, len(inputs)), host_call=part)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """`x` where the condition holds and `y` elsewhere; a vector's condition chooses whole rows."""
    if x is None or y is None:
        raise ValueError("where takes x and y here: the places where a condition holds have no shape before it runs")
    left, right = same_types("Select", x, y)

    def chosen(c: _C.Tensor, a: _C.Tensor, b: _C.Tensor) -> _C.Tensor:
        if c.ndim == 1 and a.ndim > 1 and a.shape == b.shape:
            c = c.reshape([-1] + [1] * (a.ndim - 1))
        return offered.where(c, a, b)

    return node("Select", chosen, [condition, left, right], name)


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The tensor as a constant to gradients."""
    return node("StopGradient", lambda x: x.detach(), [input], name)
