"""What a module means: a NumPy evaluation, one function an opcode.

All operations but the transcendental ones, `dot` and those built on them give the bits that compiled code gives
(`docs/numerics.md`); reductions follow its documented order (`reduction.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from .evaluate_elementwise import ELEMENTWISE_RULES, Array, Rule, Value
from .infer import dot_dims
from .library import library
from .module import Computation, Instruction, Module
from .narrow import array_of, is_narrow, narrowed, wide_array, widened
from .opcode import is_elementwise
from .reduction import reduce_ordered, reduction_kind
from .shape import Shape

__all__ = ["evaluate", "evaluate_computation", "evaluate_instruction"]


def evaluate(module: Module, args: Sequence[ArrayLike]) -> list[Array]:
    """The results of the entry for `args`, one array for each element of a tuple root."""
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
    result = evaluate_computation(module.entry, arrays)
    return list(result) if isinstance(result, tuple) else [result]


def evaluate_computation(computation: Computation, args: Sequence[Value]) -> Value:
    """The value of the root for the given parameter values; a tuple root gives a tuple."""
    values: dict[Instruction, Value] = {}
    with np.errstate(all="ignore"):
        for instruction in computation.instructions:
            if instruction.parameter_number is not None:
                values[instruction] = args[instruction.parameter_number]
            else:
                values[instruction] = evaluate_instruction(instruction, [values[o] for o in instruction.operands])
    return values[computation.root]


def evaluate_instruction(instruction: Instruction, operands: Sequence[Value]) -> Value:
    """The value of one instruction, given the values of its operands."""
    rule = RULES.get(instruction.opcode)
    if rule is None:
        raise NotImplementedError(f"the evaluator has no rule for {instruction.opcode}")
    with np.errstate(all="ignore"):
        if is_narrow(instruction):
            result = narrowed(rule(widened(instruction), [_wide(x) for x in operands]), instruction.shape)
        else:
            result = rule(instruction, operands)
    return np.asarray(result) if isinstance(result, np.generic) else result


def _wide(value: Value) -> Value:
    return tuple(map(_wide, value)) if isinstance(value, tuple) else wide_array(value)


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


def _starts(indices: Sequence[Array], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [min(max(int(s), 0), d - n) for s, d, n in zip(indices, dims, sizes, strict=True)]


def _dynamic_slice(i: Instruction, x: Sequence[Value]) -> Value:
    sizes = i.attrs["dynamic_slice_sizes"]
    at = _starts(x[1:], x[0].shape, sizes)
    return x[0][tuple(slice(s, s + n) for s, n in zip(at, sizes, strict=True))]


def _dynamic_update_slice(i: Instruction, x: Sequence[Value]) -> Value:
    at = _starts(x[2:], x[0].shape, x[1].shape)
    result = x[0].copy()
    result[tuple(slice(s, s + n) for s, n in zip(at, x[1].shape, strict=True))] = x[1]
    return result


def _window_starts(indices: Array, vector_dim: int, index_map: Sequence[int], rank: int) -> Array:
    """The start in every operand dimension, for each batch position: [batch..., rank]."""
    vectors = indices[..., None] if vector_dim == indices.ndim else np.moveaxis(indices, vector_dim, -1)
    if vectors.dtype == np.uint64:  # beyond int64 is out of bounds anyway
        vectors = np.minimum(vectors, np.uint64(np.iinfo(np.int64).max))
    wide = vectors.astype(np.int64)
    starts = np.zeros((*vectors.shape[:-1], rank), np.int64)
    for k, d in enumerate(index_map):
        starts[..., d] = wide[..., k]
    return starts


def _window(starts: Array, sizes: Sequence[int]) -> tuple[Array, ...]:
    """For each operand dimension, the index of each element of each window; they broadcast to [batch..., sizes...]."""
    rank, batch = len(sizes), starts.ndim - 1
    result = []
    for d, size in enumerate(sizes):
        within = np.arange(size).reshape((1,) * (batch + d) + (size,) + (1,) * (rank - d - 1))
        result.append(starts[..., d].reshape(starts.shape[:-1] + (1,) * rank) + within)
    return tuple(result)


def _gather(i: Instruction, x: Sequence[Value]) -> Value:
    source, attrs = x[0], i.attrs
    sizes = attrs["slice_sizes"]
    starts = _window_starts(x[1], attrs["index_vector_dim"], attrs["start_index_map"], source.ndim)
    starts = np.clip(starts, 0, np.array(source.shape, np.int64) - np.array(sizes, np.int64))
    if source.ndim == 0:
        windows = np.broadcast_to(source, starts.shape[:-1])
    elif 0 in i.dims:
        return np.empty(i.dims, source.dtype)
    else:
        windows = source[_window(starts, sizes)]
    batch = starts.ndim - 1
    windows = windows.reshape(
        windows.shape[:batch] + tuple(n for d, n in enumerate(sizes) if d not in attrs["collapsed_slice_dims"])
    )
    offset = list(attrs["offset_dims"])
    outer = [d for d in range(windows.ndim) if d not in offset]
    return np.moveaxis(windows, range(windows.ndim), outer + offset)


def _scatter(i: Instruction, x: Sequence[Value]) -> Value:
    source, attrs = x[0], i.attrs
    window_dims = list(attrs["update_window_dims"])
    batch_dims = [d for d in range(x[2].ndim) if d not in window_dims]
    updates = x[2].transpose(batch_dims + window_dims)
    window = iter(updates.shape[len(batch_dims) :])
    sizes = [1 if d in attrs["inserted_window_dims"] else next(window) for d in range(source.ndim)]
    starts = _window_starts(x[1], attrs["index_vector_dim"], attrs["scatter_dims_to_operand_dims"], source.ndim)
    limits = np.array(source.shape, np.int64) - np.array(sizes, np.int64)
    inside = np.all((starts >= 0) & (starts <= limits), axis=-1)  # a window that sticks out is skipped as a whole
    result = source.copy()
    updates = updates.reshape(*updates.shape[: len(batch_dims)], *sizes)
    combine = attrs["to_apply"]
    kind = reduction_kind(combine)
    for at in np.ndindex(*inside.shape):
        if inside[at]:
            where = tuple(slice(int(s), int(s) + n) for s, n in zip(starts[at], sizes, strict=True))
            if kind == "add" and source.dtype.kind != "b":
                result[where] += updates[at]
            else:
                result[where] = scalar_function(combine)(result[where], updates[at])
    return result


# ---- reductions, contractions, calls


def scalar_function(computation: Computation) -> Callable[..., Value]:
    """A computation on scalars, as a function on arrays that works element by element."""
    for i in computation.instructions:
        if i.opcode not in ("parameter", "constant", "tuple", "get-tuple-element") and not is_elementwise(i.opcode):
            raise NotImplementedError(f"{computation.name} has the non-scalar operation {i.opcode}")
        if isinstance(i.shape, Shape) and i.dims:
            raise NotImplementedError(f"{computation.name} is not a function of scalars: {i.name} is {i.shape}")

    def call(*args: Value) -> Value:
        values: dict[Instruction, Value] = {}
        for i in computation.instructions:
            if i.parameter_number is not None:
                values[i] = args[i.parameter_number]
            elif i.opcode == "bitcast-convert":  # its rule reads the declared dimensions
                values[i] = values[i.operands[0]].view(i.array_shape.numpy_dtype)
            else:
                values[i] = evaluate_instruction(i, [values[o] for o in i.operands])
        return values[computation.root]

    return call


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


def _sort(i: Instruction, x: Sequence[Value]) -> Value:
    axis = i.attrs["dimensions"][0]
    less = scalar_function(i.attrs["to_apply"])
    moved = [np.moveaxis(a, axis, -1).copy() for a in x]
    for at in np.ndindex(*moved[0].shape[:-1]):
        lanes = [a[at] for a in moved]

        def before(p: int, q: int, lanes: list[Array] = lanes) -> bool:
            return bool(less(*(np.asarray(lane[k]) for lane in lanes for k in (p, q))))

        def compare(p: int, q: int) -> int:
            return int(before(q, p)) - int(before(p, q))

        order = sorted(range(len(lanes[0])), key=cmp_to_key(compare))
        for a, lane in zip(moved, lanes, strict=True):
            a[at] = lane[order]
    results = tuple(np.moveaxis(a, -1, axis) for a in moved)
    return results if len(results) > 1 else results[0]


def _dot(i: Instruction, x: Sequence[Value]) -> Value:
    lhs, rhs = x
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


def _tuple(i: Instruction, x: Sequence[Value]) -> Value:
    return tuple(x)


def _get_tuple_element(i: Instruction, x: Sequence[Value]) -> Value:
    return x[0][i.attrs["index"]]


def _call(i: Instruction, x: Sequence[Value]) -> Value:
    return evaluate_computation(i.called()[0], x)


def _kernel_call(i: Instruction, x: Sequence[Value]) -> Value:
    results = library().run_kernel(i, x)
    return tuple(results) if i.is_tuple else results[0]


RULES: Final[dict[str, Rule]] = {
    **ELEMENTWISE_RULES,
    "constant": _constant,
    "iota": _iota,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "reverse": _reverse,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "reduce": _reduce,
    "sort": _sort,
    "kernel-call": _kernel_call,
    "dot": _dot,
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "call": _call,
    "fusion": _call,
}
