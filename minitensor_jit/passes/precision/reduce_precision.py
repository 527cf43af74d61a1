"""Rounds the operands of products to a shorter format, where that was asked for."""

from __future__ import annotations

from typing import Final

from ...ir.module import Computation, Instruction, Module
from ...ir.refusal import Refusal, Refused

__all__ = ["FORMATS", "ReducePrecision"]

# Bits of the exponent and of the mantissa.
FORMATS: Final = {"bf16": (8, 7), "f16": (5, 10)}
_ROUNDED: Final = ("f32", "f64")


class ReducePrecision:
    """Rounds every float operand of a dot or convolution to bfloat16 or float16; they are still summed in float32.

    What a training run would lose on hardware that multiplies in such a format can be seen without it. Not the bits of
    eager code, so it is no part of the pipeline unless somebody asks. `decisions` has the operands that stay as they
    are.
    """

    name = "reduce-precision"

    def __init__(self, to: str = "bf16") -> None:
        self.bits = FORMATS[to]
        self.decisions: list[Refusal] = []

    def run(self, module: Module) -> bool:
        """Round in the entry, and in what its loops and conditionals run."""
        changed = False
        for computation in module.sequences():
            changed |= self._run(computation)
        return changed

    def _run(self, computation: Computation) -> bool:
        rounded: dict[Instruction, Instruction] = {}
        result: list[Instruction] = []
        for i in computation.instructions:
            if i.opcode in ("dot", "convolution"):
                for x in i.operands:
                    if x.dtype not in _ROUNDED:
                        why = f"its type is {x.dtype}, and only {' and '.join(_ROUNDED)} are rounded"
                        self.decisions.append(Refusal(x, i, Refused.NOT_ROUNDED.because(why, 0)))
                    elif x not in rounded and self._needs(x):
                        attrs = {"exponent_bits": self.bits[0], "mantissa_bits": self.bits[1]}
                        rounded[x] = Instruction(
                            f"{x.name}.rounded", "reduce-precision", x.shape, (x,), attrs, metadata=i.metadata
                        )
                        result.append(rounded[x])
                i.operands = [rounded.get(x, x) for x in i.operands]
            result.append(i)
        if rounded:
            computation.instructions = result
            computation.make_names_unique()
        return bool(rounded)

    def _needs(self, x: Instruction) -> bool:
        exponent, mantissa = self.bits
        if x.opcode == "reduce-precision" and x.attrs["mantissa_bits"] <= mantissa:
            return bool(x.attrs["exponent_bits"] > exponent)
        return True
