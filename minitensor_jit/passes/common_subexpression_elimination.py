"""Computes equal values once."""

from __future__ import annotations

from collections.abc import Hashable

from ..ir.module import Computation, Instruction, Module
from ..ir.opcode import OPCODES
from ..ir.shape import Shape
from .structure import StructureKeys

__all__ = ["CommonSubexpressionElimination"]


class CommonSubexpressionElimination:
    """Merges instructions of one computation that do the same operation on the same operands.

    What has a side effect has it as often as it stands there, but for calls of kernels, which only may fail. Constants
    are equal by their bytes, computations by their structure. The operands of a commutative operation may
    stand in either order, except for floats: which NaN of two an addition returns depends on the order.
    """

    name = "cse"

    def run(self, module: Module) -> bool:
        """Merge equal instructions; the later ones are removed."""
        keys = StructureKeys()
        changed = False
        for computation in module.computations:  # callees first: a caller sees them final
            changed |= _merge(computation, keys)
        if changed:
            module.collect()
        return changed


def _merge(computation: Computation, keys: StructureKeys) -> bool:
    number: dict[Instruction, int] = {}
    first: dict[Hashable, Instruction] = {}
    replaced: dict[Instruction, Instruction] = {}
    kept: list[Instruction] = []
    for i in computation.instructions:
        if replaced:
            i.operands = [replaced.get(o, o) for o in i.operands]
        operands = tuple([number[o] for o in i.operands])
        if len(operands) == 2 and operands[0] > operands[1] and OPCODES[i.opcode].commutative:
            shape = i.operands[0].shape
            if isinstance(shape, Shape) and not shape.is_floating:
                operands = (operands[1], operands[0])
        if i.opcode != "kernel-call" and i.has_side_effect:
            number[i] = len(number)
            kept.append(i)
            continue
        known = first.setdefault(keys.instruction(i, operands), i)
        if known is i:
            number[i] = len(number)
            kept.append(i)
        else:
            replaced[i] = known
            if known.metadata is None:
                known.metadata = i.metadata
    if not replaced:
        return False
    computation.instructions = kept
    computation.root = replaced.get(computation.root, computation.root)
    return True
