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

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, spec: KernelSpec, call: Instruction) -> None:
        if call.opcode == "custom-call":
            try:
                find_custom_call(call)
            except NotImplementedError as error:
                raise CompileError(call.opcode, str(error)) from None
        if not all(isinstance(o.shape, Shape) for o in call.operands):
            raise CompileError(call.opcode, "a tuple as an operand")
        self.spec, self.call = spec, call

    @property
    def text(self) -> str:
        """A module of the instruction alone."""
        return print_module(Module.alone(self.call), metadata=False)
