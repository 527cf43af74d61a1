"""Instructions without code for the GPU: the host computes them over copies."""

from __future__ import annotations

from ....ir.module import Instruction
from ...host_call import HostCallPlan
from ...kernel_spec import KernelSpec
from ..unit import GpuUnit, Host

__all__ = ["HostCall"]


class HostCall(HostCallPlan):
    """The text of the instruction, and its arrays."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec, call: Instruction, reason: str = "") -> None:
        super().__init__(spec, call)
        self.unit = unit
        self.reason = reason or f"no code for {call.opcode} on this device"

    def emit(self) -> None:
        """Emits the call."""
        operands = tuple((self.unit.symbol(self.spec, o), o) for o in self.call.operands)
        results = tuple((("result", n), r) for r, n in self.spec.roots)
        self.unit.code.items.append(Host(self.text, operands, results, self.reason))
