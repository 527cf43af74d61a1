"""Replaces calls by what they call."""

from __future__ import annotations

from ..ir.module import Computation, Instruction, Module

__all__ = ["CallInliner"]


class CallInliner:
    """Copies the body of every `call`ed computation to the place of the call.

    Afterwards the only called computations are combiners, comparators and fusions.
    """

    name = "inline"

    def run(self, module: Module) -> bool:
        """Inline calls in every computation, callees first."""
        changed = False
        for computation in module.computations:
            if any(i.opcode == "call" for i in computation.instructions):
                _inline(computation)
                changed = True
        if changed:
            module.collect()
        return changed


def _inline(computation: Computation) -> None:
    result: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        if i.opcode != "call":
            result.append(i)
            continue
        callee: Computation = i.attrs["to_apply"]
        mapping: dict[Instruction, Instruction] = {}
        for inner in callee.instructions:
            if inner.parameter_number is not None:
                mapping[inner] = i.operands[inner.parameter_number]
                continue
            copy = inner.clone([mapping[o] for o in inner.operands])
            copy.metadata = copy.metadata or i.metadata
            mapping[inner] = copy
            result.append(copy)
        replaced[i] = mapping[callee.root]
    computation.instructions = result
    computation.root = replaced.get(computation.root, computation.root)
    computation.make_names_unique()
