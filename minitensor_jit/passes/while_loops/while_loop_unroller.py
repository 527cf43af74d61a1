"""Replaces short loops by their iterations, one after the other."""

from __future__ import annotations

from typing import Final

from ...ir.decision import Decision
from ...ir.module import Computation, Instruction, Module
from ...ir.refusal import Refusal, Refused
from .while_loop_analysis import element, elements, trip_count

__all__ = ["WhileLoopUnroller"]

MAX_ITERATIONS: Final = 8
MAX_INSTRUCTIONS: Final = 256


class WhileLoopUnroller:
    """Writes out a `while` that is known to have a few iterations only; one without any is its first state.

    Contract: the trip count follows from constants in the condition, the body and the first state. What the iterations
    have in common is then simplified and fused with what is around. Refusals are in `decisions`.
    """

    name = "while-unroll"

    def __init__(self) -> None:
        self.decisions: list[Refusal] = []

    def run(self, module: Module) -> bool:
        """Visit the loops of every computation, inner ones first."""
        changed = False
        for computation in module.computations:
            for loop in [i for i in computation.instructions if i.opcode == "while"]:
                count = trip_count(loop, MAX_ITERATIONS)
                decision = _may(loop, count)
                if not decision:
                    self.decisions.append(Refusal(loop, None, decision))
                    continue
                assert count is not None
                _unroll(computation, loop, count)
                changed = True
        if changed:
            module.collect()
        return changed


def _may(loop: Instruction, count: int | None) -> Decision:
    if count is None:
        return Refused.UNKNOWN_TRIP_COUNT.because(f"it is not known to have at most {MAX_ITERATIONS} iterations", 0)
    size = count * len(loop.attrs["body"].instructions)
    return Refused.TOO_LARGE.unless(size <= MAX_INSTRUCTIONS, f"its iterations would be {size} instructions", 0)


def _unroll(computation: Computation, loop: Instruction, count: int) -> None:
    body: Computation = loop.attrs["body"]
    (parameter,) = body.parameters
    state = loop.operands[0]
    made: list[Instruction] = []
    for iteration in range(count):
        copies: dict[Instruction, Instruction] = {parameter: state}
        for i in body.instructions:
            if i is parameter:
                continue
            if i.opcode == "get-tuple-element" and i.operands[0] is parameter:
                copies[i] = element(state, i.attrs["index"])
                if copies[i].opcode == "get-tuple-element" and copies[i].operands[0] is state:
                    made.append(copies[i])
                continue
            copy = i.clone([copies[o] for o in i.operands])
            copy.name = f"{i.name}.iteration{iteration}"
            copy.metadata = copy.metadata or loop.metadata
            copies[i] = copy
            made.append(copy)
        state = copies[body.root]
    readers = [i for i in computation.instructions if _reads(i, loop)] if elements(state) else []
    back = {i: element(state, i.attrs["index"]) for i in readers}
    made += [b for b in back.values() if b.operands and b.operands[0] is state and b.opcode == "get-tuple-element"]
    at = computation.instructions.index(loop)
    computation.instructions[at : at + 1] = made
    computation.replace_uses({**back, loop: state})
    computation.sort()
    computation.make_names_unique()


def _reads(i: Instruction, loop: Instruction) -> bool:
    return i.opcode == "get-tuple-element" and i.operands[0] is loop
