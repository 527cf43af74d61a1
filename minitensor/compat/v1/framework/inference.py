"""Dtypes and shapes of what ops give, found by running them on device `meta`.

A size that is unknown is probed with several numbers, the same for all such sizes of a graph: what differs between the
probes is unknown in the result. Integers that are computed from shapes are arrays of NumPy, in probes as in runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitensor import _C
from minitensor._C import Tensor, complex64, complex128, float16, float32, float64, int8, int16, int32, int64, uint8
from minitensor._functions import offered
from minitensor._functions.offered import empty
from minitensor.autograd import no_grad
from minitensor.compat.v1.framework.shapes import TensorShape

__all__ = ["NUMPY_TYPES", "REFUSALS", "Found", "as_tensor", "dtype_of", "infer", "probes"]

# With many divisors, so that reshapes fit; and 1, which broadcasts.
SIZES = (5040, 55440, 1)
# What a call raises for operands that it can't take.
REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError)

NUMPY_TYPES: dict[_C.dtype, type] = {
    float16: np.float16,
    float32: np.float32,
    float64: np.float64,
    int8: np.int8,
    int16: np.int16,
    int32: np.int32,
    int64: np.int64,
    uint8: np.uint8,
    _C.bool: np.bool_,
    complex64: np.complex64,
    complex128: np.complex128,
}
_TYPES = {np.dtype(numpy): ours for ours, numpy in NUMPY_TYPES.items()}

Found = tuple[_C.dtype, TensorShape, "list[Any] | None"]


def dtype_of(value: np.ndarray) -> _C.dtype:
    """The dtype of an array; TypeError if tensors have none such."""
    found = _TYPES.get(value.dtype)
    if found is None:
        raise TypeError(f"a graph has no values of NumPy's type {value.dtype}")
    return found


def as_tensor(value: Any, device: str = "cpu") -> Tensor:
    """The tensor of a value of a run: itself, or that of an array's numbers."""
    if isinstance(value, Tensor):
        return value
    return offered.tensor(value.tolist(), dtype=dtype_of(value), device=device)


def probes(shape: TensorShape, dtype: _C.dtype) -> list[Any] | None:
    """A tensor of that shape for each probe; None if the number of sizes is unknown."""
    if shape.ndims is None:
        return None
    if shape.is_fully_defined():
        return [_probe(shape.as_list(), dtype, 1)] * len(SIZES)
    return [_probe(shape.as_list(), dtype, size) for size in SIZES]


def _probe(dims: Sequence[int | None], dtype: _C.dtype, size: int) -> Tensor:
    return empty([size if dim is None else dim for dim in dims], dtype=dtype, device="meta")


def infer(call: Callable[..., Any], inputs: Sequence[Any], hints: Sequence[int] = ()) -> list[Found]:
    """Dtype, shape and probes of each result; the last refusal is raised if no sizes fit.

    `inputs` have `dtype`, `shape` and `probes`. `hints` are sizes that are worth a try.
    """
    refusal: Exception = ValueError("it takes no such shapes")
    with no_grad():
        if all(tensor.probes is not None for tensor in inputs):
            results: list[list[Any] | None] = []
            static = all(tensor.shape.is_fully_defined() and _same(tensor.probes) for tensor in inputs)
            for number in range(1 if static else len(SIZES)):
                values = [tensor.probes[number] for tensor in inputs]
                try:
                    results.append(None if any(v is None for v in values) else _listed(call(*values)))
                except REFUSALS as error:
                    refusal = error
                    results.append(None)
            if all(result is not None for result in results):
                return _combined([result for result in results if result is not None] * (len(SIZES) if static else 1))
            if static:
                raise refusal
        return _tried(call, inputs, hints, refusal)


def _same(found: list[Any]) -> bool:
    return all(value is found[0] for value in found)


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _combined(results: list[list[Any]]) -> list[Found]:
    """What all probes agree in; their results stand for the op's in what takes them."""
    found = []
    for place in range(len(results[0])):
        values = [result[place] for result in results]
        dtype, shape = _agreed(values)
        found.append((dtype, shape, values if shape.ndims is not None else None))
    return found


def _agreed(values: list[Any]) -> tuple[_C.dtype, TensorShape]:
    shapes = [tuple(value.shape) for value in values]
    dtype = values[0].dtype if isinstance(values[0], Tensor) else dtype_of(values[0])
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        return dtype, TensorShape(None)
    return dtype, TensorShape([sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)])


def _tried(call: Callable[..., Any], inputs: Sequence[Any], hints: Sequence[int], refusal: Exception) -> list[Found]:
    """With sizes that the known ones suggest, and with numbers of them, where these are unknown."""
    known = [size for tensor in inputs for size in _known_sizes(tensor)]
    unknown = any(tensor.shape.ndims is None for tensor in inputs)
    if not unknown and all(tensor.shape.is_fully_defined() for tensor in inputs):
        raise refusal
    accepted: list[tuple[int, list[Any]]] = []
    for size in dict.fromkeys([*SIZES, *hints, *known, 2, 3]):
        for rank, length in [(rank, length) for rank in range(5) for length in range(2)] if unknown else [(0, 0)]:
            try:
                results = _listed(call(*[_stand_in(tensor, rank, size, length) for tensor in inputs]))
            except REFUSALS as error:
                refusal = error if unknown else refusal
                continue
            accepted.append((size, results))
            if unknown:
                return [(_agreed([value])[0], TensorShape(None), None) for value in results]
    if not accepted:
        raise refusal
    found = []
    for place in range(len(accepted[0][1])):
        dtype, shape = _agreed([results[place] for _, results in accepted])
        if len(accepted) == 1 and shape.ndims is not None:
            shape = TensorShape([None if size == accepted[0][0] else size for size in shape.as_list()])
        found.append((dtype, shape, probes(shape, dtype)))
    return found


def _known_sizes(tensor: Any) -> list[int]:
    return [size.value for size in tensor.shape.dims or () if size.value]


def _stand_in(tensor: Any, rank: int, size: int, length: int) -> Any:
    """For a shape of unknown length, or a part of one, which has no probes, an array of so many dimensions."""
    host = None if tensor.probes is None else tensor.probes[0]
    if isinstance(host, np.ndarray):
        return host
    if host is None and tensor.op.host_call is not None and tensor.dtype in (int32, int64):
        return np.ones([4] * length, NUMPY_TYPES[tensor.dtype])
    return _probe([None] * rank if tensor.shape.ndims is None else tensor.shape.as_list(), tensor.dtype, size)
