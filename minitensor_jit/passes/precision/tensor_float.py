"""Lets products of float32 be rounded to TF32, for hardware that multiplies these."""

from __future__ import annotations

from typing import Final

from ...ir.module import Module

__all__ = ["ALGORITHM", "TensorFloat32"]

ALGORITHM: Final = "dot_tf32_tf32_f32"
"""XLA's name for it."""


class TensorFloat32:
    """Gives each `dot` of float32 arrays the algorithm `dot_tf32_tf32_f32`.

    Contract: a product that asks for the highest precision, or for an algorithm, stays as it is. It runs first, so that
    it sees the program's own products, and not those that convolutions become; what says how a product is made is kept
    by the passes after it.
    """

    name = "tensor-float-32"

    def run(self, module: Module) -> bool:
        """Mark the products of every computation."""
        changed = False
        for computation in module.computations:
            for i in computation.instructions:
                if i.opcode == "dot" and i.dtype == i.operands[0].dtype == i.operands[1].dtype == "f32":
                    asked = {"algorithm", "operand_precision"} & set(i.attrs)
                    if not asked:
                        i.attrs = {**i.attrs, "algorithm": ALGORITHM}
                        changed = True
        return changed
