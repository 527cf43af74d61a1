"""Begins what other devices take part in as early as may be, and waits for it as late as may be."""

from __future__ import annotations

from collections.abc import Container

from ...ir.module import Computation, Instruction
from ...ir.opcode import Trait, opcodes_with
from ..sequence_pass import SequencePass
from .collective_order import exchanges

__all__ = ["LatencyHidingScheduler"]

_NOT_RUN = opcodes_with(Trait.FREE | Trait.FORWARDS)


class LatencyHidingScheduler(SequencePass):
    """Moves each `all-reduce-start` up to behind its operand, and what waits for an `all-reduce-done` behind the rest.

    Contract: the same instructions in another topological order. All that needs no result of other devices comes first,
    then the first end and what needs no further one, and so on; within each part the order stays, and so does that of
    all exchanges. More may be live at once than before, since what frees a value may wait for other devices.
    """

    name = "latency-hiding-scheduler"

    def _run(self, computation: Computation) -> bool:
        given = computation.instructions
        if not any(i.opcode == "all-reduce-start" for i in given):
            return False
        begin = [i for i in given if exchanges(i)]  # the next one first, from here on
        begin.reverse()
        order: dict[Instruction, None] = {}

        def emit(i: Instruction) -> None:
            for o in i.operands:
                if o not in order:
                    emit(o)
            order[i] = None
            if begin and i is begin[-1]:
                begin.pop()

        waiting, ended = given, None
        while waiting:
            late: dict[Instruction, None] = {}
            for i in waiting:
                if i in order:
                    continue
                ends = i.opcode == "all-reduce-done" and i is not ended
                early = exchanges(i) and i is not begin[-1]
                if ends or early or i is computation.root or not late.keys().isdisjoint(i.operands):
                    late[i] = None
                    continue
                emit(i)
                while begin and begin[-1].opcode == "all-reduce-start" and not _waits(begin[-1], order):
                    emit(begin[-1])
            waiting = list(late)
            ended = next((i for i in waiting if i.opcode == "all-reduce-done"), None)
            if ended is None:
                break
        for i in waiting:
            emit(i)
        computation.instructions = list(order)
        return computation.instructions != given


def _waits(start: Instruction, order: Container[Instruction]) -> bool:
    """Whether an instruction has an operand that isn't there; what has no code of its own doesn't count."""
    todo = [o for o in start.operands if o not in order]
    while todo:
        i = todo.pop()
        if i.opcode not in _NOT_RUN or not i.operands:
            return True
        todo += [o for o in i.operands if o not in order]
    return False
