"""Which tasks replace a small window of a large array, and may do so where it lies."""

from __future__ import annotations

from ..ir.module import Instruction
from .task import Task, reachable

__all__ = ["updates_a_window"]

# Smaller arrays are written as a whole: one kernel costs less than a copy and another one.
_LEAST = 4096


def updates_a_window(task: Task) -> Instruction | None:
    """The dynamic-update-slice that the task is, if its array is a parameter that nothing else here reads."""
    roots = task.computation.roots
    root = roots[0]
    if len(roots) != 1 or root.opcode != "dynamic-update-slice" or root.operands[0].opcode != "parameter":
        return None
    source, *others = root.operands
    size = root.array_shape.size
    if size < _LEAST or 2 * others[0].array_shape.size > size or source in reachable(others):
        return None
    return root
