"""Makes one all-reduce of several small ones."""

from __future__ import annotations

from typing import Final

from ...ir.decision import Decision
from ...ir.module import Computation, Instruction
from ...ir.refusal import Refused
from ...ir.shape import TupleShape
from ...ir.size import hint
from ..sequence_pass import SequencePass
from ..structure import StructureKeys
from .collective_order import exchanges

__all__ = ["AllReduceCombiner"]

# Those of a combined one are on their way together, so that they wait for other devices once: some 20 us each. A larger
# operand takes longer than that itself, and can begin as soon as it is there.
MAX_BYTES: Final = 128 << 10
# What is combined waits for the last operand: no longer than some operands take to be computed.
MAX_TOGETHER: Final = 1 << 20


class AllReduceCombiner(SequencePass):
    """Combines all-reduces that follow each other into one with several operands and a tuple of results.

    Contract: they have the same devices, the same function and one element type, none waits for another's result, and
    no other collective stands between them, so that the order of collectives stays. Each element is computed as before.
    The combined one stands where the last one stood. A refusal costs an exchange, and no memory traffic.
    """

    name = "all-reduce-combiner"

    def _run(self, computation: Computation) -> bool:
        if not any(i.opcode == "all-reduce" for i in computation.instructions):
            return False
        keys = StructureKeys()
        run: list[Instruction] = []
        together: list[list[Instruction]] = []
        waits: set[Instruction] = set()  # what waits for a result of the run
        for i in computation.instructions:
            after = not waits.isdisjoint(i.operands)
            if after:
                waits.add(i)
            if not exchanges(i):
                continue
            decision = _suits(i)
            if decision and run:
                decision = _joins(run, i, keys, after)
            if not decision:
                self.refuse(i, run[-1] if run else None, decision)
                together.append(run)
                run, waits = [], set()
            if _suits(i):
                run.append(i)
                waits.add(i)
        together = [run for run in (*together, run) if len(run) > 1]
        for run in together:
            _combine(computation, run)
        if together:
            computation.sort()
            computation.make_names_unique()
        return bool(together)


def _joins(run: list[Instruction], i: Instruction, keys: StructureKeys, after: bool) -> Decision:
    first = run[0]
    if keys.attributes(first) != keys.attributes(i):
        return Refused.OTHER_EXCHANGE.because("it is among other devices, or another reduction", 0)
    if first.dtype != i.dtype:
        return Refused.OTHER_EXCHANGE.because(f"its elements are {i.dtype}, not {first.dtype}", 0)
    if after:
        return Refused.CYCLE.because("its operand waits for the result of one before", 0)
    total = sum(hint(x.array_shape.nbytes) for x in (*run, i))
    return Refused.LITTLE_GAINED.unless(
        total <= MAX_TOGETHER, f"together they would move {total} bytes, and wait for the last of them", 0
    )


def _suits(i: Instruction) -> Decision:
    if i.opcode != "all-reduce" or i.is_tuple:
        return Refused.OTHER_EXCHANGE.because("only all-reduces of one operand are combined", 0)
    nbytes = hint(i.array_shape.nbytes)
    return Refused.LITTLE_GAINED.unless(
        nbytes <= MAX_BYTES, f"it moves {nbytes} bytes, which is worth an exchange of its own", 0
    )


def _combine(computation: Computation, run: list[Instruction]) -> None:
    last = run[-1]
    shape = TupleShape(tuple(i.shape for i in run))
    whole = Instruction(
        f"{last.name}.combined", "all-reduce", shape, [i.operands[0] for i in run], last.attrs, metadata=last.metadata
    )
    parts = {
        i: Instruction(i.name, "get-tuple-element", i.shape, (whole,), {"index": k}, metadata=i.metadata)
        for k, i in enumerate(run)
    }
    place = computation.instructions.index(last)
    computation.instructions[place + 1 : place + 1] = [whole, *parts.values()]
    computation.instructions = [i for i in computation.instructions if i not in parts]
    computation.replace_uses(parts)
