"""Keeps the collectives of a computation in their order, by data that they read."""

from __future__ import annotations

from ...ir.module import Computation, Instruction
from ...ir.opcode import COLLECTIVES
from ...ir.shape import TupleShape
from ..sequence_pass import SequencePass

__all__ = ["CollectiveOrder", "exchanges"]


class CollectiveOrder(SequencePass):
    """Makes each collective wait for the one before it, by an `opt-barrier` of its first operand and that one's result.

    Contract: afterwards every topological order of a computation has its collectives, and the loops and conditionals
    that run some, in the order in which they stood. Passes that follow only keep what reads what; a device on which two
    exchanges changed places would wait for others that wait for it. The barrier gives names, and costs nothing. What
    waits already gets none.
    """

    name = "collective-order"

    def _run(self, computation: Computation) -> bool:
        if sum(exchanges(i) for i in computation.instructions) < 2:
            return False
        made: list[Instruction] = []
        before: Instruction | None = None
        waits: dict[Instruction, Instruction | None] = {}  # the last collective that an instruction waits for
        order: dict[Instruction | None, int] = {None: 0}
        changed = False
        for i in computation.instructions:
            waits[i] = max((waits[o] for o in i.operands), key=order.__getitem__, default=None)
            if exchanges(i):
                if before is not None and waits[i] is not before:
                    made += _wait(i, before)
                    changed = True
                order[i] = len(order)
                before = waits[i] = i
            made.append(i)
        if changed:
            computation.instructions = made
            computation.make_names_unique()
        return changed


def exchanges(i: Instruction) -> bool:
    """Whether an exchange with other devices begins in it, or in what it runs."""
    begins = i.opcode in COLLECTIVES and i.opcode != "all-reduce-done"
    return begins or any(exchanges(x) for c in i.called() for x in c.instructions)


def _wait(i: Instruction, before: Instruction) -> list[Instruction]:
    """Has `i` read its first operand behind a barrier that `before` has to pass too."""
    made: list[Instruction] = []

    def add(opcode: str, shape: object, *operands: Instruction, **attrs: int) -> Instruction:
        made.append(
            Instruction(f"{i.name}.{opcode}", opcode, shape, operands, attrs, metadata=i.metadata)  # type: ignore[arg-type]
        )
        return made[-1]

    result = before
    while isinstance(result.shape, TupleShape):
        result = add("get-tuple-element", result.shape.elements[0], result, index=0)
    operand = i.operands[0]
    pair = TupleShape((operand.shape, result.shape))
    barrier = add("opt-barrier", pair, add("tuple", pair, operand, result))
    i.operands[0] = add("get-tuple-element", operand.shape, barrier, index=0)
    return made
