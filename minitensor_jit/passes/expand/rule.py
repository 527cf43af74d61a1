"""What the rules share: their type, and copies of a computation's instructions in the place of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.builder import Builder
from ...ir.module import Computation, Instruction

__all__ = ["Rule", "inline"]

Rule = Callable[[Builder, Instruction], Instruction | None]


def inline(b: Builder, computation: Computation, operands: Sequence[Instruction]) -> Instruction:
    """A function of scalars, applied to the operands element by element; the instruction of its root."""
    dims = operands[0].dims if operands else ()
    values: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        if i.parameter_number is not None:
            values[i] = operands[i.parameter_number]
        elif i.opcode == "constant":
            assert i.literal is not None
            scalar = b.constant(i.literal)
            values[i] = b.broadcast(scalar, dims) if dims else scalar
        else:
            shape = None if i.is_tuple else i.array_shape.with_dims(dims)
            values[i] = b.emit(i.opcode, [values[o] for o in i.operands], dict(i.attrs), shape=shape)
    return values[computation.root]
