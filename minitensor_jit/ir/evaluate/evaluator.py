"""What a module means: a NumPy evaluation, one function an opcode.

All operations but the transcendental ones, `dot` and those built on them give the bits that compiled code gives
(`docs/numerics.md`); reductions follow its documented order (`semantics/reduction.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..infer.dot import dot_dims
from ..library import library
from ..module import Computation, Instruction, Module
from ..narrow import array_of
from ..semantics.reduction import reduce_ordered, reduction_kind
from .collective import COLLECTIVE_RULES, evaluate_devices
from .computation import RULES, evaluate_computation, evaluate_instruction, scalar_function
from .control import CONTROL_RULES
from .elementwise import ELEMENTWISE_RULES, Array, Value
from .index import INDEX_RULES
from .linalg import LINALG_RULES
from .order import ORDER_RULES
from .random import RANDOM_RULES
from .window import WINDOW_RULES

__all__ = ["RULES", "evaluate", "evaluate_computation", "evaluate_devices", "evaluate_instruction", "flat"]


def evaluate(module: Module, args: Sequence[ArrayLike]) -> list[Array]:
    """The results of the entry for `args`, one array for each leaf of a tuple root."""
    parameters = module.entry.parameters
    if len(args) != len(parameters):
        raise ValueError(f"{module.name} takes {len(parameters)} arguments, got {len(args)}")
    arrays = []
    for arg, parameter in zip(args, parameters, strict=True):
        array = np.asarray(arg)
        shape = parameter.array_shape
        if array.shape != shape.dims or array.dtype != shape.numpy_dtype:
            raise ValueError(f"argument {parameter.name} is {array.dtype}{list(array.shape)}, expected {shape}")
        arrays.append(array)
    return flat(evaluate_computation(module.entry, arrays))


def flat(value: Value) -> list[Array]:
    """The arrays of a value in order: of a tuple those of its elements, however deep."""
    return [array for element in value for array in flat(element)] if isinstance(value, tuple) else [value]


# ---- sources and movement


def _constant(i: Instruction, x: Sequence[Value]) -> Value:
    return i.literal


def _iota(i: Instruction, x: Sequence[Value]) -> Value:
    dimension = i.attrs["iota_dimension"]
    line = array_of(np.arange(i.dims[dimension]), i.dtype)
    along = [1] * len(i.dims)
    along[dimension] = -1
    return np.broadcast_to(line.reshape(along), i.dims)


def _broadcast(i: Instruction, x: Sequence[Value]) -> Value:
    dims = [1] * len(i.dims)
    for k, d in enumerate(i.attrs["dimensions"]):
        dims[d] = x[0].shape[k]
    return np.broadcast_to(x[0].reshape(dims), i.dims)


def _reshape(i: Instruction, x: Sequence[Value]) -> Value:
    return x[0].reshape(i.dims)


def _transpose(i: Instruction, x: Sequence[Value]) -> Value:
    return x[0].transpose(i.attrs["dimensions"])


def _slice(i: Instruction, x: Sequence[Value]) -> Value:
    return x[0][tuple(slice(a, b, s) for a, b, s in i.attrs["slice"])]


def _concatenate(i: Instruction, x: Sequence[Value]) -> Value:
    return np.concatenate(list(x), axis=i.attrs["dimensions"][0])


def _pad(i: Instruction, x: Sequence[Value]) -> Value:
    result = np.full(i.dims, x[1])
    source, into = [], []
    for d, (low, _, interior) in enumerate(i.attrs["padding"]):
        at = low + np.arange(x[0].shape[d]) * (interior + 1)
        inside = (at >= 0) & (at < i.dims[d])
        source.append(np.nonzero(inside)[0])
        into.append(at[inside])
    if i.dims:
        result[np.ix_(*into)] = x[0][np.ix_(*source)]
        return result
    return x[0]


def _reverse(i: Instruction, x: Sequence[Value]) -> Value:
    return np.flip(x[0], i.attrs["dimensions"])


# ---- reductions, contractions, calls


def _reduce(i: Instruction, x: Sequence[Value]) -> Value:
    dimensions: tuple[int, ...] = i.attrs["dimensions"]
    computation: Computation = i.attrs["to_apply"]
    n = len(x) // 2
    kind = reduction_kind(computation) if n == 1 else None
    if kind is not None:
        return reduce_ordered(x[0], x[1], dimensions, kind)
    # Any other computation: one element after the other, in row-major order.
    rank = x[0].ndim
    kept = [d for d in range(rank) if d not in dimensions]
    order = [*sorted(dimensions), *kept]
    outer = tuple(x[0].shape[d] for d in kept)
    columns = [a.transpose(order).reshape((-1, *outer)) if x[0].size else np.empty((0, *outer), a.dtype) for a in x[:n]]
    totals: Value = tuple(np.broadcast_to(init, outer) for init in x[n:])
    function = scalar_function(computation)
    for r in range(columns[0].shape[0]):
        result = function(*totals, *(c[r] for c in columns))
        totals = result if isinstance(result, tuple) else (result,)
    totals = tuple(np.array(np.broadcast_to(t, outer)) for t in totals)
    return totals if n > 1 else totals[0]


def _dot(i: Instruction, x: Sequence[Value]) -> Value:
    lhs, rhs = (a.astype(i.array_shape.numpy_dtype, copy=False) for a in x)
    lb, lc, rb, rc = dot_dims(i.attrs)
    left_free = [d for d in range(lhs.ndim) if d not in lb and d not in lc]
    right_free = [d for d in range(rhs.ndim) if d not in rb and d not in rc]
    batch = tuple(lhs.shape[d] for d in lb)
    k = int(np.prod([lhs.shape[d] for d in lc], dtype=np.int64))
    m = int(np.prod([lhs.shape[d] for d in left_free], dtype=np.int64))
    n = int(np.prod([rhs.shape[d] for d in right_free], dtype=np.int64))
    left = lhs.transpose([*lb, *left_free, *lc]).reshape((*batch, m, k))
    right = rhs.transpose([*rb, *rc, *right_free]).reshape((*batch, k, n))
    return np.matmul(left, right).reshape(i.dims)


def _kernel_call(i: Instruction, x: Sequence[Value]) -> Value:
    results = library().run_kernel(i, x)
    return tuple(results) if i.is_tuple else results[0]


RULES.update(
    {
        **ELEMENTWISE_RULES,
        **INDEX_RULES,
        **ORDER_RULES,
        **WINDOW_RULES,
        **LINALG_RULES,
        **RANDOM_RULES,
        **CONTROL_RULES,
        **COLLECTIVE_RULES,
        "constant": _constant,
        "iota": _iota,
        "broadcast": _broadcast,
        "reshape": _reshape,
        "bitcast": _reshape,
        "bitcast-reinterpret": ELEMENTWISE_RULES["bitcast-convert"],
        "transpose": _transpose,
        "slice": _slice,
        "concatenate": _concatenate,
        "pad": _pad,
        "reverse": _reverse,
        "reduce": _reduce,
        "kernel-call": _kernel_call,
        "dot": _dot,
    }
)
