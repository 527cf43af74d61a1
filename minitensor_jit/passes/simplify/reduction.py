"""Rules on reductions. The order of a float sum is a promise, so sums are never regrouped."""

from __future__ import annotations

from ...ir.module import Instruction
from ...ir.semantics.reduction import identity, reduction_kind
from .rewriter import Rewriter, Rule, scalar_value

__all__ = ["RULES"]


def _reduce_ones(i: Instruction, r: Rewriter) -> Instruction | None:
    """Reducing a dimension of size one is no reduction: drop it, or combine with the initial value if none is left."""
    if len(i.operands) != 2 or (kind := reduction_kind(i.attrs["to_apply"])) is None:
        return None
    x, init = i.operands
    dimensions = i.attrs["dimensions"]
    real = [d for d in dimensions if x.dims[d] != 1]
    if len(real) == len(dimensions) and real:
        return None
    if not real:
        return r.emit(kind, (r.broadcast(init, i.dims, ()), r.reshape(x, i.dims)))
    kept = [d for d in range(len(x.dims)) if d in real or d not in dimensions]
    small = r.reshape(x, [x.dims[d] for d in kept])
    return r.emit("reduce", (small, init), {**i.attrs, "dimensions": tuple(kept.index(d) for d in real)})


def _reduce_empty(i: Instruction, r: Rewriter) -> Instruction | None:
    """The reduction of no elements is its identity."""
    if len(i.operands) != 2 or (kind := reduction_kind(i.attrs["to_apply"])) is None:
        return None
    x, init = i.operands
    if x.array_shape.size:
        return None
    unit = identity(kind, x.array_shape.numpy_dtype)
    known = scalar_value(init)
    if known is not None and known.tobytes() == unit.tobytes():
        return r.broadcast(init, i.dims, ())
    return r.emit(kind, (r.broadcast(init, i.dims, ()), r.constant(unit, i.array_shape)))


RULES: tuple[Rule, ...] = (
    Rule("reduce-ones", ("reduce",), _reduce_ones, "a dimension of size one needs no reduction"),
    Rule("reduce-empty", ("reduce",), _reduce_empty, "reducing nothing gives the identity"),
)
