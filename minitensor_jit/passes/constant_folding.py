"""Evaluates, at compile time, what depends on constants only."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..ir.evaluate.evaluator import evaluate_instruction
from ..ir.module import Instruction, Module
from ..ir.opcode import OPCODES, Trait
from ..ir.shape import Shape
from ..ir.size import Size

__all__ = ["ConstantFolding"]

# Results beyond this many elements stay computed: a literal costs compile time, text and cache.
MAX_ELEMENTS: Final = 1024


class ConstantFolding:
    """Replaces an operation on constants by its result.

    Only operations that NumPy computes to the same bits as compiled code are folded: never exp, log, tanh, logistic,
    sine, power or dot. A broadcast is not folded, because code generation makes it for free, and neither is a division
    of integers by zero, which is an error at run time.
    """

    name = "constant-folding"

    def __init__(self, max_elements: int = MAX_ELEMENTS) -> None:
        self.max_elements = max_elements

    def run(self, module: Module) -> bool:
        """Fold from the operands to the users, so that whole constant expressions go in one run."""
        changed = False
        for computation in module.computations:
            folded = False
            for i in computation.instructions:
                if i.operands and self.foldable(i):
                    _fold(i)
                    folded = True
            if folded:
                computation.remove_dead()
            changed |= folded
        if changed:
            module.collect()
        return changed

    def foldable(self, i: Instruction) -> bool:
        """Whether `i` has a result that can be computed now, to the bit."""
        for operand in i.operands:
            if operand.opcode != "constant":
                return False
        opcode, shape = i.opcode, i.shape
        if opcode == "broadcast" or OPCODES[opcode].traits & Trait.INEXACT or OPCODES[opcode].transcendental:
            return False
        if not isinstance(shape, Shape) or isinstance(shape.size, Size) or shape.size > self.max_elements:
            return False
        if opcode in ("divide", "remainder") and shape.is_integral:
            divisor = i.operands[1].literal
            return divisor is not None and bool(np.all(divisor))
        if opcode in ("reduce", "scatter"):
            return all(OPCODES[c.opcode].transcendental is False for c in i.attrs["to_apply"].instructions)
        return True


def _fold(i: Instruction) -> None:
    """Turn `i` itself into a constant, so that its users need no change."""
    result = evaluate_instruction(i, [o.literal for o in i.operands])
    literal = np.array(result, dtype=i.array_shape.numpy_dtype, order="C").reshape(i.dims)
    literal.setflags(write=False)
    i.opcode = "constant"
    i.operands = []
    i.attrs = {}
    i.literal = literal
