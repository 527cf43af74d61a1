"""Computes once, before a loop, what is the same in all of its iterations."""

from __future__ import annotations

from typing import Final

from ...ir.decision import Decision
from ...ir.module import Computation, Instruction, Module
from ...ir.opcode import Trait, is_elementwise, opcodes_with
from ...ir.refusal import Refusal, Refused
from ...ir.shape import Shape, TupleShape
from ..fusion.fusion_decision import is_trivial
from .while_loop_analysis import element, elements, invariant_elements

__all__ = ["WhileLoopInvariantCodeMotion"]

# What may be computed although the loop may have no iteration.
_HOISTABLE: Final = opcodes_with(Trait.HOISTABLE)


class WhileLoopInvariantCodeMotion:
    """Moves out of a `while`'s body what depends on nothing that its iterations change.

    Contract: the body reads the moved value from a new element of the loop's state that it gives back unchanged; such
    elements cost nothing. What only gives a value another form, and what makes more bytes than it reads, stays: reading
    it in every iteration would cost more than computing it. Refusals are in `decisions`.
    """

    name = "while-licm"

    def __init__(self) -> None:
        self.decisions: list[Refusal] = []

    def run(self, module: Module) -> bool:
        """Visit the loops of every computation, inner ones first."""
        changed = False
        for computation in module.computations:
            for loop in [i for i in computation.instructions if i.opcode == "while"]:
                changed |= self._loop(computation, loop)
        if changed:
            module.collect()
        return changed

    def _loop(self, computation: Computation, loop: Instruction) -> bool:
        body: Computation = loop.attrs["body"]
        (state,) = body.parameters
        unchanged = set(invariant_elements(loop))
        if not unchanged:
            return False
        start = loop.operands[0]
        outside: dict[Instruction, Instruction] = {}  # values of the body, and what they are before the loop
        made: list[Instruction] = []
        moved: list[Instruction] = []
        read_inside: set[Instruction] = set()
        for i in body.instructions:
            if i.opcode == "get-tuple-element" and i.operands[0] is state:
                if i.attrs["index"] in unchanged:
                    outside[i] = element(start, i.attrs["index"])
                    if outside[i] not in computation.instructions:
                        made.append(outside[i])
                continue
            if i.opcode == "parameter" or not all(o in outside for o in i.operands):
                read_inside.update(o for o in i.operands if o in outside)
                continue
            decision = self._worth(i)
            if decision or i.opcode == "constant" or is_trivial(i):
                # Constants and other forms of values go along where something else needs them.
                copy = i.clone([outside[o] for o in i.operands])
                outside[i] = copy
                made.append(copy)
                if decision:
                    moved.append(i)
            else:
                self.decisions.append(Refusal(i, loop, decision))
                read_inside.update(i.operands)
        leaving = [i for i in moved if i in read_inside or i is body.root or i in body.root.operands]
        if not leaving:
            return False
        _extend(computation, loop, leaving, [outside[i] for i in leaving], made)
        return True

    @staticmethod
    def _worth(i: Instruction) -> Decision:
        if not isinstance(i.shape, Shape) or not (i.opcode in _HOISTABLE or is_elementwise(i.opcode)):
            return Refused.EFFECTS.because(f"{i.opcode} may have an effect or gives a tuple", 0)
        reads = sum(o.shape.nbytes for o in set(i.operands))
        return Refused.LITTLE_GAINED.unless(
            i.array_shape.nbytes <= reads or i.opcode == "dot",
            f"it would be read from memory, {i.array_shape.nbytes} bytes made of {reads}, in every iteration",
            0,
        )


def _extend(
    computation: Computation,
    loop: Instruction,
    values: list[Instruction],
    outside: list[Instruction],
    made: list[Instruction],
) -> None:
    """Adds elements to the loop's state, which are `outside` before it and take the place of `values` in its body."""
    start, count = loop.operands[0], elements(loop)
    body, condition = loop.attrs["body"].clone(), loop.attrs["condition"].clone()
    places = [loop.attrs["body"].instructions.index(v) for v in values]
    values = [body.instructions[k] for k in places]
    assert isinstance(start.shape, TupleShape)
    shape = TupleShape((*start.shape.elements, *(v.shape for v in values)))
    for part in (body, condition):
        part.parameters[0].shape = shape
    (state,) = body.parameters
    read = [
        Instruction(f"{v.name}.moved", "get-tuple-element", v.shape, (state,), {"index": count + n})
        for n, v in enumerate(values)
    ]
    body.instructions[1:1] = read
    body.replace_uses(dict(zip(values, read, strict=True)))
    root = Instruction(f"{body.root.name}.longer", "tuple", shape, (*body.root.operands, *read))
    body.instructions.append(root)
    body.root = root
    body.sort()
    parts = [element(start, k) for k in range(count)]
    longer = Instruction(f"{start.name}.longer", "tuple", shape, (*parts, *outside))
    attrs = {**loop.attrs, "condition": condition, "body": body}
    new = Instruction(loop.name, "while", shape, (longer,), attrs, metadata=loop.metadata)
    known = set(computation.instructions)
    fresh = [p for p in parts if p not in known]
    back = [element(new, k) for k in range(count)]
    result = Instruction(f"{loop.name}.before", "tuple", loop.shape, back)
    at = computation.instructions.index(loop)
    computation.instructions[at : at + 1] = [*made, *fresh, longer, new, *back, result]
    for user in computation.instructions:
        if user is result or loop not in user.operands:
            continue
        user.operands = [result if o is loop else o for o in user.operands]
    if computation.root is loop:
        computation.root = result
    computation.sort()
    computation.make_names_unique()
    body.make_names_unique()
