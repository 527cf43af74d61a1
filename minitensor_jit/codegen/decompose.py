"""Reductions over several groups of dimensions, as one step after the other (`docs/numerics.md`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.module import Computation, Instruction
from ..ir.semantics.reduction import collapse, identity, reduction_kind
from ..ir.shape import Shape, TupleShape

__all__ = ["decompose_reduces"]


def _innermost_group(dims: Sequence[int], dimensions: Sequence[int]) -> list[int]:
    """The reduced dimensions that are one group with the last reduced one; those of size one belong to any group."""
    group: list[int] = []
    for d in range(len(dims) - 1, -1, -1):
        if dims[d] == 1:
            continue
        if d in dimensions:
            group.append(d)
        elif group:
            break
    return sorted(group)


def decompose_reduces(computation: Computation) -> tuple[Computation, list[list[Instruction]]] | None:
    """None if nothing is to be done, or if the computation is not just several reduces over the same dimensions.

    Otherwise the computation with each reduce replaced by its first step and, for each root, a parameter that stands
    for that step's result, followed by the reduces that remain.
    """
    roots = computation.roots
    if not all(r.opcode == "reduce" and len(r.operands) == 2 and reduction_kind(r.attrs["to_apply"]) for r in roots):
        return None
    dims, dimensions = roots[0].operands[0].dims, tuple(roots[0].attrs["dimensions"])
    if any(r.operands[0].dims != dims or tuple(r.attrs["dimensions"]) != dimensions for r in roots):
        return None
    if 0 in dims or len(collapse(dims, dimensions)) < 2:
        return None
    mapping: dict[Instruction, Instruction] = {}
    first = computation.clone(mapping)
    group = _innermost_group(dims, dimensions)
    kept = [d for d in range(len(dims)) if d not in group]
    rest = tuple(kept.index(d) for d in dimensions if d not in group)
    heads, chains = [], []
    for root in roots:
        head = mapping[root]
        kind = reduction_kind(root.attrs["to_apply"])
        assert kind is not None
        shape = Shape(root.dtype, tuple(dims[d] for d in kept))
        start = identity(kind, shape.numpy_dtype)
        constant = _constant(f"{root.name}.identity", root.dtype, start)
        copy = Instruction(
            f"{root.name}.step",
            "reduce",
            shape,
            [head.operands[0], constant],
            {"dimensions": tuple(group), "to_apply": root.attrs["to_apply"]},
        )
        first.instructions += [constant, copy]
        heads.append(copy)
        chains.append(_chain(root, shape, rest))
    if len(heads) == 1:
        first.root = heads[0]
    else:
        first.root = Instruction("steps", "tuple", TupleShape(tuple(h.shape for h in heads)), heads)
        first.instructions.append(first.root)
    return first, chains


def _constant(name: str, dtype: str, value: object) -> Instruction:
    shape = Shape(dtype)
    return Instruction(name, "constant", shape, literal=np.array(value, shape.numpy_dtype))


def _chain(root: Instruction, shape: Shape, dimensions: tuple[int, ...]) -> list[Instruction]:
    """A stand-in for the first step's result, and the reduce of what is left; it may be decomposed again."""
    before = Instruction(f"{root.name}.before", "parameter", shape, parameter_number=0)
    last = Instruction(
        root.name, "reduce", root.shape, [before, root.operands[1]],
        {"dimensions": dimensions, "to_apply": root.attrs["to_apply"]},
    )  # fmt: skip
    return [before, last]
