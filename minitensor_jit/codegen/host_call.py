"""Instructions without code, which the host computes from their text."""

from __future__ import annotations

from ..ir.evaluate.custom_calls import find_custom_call
from ..ir.module import Instruction, Module
from ..ir.shape import Shape
from ..ir.text.printer import print_module
from .errors import CompileError
from .kernel_spec import KernelSpec

__all__ = ["HostCallPlan"]


class HostCallPlan:
    """A call of the host, however a target makes it; raises `CompileError` for what the host can't compute."""

    def __init__(self, spec: KernelSpec, call: Instruction) -> None:
        if call.opcode == "custom-call":
            try:
                find_custom_call(call)
            except NotImplementedError as error:
                raise CompileError(call.opcode, str(error)) from None
        if not all(isinstance(o.shape, Shape) for o in call.operands):
            raise CompileError(call.opcode, "a tuple as an operand")
        self.spec, self.call = spec, call
        # An exchange reads all of its operands before it writes; so does the evaluator, but it makes arrays anyway.
        alike = call.opcode in ("all-reduce", "all-reduce-start", "all-reduce-done")
        self.in_place = {(k, o.parameter_number or 0) for k, o in enumerate(call.operands)} if alike else set()

    @property
    def text(self) -> str:
        """A module of the instruction alone."""
        return print_module(Module.alone(self.call), metadata=False)
