"""Computes by the core's own loops what code generation has no instructions for."""

from __future__ import annotations

from typing import Final

from ..ir.library import ELEMENTWISE_PREFIX, find_loop
from ..ir.module import Module

__all__ = ["LoopCalls"]

# Opcodes without code of their own, and the loop that computes each.
LOOPS: Final = {
    "sine": "sin",
    "cosine": "cos",
    "tan": "tan",
    "erf": "erf",
    "atan2": "atan2",
    "power": "pow",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atanh": "atanh",
    "sinh": "sinh",
    "cosh": "cosh",
}
# More of them, of complex numbers.
COMPLEX_LOOPS: Final = {
    "sqrt": "sqrt",
    "exponential": "exp",
    "exponential-minus-one": "expm1",
    "log": "log",
    "log-plus-one": "log1p",
    "tanh": "tanh",
    "logistic": "sigmoid",
}


class LoopCalls:
    """Replaces transcendental opcodes by an `elementwise-call`, where this process has a loop for their type.

    Contract: opcodes that the table does not name, and types without a loop, stay as they are.
    """

    name = "loop-calls"

    def run(self, module: Module) -> bool:
        """Rewrite every computation; an instruction changes in place, so that its users need no change."""
        changed = False
        for computation in module.computations:
            for i in computation.instructions:
                target = LOOPS.get(i.opcode) or COMPLEX_LOOPS.get(i.opcode)
                if target is None or (kind := i.operands[0].array_shape.kind) not in "fc":
                    continue
                if kind == "f" and i.opcode in COMPLEX_LOOPS:
                    continue
                loop = find_loop(target, i.operands[0].dtype)
                if loop is None or (loop.inputs, loop.result) != (len(i.operands), i.dtype):
                    continue
                i.opcode, i.attrs = "elementwise-call", {"custom_call_target": ELEMENTWISE_PREFIX + target}
                changed = True
        return changed
