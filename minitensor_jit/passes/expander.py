"""Writes opcodes without kernels of their own with those that have some."""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.module import Computation, Instruction, Module
from ..ir.narrow import NARROW
from .expand import RULES, RULES_WITHOUT_KERNELS
from .target import CPU, Target

__all__ = ["Expander"]


class Expander:
    """Replaces windows, convolutions, random bits, complex products and the like (`passes/expand` has the rules).

    Contract: afterwards no map, cbrt, reduce-window, select-and-scatter, convolution and rng-bit-generator is
    left, gather and scatter have no batching dimensions, products have the type of their operands, and complex numbers
    are reduced and multiplied by their parts. Sums of floating-point numbers may be rounded in another order, but those
    of windows of up to 16 elements keep theirs. Products of float16 and bfloat16 arrays in float32
    stay if the target has code for them, and convolutions become calls of a kernel only if it has one.
    """

    name = "expand"

    def __init__(self, target: Target = CPU) -> None:
        self.target = target

    def run(self, module: Module) -> bool:
        """Rewrite every computation, until no rule applies."""
        changed = False
        for computation in module.computations:
            while _rewrite(computation, self.target):
                changed = True
        if changed:
            module.collect()
        return changed


def _rewrite(computation: Computation, target: Target) -> bool:
    rules = RULES if target.calls_array_kernels else RULES_WITHOUT_KERNELS
    if not any(i.opcode in RULES for i in computation.instructions):
        return False
    made: list[Instruction] = []
    replaced: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        if target.mixed_products and i.opcode == "dot" and i.dtype == "f32" and i.operands[0].dtype in NARROW:
            made.append(i)
            continue
        for rule in rules.get(i.opcode, ()):
            b = Builder(i.name)
            with b.source(i.metadata):
                new = rule(b, i)
            if new is not None:
                instructions = b.build_computation(new).instructions
                for one in instructions:
                    one.name = f"{i.name}.{one.name}"
                made += instructions
                replaced[i] = new
                break
        else:
            made.append(i)
    if not replaced:
        return False
    computation.instructions = made
    computation.root = replaced.get(computation.root, computation.root)
    computation.remove_dead()
    computation.make_names_unique()
    return True
