"""Replaces conditionals whose choice is known by the branch that is taken."""

from __future__ import annotations

from ..ir.infer.structured import branches
from ..ir.module import Computation, Instruction, Module
from .simplify.rewriter import scalar_value

__all__ = ["ConditionalSimplifier"]


class ConditionalSimplifier:
    """Copies a branch to the place of its `conditional` if the index is a constant, or if all branches are the same.

    Contract: what is left of the other branches goes with the conditional. A number out of range chooses the last one.
    """

    name = "conditional"

    def run(self, module: Module) -> bool:
        """Visit every computation, callees first."""
        changed = False
        for computation in module.computations:
            for i in [i for i in computation.instructions if i.opcode == "conditional"]:
                taken = _taken(i)
                if taken is not None:
                    _inline(computation, i, taken)
                    changed = True
        if changed:
            module.collect()
        return changed


def _taken(i: Instruction) -> int | None:
    called = branches(i.attrs)
    if all(c is called[0] for c in called) and all(o is i.operands[1] for o in i.operands[2:]):
        return 0
    index = scalar_value(i.operands[0])
    if index is None:
        return None
    if i.operands[0].dtype == "pred":
        return 0 if index else 1
    return int(index) if 0 <= index < len(called) else len(called) - 1


def _inline(computation: Computation, i: Instruction, number: int) -> None:
    branch = branches(i.attrs)[number]
    mapping: dict[Instruction, Instruction] = {}
    made: list[Instruction] = []
    for inner in branch.instructions:
        if inner.parameter_number is not None:
            mapping[inner] = i.operands[1 + number]
            continue
        copy = inner.clone([mapping[o] for o in inner.operands])
        copy.metadata = copy.metadata or i.metadata
        mapping[inner] = copy
        made.append(copy)
    at = computation.instructions.index(i)
    computation.instructions[at : at + 1] = made
    computation.replace_uses({i: mapping[branch.root]})
    computation.remove_dead()
    computation.make_names_unique()
