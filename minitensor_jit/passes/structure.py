"""Hashable keys for instructions and computations: equal keys mean the same operation on the same operands."""

from __future__ import annotations

from collections.abc import Hashable

from ..ir.module import Computation, Instruction

__all__ = ["StructureKeys"]


class StructureKeys:
    """Computes keys, and remembers those of computations. Valid while the keyed computations do not change."""

    def __init__(self) -> None:
        self._known: dict[Computation, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def instruction(self, i: Instruction, operands: tuple[Hashable, ...]) -> Hashable:
        """The key of `i` if it read `operands` (numbers, or the operands' own keys)."""
        literal = i.literal
        return (
            i.opcode,
            i.shape,
            operands,
            self.attributes(i) if i.attrs else None,
            # Bytes, not values: 0.0 and -0.0 differ, NaN equals itself.
            None if literal is None else literal.tobytes(),
            i.parameter_number,
        )

    def attributes(self, i: Instruction) -> Hashable:
        """The key of what an instruction says beside its operands."""
        return tuple(sorted((k, self.computation(v) if isinstance(v, Computation) else v) for k, v in i.attrs.items()))

    def computation(self, computation: Computation) -> int:
        """A number that two computations share if they are structurally equal."""
        number = self._known.get(computation)
        if number is None:
            position: dict[Instruction, int] = {}
            keys: list[Hashable] = []
            for n, i in enumerate(computation.instructions):
                position[i] = n
                keys.append(self.instruction(i, tuple(position[o] for o in i.operands)))
            key = (tuple(keys), position[computation.root])
            number = self._known[computation] = self._numbers.setdefault(key, len(self._numbers))
        return number
