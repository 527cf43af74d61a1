"""Rules on dot products: transposes fold into dimension numbers. No rule regroups a sum, so bits stay."""

from __future__ import annotations

from ...ir.infer.dot import dot_dims
from ...ir.module import Instruction
from .rewriter import Rewriter, Rule

__all__ = ["RULES"]


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
    Rule("dot-transpose", ("dot",), _dot_transpose, "dot(transpose(x), y) reads x through its dimension numbers"),
    Rule("transpose-dot", ("transpose",), _transpose_dot, "transpose(dot(x, y)) is dot(y, x)"),
    Rule("dot-empty", ("dot",), _dot_empty, "a product over an empty dimension is zero"),
)
