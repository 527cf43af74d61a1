"""The documented order of reductions (`docs/numerics.md`), and which reduction a computation is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..module import Computation
from ..narrow import WIDER, array_of
from ..shape import DTYPES, dtype_of
from ..small_types import float_limits, integer_limits

__all__ = ["Step", "collapse", "identity", "maximum", "minimum", "reduce_ordered", "reduction_kind"]

Array = NDArray[Any]
# One step of a reduction: (outer, reduced, inner) sizes.
Step = tuple[int, int, int]

LANES: Final = 64
ROW_BLOCK: Final = 4096
ROW_BLOCKS: Final = 1024
COLUMN_BLOCK: Final = 256
COLUMN_BLOCKS: Final = 64

KINDS: Final = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def reduction_kind(computation: Computation) -> str | None:
    """The opcode of a combiner `(a, b) -> opcode(a, b)`, or None for any other computation."""
    root = computation.root
    if root.opcode not in KINDS or len(computation.instructions) != 3:
        return None
    numbers = sorted(o.parameter_number for o in root.operands if o.parameter_number is not None)
    return root.opcode if numbers == [0, 1] else None


def collapse(dims: Sequence[int], dimensions: Sequence[int]) -> list[Step]:
    """The steps of a reduction, in the order in which they are done (innermost first)."""
    groups: list[tuple[bool, int]] = []
    for d, n in enumerate(dims):
        if n == 1:
            continue
        reduced = d in dimensions
        if groups and groups[-1][0] == reduced:
            groups[-1] = (reduced, groups[-1][1] * n)
        else:
            groups.append((reduced, n))
    steps: list[Step] = []
    while any(reduced for reduced, _ in groups):
        at = max(k for k, (reduced, _) in enumerate(groups) if reduced)
        steps.append((prod(n for _, n in groups[:at]), groups[at][1], prod(n for _, n in groups[at + 1 :])))
        rest = groups[:at] + groups[at + 1 :]
        # Kept groups that now touch are one group again.
        groups = []
        for reduced, n in rest:
            if groups and groups[-1][0] == reduced:
                groups[-1] = (reduced, groups[-1][1] * n)
            else:
                groups.append((reduced, n))
    return steps


def identity(kind: str, dtype: np.dtype[Any]) -> Any:
    """The value that `kind` leaves everything unchanged with."""
    if dtype.names is not None:
        name = dtype_of(dtype)
        wide = DTYPES[WIDER[name]].numpy
        if kind in ("maximum", "minimum"):
            limits = float_limits(name) if wide.kind == "f" else integer_limits(name)
            return array_of(np.array(limits[kind == "minimum"], wide), name)[()]
        return array_of(identity(kind, wide), name)[()]
    if kind in ("add", "or", "xor"):
        return dtype.type(0)
    if kind == "multiply":
        return dtype.type(1)
    if kind == "and":
        return np.bool_(True) if dtype.kind == "b" else np.array(-1).astype(dtype)[()]
    low = kind == "maximum"
    if dtype.kind == "f":
        return dtype.type(-np.inf if low else np.inf)
    if dtype.kind == "b":
        return np.bool_(not low)
    bounds = np.iinfo(dtype)
    return dtype.type(bounds.min if low else bounds.max)


def maximum(x: Array, y: Array) -> Array:
    """The larger one; NaN if either is; -0 before +0."""
    result = np.maximum(x, y)
    if result.dtype.kind == "f":
        # Equal values are the same bits, except zeros: (-0) + (+0) is +0, the larger one.
        result = np.where((x == 0) & (y == 0), np.add(x, y), result)
    return result


def minimum(x: Array, y: Array) -> Array:
    """The smaller one; NaN if either is; -0 before +0."""
    result = np.minimum(x, y)
    if result.dtype.kind == "f":
        result = np.where((x == 0) & (y == 0), -(np.negative(x) - y), result)
    return result


def _combine(kind: str, dtype: np.dtype[Any]) -> Callable[[Array, Array], Array]:
    if kind == "maximum":
        return maximum
    if kind == "minimum":
        return minimum
    logical = dtype.kind == "b"
    return {
        "add": np.logical_or if logical else np.add,
        "multiply": np.logical_and if logical else np.multiply,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[kind]


def reduce_ordered(x: Array, init: Array, dimensions: Sequence[int], kind: str) -> Array:
    """`kind` over `dimensions` in the documented order, then combined with `init`."""
    kept = tuple(n for d, n in enumerate(x.shape) if d not in dimensions)
    with np.errstate(all="ignore"):
        if x.size == 0:
            total = np.full(kept, identity(kind, x.dtype))
        else:
            total = np.ascontiguousarray(x)
            for outer, reduced, inner in collapse(x.shape, dimensions):
                total = total.reshape(outer, reduced, inner)
                step = _row_step if inner == 1 else _column_step
                total = step(total, kind)
            total = total.reshape(kept)
        # A sum never is -0.0, so the usual init of +0.0 changes no bit.
        return np.asarray(_combine(kind, x.dtype)(np.asarray(init), total)).astype(x.dtype, copy=False)


def _padded(x: Array, length: int, kind: str) -> Array:
    if x.shape[1] == length:
        return x
    result = np.full((x.shape[0], length, *x.shape[2:]), identity(kind, x.dtype))
    result[:, : x.shape[1]] = x
    return result


def _row_step(x: Array, kind: str) -> Array:
    combine = _combine(kind, x.dtype)
    outer, reduced = x.shape[0], x.shape[1]
    block = ROW_BLOCK * -(-reduced // (ROW_BLOCK * ROW_BLOCKS))
    blocks = -(-reduced // block)
    # A single short block needs no more rounds than it has elements.
    block = min(block, -(-reduced // LANES) * LANES) if blocks == 1 else block
    rounds = _padded(x.reshape(outer, reduced), blocks * block, kind).reshape(outer, blocks, block // LANES, LANES)
    lanes = np.full((outer, blocks, LANES), identity(kind, x.dtype))
    for r in range(block // LANES):
        lanes = combine(lanes, rounds[:, :, r])
    width = LANES // 2
    while width:
        lanes = combine(lanes[..., :width], lanes[..., width : 2 * width])
        width //= 2
    return _in_order(lanes[..., 0], combine)


def _column_step(x: Array, kind: str) -> Array:
    combine = _combine(kind, x.dtype)
    outer, reduced, inner = x.shape
    block = COLUMN_BLOCK * -(-reduced // (COLUMN_BLOCK * COLUMN_BLOCKS))
    blocks = -(-reduced // block)
    block = min(block, reduced) if blocks == 1 else block
    rounds = _padded(x, blocks * block, kind).reshape(outer, blocks, block, inner)
    total = np.full((outer, blocks, inner), identity(kind, x.dtype))
    for r in range(block):
        total = combine(total, rounds[:, :, r])
    return _in_order(total, combine)


def _in_order(parts: Array, combine: Callable[[Array, Array], Array]) -> Array:
    total = parts[:, 0]
    for j in range(1, parts.shape[1]):
        total = combine(total, parts[:, j])
    return total
