"""Calls to Python for what has no code: `runtime/host_call.py` computes them."""

from __future__ import annotations

from ...ir.custom_calls import find_custom_call
from ...ir.module import Instruction, Module
from ...ir.printer import print_module
from ...ir.shape import Shape
from ..abi import CALL_HOST
from ..errors import CompileError
from ..llvm import I64, PTR
from ..loops import i64
from ..task import Task, location_of
from .unit import Unit

__all__ = ["HostCall"]


class HostCall:
    """A call of the runtime with the instruction's text and the addresses of its operands and results."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, task: Task, call: Instruction) -> None:
        if call.opcode == "custom-call":
            try:
                find_custom_call(call)
            except NotImplementedError as error:
                raise CompileError(call.opcode, str(error)) from None
        if not all(isinstance(o.shape, Shape) for o in call.operands):
            raise CompileError(call.opcode, "a tuple as an operand")
        self.unit, self.task, self.call = unit, task, call

    def emit(self) -> None:
        """Emits the call."""
        unit, entry = self.unit, self.unit.builder
        runtime = unit.entry.arguments[1]
        text = print_module(Module.alone(self.call), metadata=False).encode()
        operands = [self.task.operands[o.parameter_number or 0] for o in self.call.operands]
        pointers = unit.pointers([*map(location_of, operands), *self.task.results])
        function = entry.load(entry.gep(runtime, CALL_HOST, I64), PTR, 8)
        words = unit.module.data(text)
        entry.raw(f"call void {function.ref}(ptr {words.ref}, i64 {i64(len(text)).ref}, ptr {pointers.ref})")
