"""What a product's epilogue may be."""

from __future__ import annotations

from ..ir.matrix import product_sizes
from ..ir.module import Instruction
from ..ir.opcode import is_elementwise
from .errors import CompileError
from .task import Task

__all__ = ["check_epilogue", "check_registers_epilogue"]


def check_epilogue(task: Task, dot: Instruction) -> None:
    """Raises `CompileError` unless the task makes each of its elements of that of a product with tiles.

    Where these are in memory, the results, which are written over them, must have their type.
    """
    if any(o.opcode != "parameter" for o in dot.operands):
        raise CompileError("fusion", "a product of what is computed inside a fusion")
    check_registers_epilogue(task, dot)
    if task.computation.root.dtype != dot.dtype:
        raise CompileError("fusion", "a product with results of another type")


def check_registers_epilogue(task: Task, dot: Instruction) -> None:
    """The same for tiles in registers: operands may be computed, and the result may have any type."""
    (root, _), *others = task.roots
    if others or root.dims != dot.dims:
        raise CompileError("fusion", "a product with other results than one of its own form")
    if 1 in product_sizes(dot)[1::2]:
        raise CompileError("fusion", "a product without tiles inside a fusion")
    pending, seen = [root], {root}
    while pending:
        i = pending.pop()
        if i is dot:
            continue
        for o in i.operands:
            if o not in seen:
                seen.add(o)
                pending.append(o)
        if i.opcode not in ("parameter", "broadcast", "constant") and not is_elementwise(i.opcode):
            raise CompileError("fusion", f"{i.opcode} behind a product inside a fusion")
