"""Which values a row kernel keeps from one pass over a row to the next, rather than compute them again."""

from __future__ import annotations

from ....ir.module import Instruction
from ....ir.opcode import is_elementwise
from ....ir.size import Size
from ...emitter.elementwise import COST
from ...rows import Rows

__all__ = ["kept_values"]

# A costly value is kept in at most so much stack.
KEPT_BYTES = 32 << 10
KEPT_TOTAL_BYTES = 128 << 10
COSTLY = 10


def kept_values(rows: Rows) -> dict[Instruction, int]:
    """Costly elementwise values that more than one pass needs, each with the first pass that computes it."""
    if isinstance(rows.length, Size):
        return {}  # the stack has room for what is known
    needed: dict[Instruction, set[int]] = {}
    reduces = {r.instruction for r in rows.reductions}
    for stage in range(rows.stages):
        starts = [r.input for r in rows.reductions if rows.stage_of[r.input] == stage]
        starts += [r for r, _ in rows.element_roots if rows.stage_of[r] == stage]
        seen = set(starts) - reduces
        stack = list(seen)
        while stack:
            i = stack.pop()
            needed.setdefault(i, set()).add(stage)
            for o in i.operands:
                if o not in seen and o not in reduces:
                    seen.add(o)
                    stack.append(o)
    costly = [
        i
        for i, stages in needed.items()
        if len(stages) > 1 and is_elementwise(i.opcode) and COST.get(i.opcode, 1) >= COSTLY
        if i.array_shape.size == rows.outer * rows.length and i.array_shape.kind not in "bc"
    ]
    in_place = rows.read_in_place(costly)  # the others are asked for elements of other rows, too
    kept: dict[Instruction, int] = {}
    taken = 0
    for i in rows.spec.computation.instructions:
        if i in in_place:
            nbytes = rows.length * i.array_shape.itemsize
            if nbytes <= KEPT_BYTES and taken + nbytes <= KEPT_TOTAL_BYTES:
                kept[i] = min(needed[i])
                taken += nbytes
    return kept
