"""Rules that do away with dimensions of size one.

What computes does so on shapes without them; reshapes, which cost nothing, add them where somebody else needs them. So
a reduction with keepdim, a batch of one and a column vector look like any other, and reshapes meet and cancel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.module import Instruction
from .rewriter import ELEMENTWISE, Rewriter, Rule

__all__ = ["RULES"]


def _squeezed(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for n in dims if n != 1)


def _elementwise(i: Instruction, r: Rewriter) -> Instruction | None:
    if 1 not in i.dims:
        return None
    dims = _squeezed(i.dims)
    small = r.emit(i.opcode, [r.reshape(x, dims) for x in i.operands], dict(i.attrs), i.array_shape.with_dims(dims))
    return r.reshape(small, i.dims)


def _broadcast(i: Instruction, r: Rewriter) -> Instruction | None:
    if 1 not in i.dims:
        return None
    x = i.operands[0]
    place = {d: k for k, d in enumerate(d for d, n in enumerate(i.dims) if n != 1)}
    kept = [place[d] for d, n in zip(i.attrs["dimensions"], x.dims, strict=True) if n != 1]
    return r.reshape(r.broadcast(r.reshape(x, _squeezed(x.dims)), _squeezed(i.dims), kept), i.dims)


def _iota(i: Instruction, r: Rewriter) -> Instruction | None:
    if 1 not in i.dims:
        return None
    along, shape = i.attrs["iota_dimension"], i.array_shape.with_dims(_squeezed(i.dims))
    if i.dims[along] == 1:
        return r.reshape(r.constant(0, shape), i.dims)
    before = sum(n != 1 for n in i.dims[:along])
    return r.reshape(r.emit("iota", (), {"iota_dimension": before}, shape), i.dims)


def _transpose(i: Instruction, r: Rewriter) -> Instruction | None:
    if 1 not in i.dims:
        return None
    x = i.operands[0]
    place = {d: k for k, d in enumerate(d for d, n in enumerate(x.dims) if n != 1)}
    permutation = [place[d] for d in i.attrs["dimensions"] if d in place]
    return r.reshape(r.transpose(r.reshape(x, _squeezed(x.dims)), permutation), i.dims)


def _reduce(i: Instruction, r: Rewriter) -> Instruction | None:
    # The documented order drops ones first. A reduce of several operands has an order of its own.
    if len(i.operands) != 2:
        return None
    x, init = i.operands
    reduced = i.attrs["dimensions"]
    if 1 not in x.dims or any(x.dims[d] == 1 for d in reduced):
        return None
    place = {d: k for k, d in enumerate(d for d, n in enumerate(x.dims) if n != 1)}
    attrs = {**i.attrs, "dimensions": tuple(place[d] for d in reduced)}
    return r.reshape(r.emit("reduce", (r.reshape(x, _squeezed(x.dims)), init), attrs), i.dims)


RULES: tuple[Rule, ...] = (
    Rule("squeeze-operation", ELEMENTWISE, _elementwise, "op(x) with ones is reshape(op(reshape(x))) without"),
    Rule("squeeze-broadcast", ("broadcast",), _broadcast, "a broadcast with ones is a reshape of one without"),
    Rule("squeeze-iota", ("iota",), _iota, "an iota with ones is a reshape of one without"),
    Rule("squeeze-transpose", ("transpose",), _transpose, "a transpose with ones is a reshape of one without"),
    Rule("squeeze-reduce", ("reduce",), _reduce, "a reduce with ones that it keeps is a reshape of one without"),
)
