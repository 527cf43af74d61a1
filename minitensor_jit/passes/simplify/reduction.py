"""Rules on reductions and dot products. The order of a float sum is a promise, so sums are never regrouped."""

from __future__ import annotations

from ...ir.infer.infer_shape import dot_dims
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


def _dot_transpose(i: Instruction, r: Rewriter) -> Instruction | None:
    """A transposed operand is read through other dimension numbers; the order of the sum over k stays."""
    lb, lc, rb, rc = dot_dims(i.attrs)
    lhs, rhs = i.operands
    left = _untransposed(lhs, lb, lc)
    right = _untransposed(rhs, rb, rc)
    if left is None and right is None:
        return None
    if left is not None:
        lhs, lb, lc = left
    if right is not None:
        rhs, rb, rc = right
    attrs = {key: value for key, value in i.attrs.items() if not key.endswith("_dims")}
    for key, dims in (
        ("lhs_batch_dims", lb),
        ("lhs_contracting_dims", lc),
        ("rhs_batch_dims", rb),
        ("rhs_contracting_dims", rc),
    ):
        if dims:
            attrs[key] = dims
    return r.emit("dot", (lhs, rhs), attrs)


def _untransposed(
    x: Instruction, batch: tuple[int, ...], contracting: tuple[int, ...]
) -> tuple[Instruction, tuple[int, ...], tuple[int, ...]] | None:
    if x.opcode != "transpose":
        return None
    permutation = x.attrs["dimensions"]
    free = [permutation[d] for d in range(len(permutation)) if d not in batch and d not in contracting]
    if free != sorted(free):
        return None  # the free dimensions would come out in another order
    source = x.operands[0]
    return source, tuple(permutation[d] for d in batch), tuple(permutation[d] for d in contracting)


def _transpose_dot(i: Instruction, r: Rewriter) -> Instruction | None:
    """The transpose of a product that nobody else reads is the product of the operands in the other order.

    To the bit: each element is the same sum in the same order.
    """
    dot = i.operands[0]
    if dot.opcode != "dot" or len(dot.dims) != 2 or r.uses.get(dot) != 1:
        return None
    lb, lc, rb, rc = dot_dims(dot.attrs)
    if lb or rb:
        return None
    attrs = {key: value for key, value in dot.attrs.items() if not key.endswith("_dims")}
    attrs.update(lhs_contracting_dims=rc, rhs_contracting_dims=lc)
    return r.emit("dot", (dot.operands[1], dot.operands[0]), attrs)


def _dot_empty(i: Instruction, r: Rewriter) -> Instruction | None:
    """A sum over no products is zero."""
    lhs = i.operands[0].array_shape
    return r.constant(0, i.array_shape) if lhs.size == 0 and i.array_shape.size else None


RULES: tuple[Rule, ...] = (
    Rule("reduce-ones", ("reduce",), _reduce_ones, "a dimension of size one needs no reduction"),
    Rule("reduce-empty", ("reduce",), _reduce_empty, "reducing nothing gives the identity"),
    Rule("dot-transpose", ("dot",), _dot_transpose, "dot(transpose(x), y) reads x through its dimension numbers"),
    Rule("transpose-dot", ("transpose",), _transpose_dot, "transpose(dot(x, y)) is dot(y, x)"),
    Rule("dot-empty", ("dot",), _dot_empty, "a product over an empty dimension is zero"),
)
