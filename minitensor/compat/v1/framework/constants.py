"""Constants and placeholders: the leaves of graphs, and what becomes of Python's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitensor import _C
from minitensor._C import from_numpy, int32, int64
from minitensor.compat.v1.framework.graph import Tensor, get_default_graph
from minitensor.compat.v1.framework.inference import NUMPY_TYPES, dtype_of, probes
from minitensor.compat.v1.framework.shapes import TensorShape

__all__ = [
    "constant",
    "convert_to_tensor",
    "identity",
    "node",
    "placeholder",
    "placeholder_with_default",
    "same_types",
    "sizes_of",
]

_HOST = 64  # integers up to so many may be sizes, and are known while a graph is made


def as_dtype(dtype: Any) -> _C.dtype:
    """The dtype that one of ours, of NumPy's or a name stands for."""
    if isinstance(dtype, _C.dtype):
        return dtype
    name = dtype.removesuffix("_ref") if isinstance(dtype, str) else dtype
    try:
        return dtype_of(np.empty(0, name))
    except TypeError:
        raise TypeError(f"Cannot convert value {dtype!r} to a TensorFlow DType.") from None


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """A tensor of these numbers. With a `shape` they fill it, the last one as often as needed.

    Floats are float32, integers int32 unless `dtype` or an array says otherwise.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    array = _array(value, wanted)
    if shape is not None:
        sizes: Any = TensorShape(shape).as_list()
        count = int(np.prod(sizes))
        if verify_shape and list(array.shape) != sizes:
            raise TypeError(f"Expected Tensor's shape: {tuple(sizes)}, got {array.shape}.")
        flat = array.ravel()
        if flat.size > count or (flat.size == 0 and count):
            raise ValueError(f"Too many elements provided. Needed at most {count}, but received {flat.size}")
        if flat.size < count:
            flat = np.concatenate([flat, np.full(count - flat.size, flat[-1], flat.dtype)])
        array = flat.reshape(sizes)
    kind = dtype_of(array)
    found_shape = TensorShape(array.shape)
    host = array.dtype in (np.int32, np.int64) and array.size <= _HOST
    known = [array] * 3 if host else probes(found_shape, kind)
    op = get_default_graph().add("Const", lambda: (), name=name, kind="constant", found=[(kind, found_shape, known)])
    op.held = array if host else from_numpy(np.array(array))
    return op.outputs[0]


def _array(value: Any, dtype: _C.dtype | None) -> np.ndarray:
    if isinstance(value, _C.Tensor):
        value = value.detach().numpy()
    given = isinstance(value, np.ndarray | np.generic)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"a constant must have rows of the same length: {error}") from None
    if array.dtype.kind not in "fiubc":
        raise TypeError(f"a graph has no values of type {array.dtype}: {value!r}")
    if dtype is None:
        if given:
            return array
        if array.dtype == np.int64:
            if array.size and not (array.min() >= -(2**31) and array.max() < 2**31):
                return array
            return array.astype(np.int32)
        return array.astype({np.dtype(np.float64): np.float32}.get(array.dtype, array.dtype))
    wanted = np.dtype(NUMPY_TYPES[dtype])
    if not given and array.size and array.dtype.kind == "f" and wanted.kind in "iu":
        raise TypeError(f"Expected {wanted}, got {value!r} of type 'float' instead.")
    if array.dtype.kind == "b" and wanted.kind != "b" and not given:
        raise TypeError(f"Expected {wanted}, got {value!r} of type 'bool' instead.")
    return array.astype(wanted)


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None) -> Tensor:
    """The tensor of the default graph that a value stands for: a tensor, a variable, numbers, or a list of them."""
    wanted = None if dtype is None else as_dtype(dtype)
    found = getattr(value, "graph_element", value)
    if isinstance(found, Tensor):
        if wanted is not None and found.dtype != wanted:
            raise ValueError(f"Tensor conversion requested dtype {_word(wanted)} for Tensor with dtype "
                             f"{_word(found.dtype)}: {found!r}")  # fmt: skip
        return found
    if isinstance(value, TensorShape):
        value = value.as_list()
    if isinstance(value, list | tuple) and any(_holds_tensor(each) for each in value):
        from minitensor.compat.v1.ops.array_ops import stack

        return stack(value, name=name or "packed")
    if wanted is None and preferred_dtype is not None:
        try:
            return constant(value, preferred_dtype, name=name or "Const")
        except TypeError:
            pass
    return constant(value, wanted, name=name or "Const")


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_tensor(each) for each in value)
    return isinstance(getattr(value, "graph_element", value), Tensor)


def _word(dtype: _C.dtype) -> str:
    return str(dtype).rpartition(".")[2]


def same_types(type: str, *values: Any) -> list[Tensor]:
    """Operands as tensors of one dtype: numbers take that of the tensors. TypeError if tensors differ."""
    known = [getattr(value, "graph_element", value) for value in values]
    first = next((each for each in known if isinstance(each, Tensor)), None)
    if first is None:
        first = next((convert_to_tensor(each) for each in known if isinstance(each, np.ndarray)), None)
    tensors = []
    for place, value in enumerate(known):
        if isinstance(value, Tensor):
            if first is not None and value.dtype != first.dtype:
                raise TypeError(
                    f"Input {place} of '{type}' Op has type {_word(value.dtype)} that does not match type "
                    f"{_word(first.dtype)} of the other argument {first.name}; tf.cast converts it."
                )
            tensors.append(value)
        else:
            tensors.append(convert_to_tensor(value, None if first is None else first.dtype))
            first = tensors[-1] if first is None else first
    return tensors


def sizes_of(value: Any) -> Tensor:
    """A shape, or other integers, as a tensor: from a TensorShape, a list with tensors in it, or a tensor."""
    if isinstance(value, list | tuple):
        value = [int(each) if hasattr(each, "value") and hasattr(each, "__index__") else each for each in value]
        if not value:
            return constant(np.zeros(0, np.int32), name="shape")
    tensor = convert_to_tensor(value)
    if tensor.dtype not in (int32, int64):
        raise TypeError(f"sizes must be int32 or int64, not {_word(tensor.dtype)}")
    return tensor


def node(type: str, call: Callable[..., Any], inputs: Sequence[Any], name: str | None = None, **more: Any) -> Tensor:
    """The result of a call on tensors, or on what stands for such; see `Graph.add`."""
    tensors = [convert_to_tensor(each) for each in inputs]
    return get_default_graph().add(type, call, tensors, name=name, **more).outputs[0]


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor whose value every run is given: `feed_dict={x: value}`. Sizes may be None, or the whole shape."""
    kind, sizes = as_dtype(dtype), TensorShape(shape)
    found = [(kind, sizes, probes(sizes, kind))]
    graph = get_default_graph()
    return graph.add("Placeholder", lambda: (), name=name, kind="placeholder", found=found).outputs[0]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """A tensor that has the value of `input` in runs that feed no other."""
    tensor = convert_to_tensor(input)
    sizes = TensorShape(shape)
    if not sizes.is_compatible_with(tensor.shape):
        raise ValueError(f"the default has shape {tensor.shape}, which doesn't fit {sizes}")
    found = [(tensor.dtype, sizes, probes(sizes, tensor.dtype))]
    return node("PlaceholderWithDefault", lambda x: x, [tensor], name, found=found)


def identity(input: Any, name: str | None = None) -> Tensor:
    """A copy of the tensor, made when those that it depends on have run."""
    return node("Identity", lambda x: x.clone(), [input], name, host_call=lambda x: x)
