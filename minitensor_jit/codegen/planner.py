"""Which kernel fits a spec: the choice is the same for every target, the kernels are its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..ir.module import Instruction
from .errors import CompileError
from .kernel_spec import KernelPlan, KernelSpec, reachable
from .reduction import Reduction, reductions
from .window_update import updates_a_window

__all__ = ["KernelChoice", "WholePlan"]

# The kernel of one instruction that computes whole arrays.
WholePlan: TypeAlias = Callable[[KernelSpec, Instruction], KernelPlan]


class KernelChoice:
    """A target's kernels by what they are for. Each raises `CompileError` where it does not fit."""

    whole: Mapping[str, WholePlan]
    """By opcode: what computes whole arrays, alone."""
    elements: Callable[[KernelSpec], KernelPlan]
    """Every element on its own."""
    window: WholePlan
    """A large array in which a small window is replaced."""
    rows: Callable[[KernelSpec, list[Reduction]], KernelPlan]
    """Reductions of rows, with what depends on them."""
    columns: Callable[[KernelSpec, list[Reduction]], KernelPlan]
    """Reductions of columns."""
    generic: WholePlan
    """A reduction by any computation."""
    product: WholePlan
    """A product, and what is done with its elements."""

    def is_by_value(self, i: Instruction) -> bool:
        """Whether an operand is passed by value, not by its address: another code."""
        return False

    def loop(self, spec: KernelSpec) -> KernelPlan:
        """Every element on its own; or of a large array a window."""
        update = updates_a_window(spec)
        return self.elements(spec) if update is None else self.window(spec, update)

    def convolution(self, spec: KernelSpec, call: Instruction) -> KernelPlan:
        """A convolution, and what is done with its elements."""
        raise CompileError("fusion", "a call of a kernel inside a fusion")

    def plan(self, spec: KernelSpec) -> KernelPlan:
        """The kernel that fits; raises `CompileError` if none does."""
        roots = spec.computation.roots
        instructions = reachable(roots)
        special = [i for i in instructions if i.opcode in self.whole]
        if special:
            one = special[0]
            alone = roots == special and all(o.opcode == "parameter" for o in one.operands)
            if one.opcode == "dot" and len(special) == 1 and not alone:
                return self.product(spec, one)
            if one.opcode == "kernel-call" and len(special) == 1 and len(roots) == 1 and roots != special:
                return self.convolution(spec, one)
            sources = [r.operands[0] if r.opcode == "get-tuple-element" else r for r in roots]
            if sources != [one] * len(roots) or any(o.opcode != "parameter" for o in one.operands):
                raise CompileError("fusion", f"{one.opcode} inside a fusion")
            return self.whole[one.opcode](spec, one)
        found = reductions(instructions)
        if not found:
            return self.loop(spec)
        if any(r is None for r in found):
            reduces = [i for i in instructions if i.opcode == "reduce"]
            if len(reduces) == 1 and all(
                (r.operands[0] if r.opcode == "get-tuple-element" else r) is reduces[0] for r in roots
            ):
                return self.generic(spec, reduces[0])
            raise CompileError("fusion", "a reduction by a computation of its own beside other results")
        steps = [r for r in found if r is not None]
        if len({r.shape for r in steps}) > 1:
            raise CompileError("fusion", "reductions of different shapes")
        return self.rows(spec, steps) if steps[0].inner == 1 else self.columns(spec, steps)
