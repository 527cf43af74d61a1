"""Instructions without code for the GPU: the host computes them over copies."""

from __future__ import annotations

from ...ir.custom_calls import find_custom_call
from ...ir.module import Instruction, Module
from ...ir.printer import print_module
from ...ir.shape import Shape
from ..errors import CompileError
from ..task import Task
from .unit import GpuUnit, Host

__all__ = ["HostCallPlan"]


class HostCallPlan:
    """The text of the instruction, and its arrays."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: GpuUnit, task: Task, call: Instruction, reason: str = "") -> None:
        if call.opcode == "custom-call":
            try:
                find_custom_call(call)
            except NotImplementedError as error:
                raise CompileError(call.opcode, str(error)) from None
        if not all(isinstance(o.shape, Shape) for o in call.operands):
            raise CompileError(call.opcode, "a tuple as an operand")
        self.unit, self.task, self.call = unit, task, call
        self.reason = reason or f"no code for {call.opcode} on this device"

    def emit(self) -> None:
        """Emits the call."""
        text = print_module(Module.alone(self.call), metadata=False)
        operands = tuple((self.unit.symbol(self.task, o), o) for o in self.call.operands)
        results = tuple((("result", n), r) for r, n in self.task.roots)
        self.unit.code.items.append(Host(text, operands, results, self.reason))
