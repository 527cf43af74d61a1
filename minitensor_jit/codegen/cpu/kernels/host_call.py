"""Calls to Python for what has no code: `runtime/host_call.py` computes them."""

from __future__ import annotations

from ....ir.module import Instruction
from ...abi import CALL_HOST
from ...emitter.loops import i64
from ...host_call import HostCallPlan
from ...kernel_spec import KernelSpec, location_of
from ...llvm.ir_types import I64, PTR
from ..unit import Unit

__all__ = ["HostCall"]


class HostCall(HostCallPlan):
    """A call of the runtime with the instruction's text and the addresses of its operands and results."""

    def __init__(self, unit: Unit, spec: KernelSpec, call: Instruction) -> None:
        super().__init__(spec, call)
        self.unit = unit

    def emit(self) -> None:
        """Emits the call."""
        unit, entry = self.unit, self.unit.builder
        runtime = unit.entry.arguments[1]
        text = self.text.encode()
        operands = [self.spec.operands[o.parameter_number or 0] for o in self.call.operands]
        pointers = unit.pointers([*map(location_of, operands), *self.spec.results])
        function = entry.load(entry.gep(runtime, CALL_HOST, I64), PTR, 8)
        words = unit.module.data(text)
        entry.raw(f"call void {function.ref}(ptr {words.ref}, i64 {i64(len(text)).ref}, ptr {pointers.ref})")
