"""Lets all be read of parameters before a window in one is replaced."""

from __future__ import annotations

from ..ir.analysis.window_updates import through_reshapes, updated_operand
from ..ir.module import Instruction, Module

__all__ = ["WindowUpdatesLast"]


class WindowUpdatesLast:
    """Orders the entry so that updates of parameters in place come last.

    Contract: the same instructions in another topological order. What replaces a window of a parameter, and what
    depends on that, comes after everything else. Then the result may be written over the parameter, whatever else is
    read of the same memory as another parameter. A module with side effects, whose order counts, stays as it is.
    """

    name = "window-updates-last"

    def run(self, module: Module) -> bool:
        """Order the entry."""
        entry = module.entry
        if any(i.has_side_effect for i in entry.instructions):
            return False
        after: set[Instruction] = set()
        for i in entry.instructions:
            array = updated_operand(i)
            begins = array is not None and through_reshapes(array).opcode == "parameter"
            if begins or not after.isdisjoint(i.operands):
                after.add(i)
        order = [i for i in entry.instructions if i not in after] + [i for i in entry.instructions if i in after]
        changed = order != entry.instructions
        entry.instructions = order
        return changed
