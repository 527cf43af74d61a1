"""What a rule is, and how it makes instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...ir.infer.infer_shape import infer_shape
from ...ir.module import Attrs, Instruction, Metadata
from ...ir.narrow import array_of, wide_array
from ...ir.opcode import OPCODES
from ...ir.shape import AnyShape, Shape

__all__ = ["ELEMENTWISE", "Apply", "Rewriter", "Rule", "scalar_value"]

ELEMENTWISE: Final = tuple(name for name, row in OPCODES.items() if row.kind in ("unary", "binary", "ternary"))


class Rewriter:
    """Makes the instructions of a replacement; they take over the metadata of what they replace."""

    def __init__(self, uses: Mapping[Instruction, int] | None = None) -> None:
        self.uses: Mapping[Instruction, int] = {} if uses is None else uses
        """How often each instruction was used when the sweep began."""
        self.made: list[Instruction] = []
        self.metadata: Metadata | None = None
        self._count = 0

    def emit(
        self,
        opcode: str,
        operands: Sequence[Instruction],
        attrs: Attrs | None = None,
        shape: AnyShape | None = None,
    ) -> Instruction:
        """Make any instruction, with its shape inferred and checked."""
        attrs = {} if attrs is None else attrs
        inferred = infer_shape(opcode, [o.shape for o in operands], attrs, shape)
        self._count += 1
        instruction = Instruction(f"{opcode}.s{self._count}", opcode, inferred, operands, attrs, metadata=self.metadata)
        self.made.append(instruction)
        return instruction

    def constant(self, value: Any, shape: Shape) -> Instruction:
        """Make the scalar constant `value`, broadcast to `shape`."""
        literal = array_of(value, shape.dtype)
        literal.setflags(write=False)
        self._count += 1
        scalar = Instruction(
            f"constant.s{self._count}", "constant", Shape(shape.dtype), literal=literal, metadata=self.metadata
        )
        self.made.append(scalar)
        return self.broadcast(scalar, shape.dims, ())

    def broadcast(self, x: Instruction, dims: Sequence[int], dimensions: Sequence[int]) -> Instruction:
        """Broadcast x, or return it where its dimensions already are `dims`."""
        if x.dims == tuple(dims):
            return x
        return self.emit("broadcast", (x,), {"dimensions": tuple(dimensions)}, x.array_shape.with_dims(tuple(dims)))

    def reshape(self, x: Instruction, dims: Sequence[int]) -> Instruction:
        """Reshape x, or return it where its dimensions already are `dims`."""
        if x.dims == tuple(dims):
            return x
        return self.emit("reshape", (x,), shape=x.array_shape.with_dims(tuple(dims)))

    def transpose(self, x: Instruction, permutation: Sequence[int]) -> Instruction:
        """Transpose x, or return it where nothing would move."""
        if list(permutation) == list(range(len(permutation))):
            return x
        return self.emit("transpose", (x,), {"dimensions": tuple(permutation)})


# Returns the replacement of an instruction, or None where the rule does not apply.
Apply: TypeAlias = Callable[[Instruction, Rewriter], Instruction | None]


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """One rewrite, for instructions with one of `opcodes`; `what` says it in a line."""

    name: str
    opcodes: tuple[str, ...]
    apply: Apply
    what: str


def scalar_value(x: Instruction) -> Any:
    """The one value that all elements of `x` have, where it is a constant known now; else None."""
    if x.opcode == "broadcast":
        x = x.operands[0]
    if x.opcode == "constant" and x.literal is not None and x.literal.size == 1:
        return wide_array(x.literal).reshape(())[()]
    return None
