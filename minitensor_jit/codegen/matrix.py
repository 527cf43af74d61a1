"""What a product's epilogue may be."""

from __future__ import annotations

from ..ir.matrix import product_sizes
from ..ir.module import Instruction
from ..ir.opcode import is_elementwise
from .errors import CompileError
from .task import Task, reachable

__all__ = ["check_epilogue"]


def check_epilogue(task: Task, dot: Instruction, any_type: bool = False) -> None:
    """Raises `CompileError` unless the task makes each of its elements of that of a product with tiles.

    Where these are in memory, the results, which are written over them, must have their type.
    """
    (root, _), *others = task.roots
    if others or root.dims != dot.dims or (root.dtype != dot.dtype and not any_type):
        raise CompileError("fusion", "a product with other results than one of its own form")
    if any(o.opcode != "parameter" for o in dot.operands) or 1 in product_sizes(dot)[1::2]:
        raise CompileError("fusion", "a product without tiles inside a fusion")
    for i in reachable([root]):
        if i.opcode not in ("dot", "parameter", "broadcast", "constant") and not is_elementwise(i.opcode):
            raise CompileError("fusion", f"{i.opcode} behind a product inside a fusion")
