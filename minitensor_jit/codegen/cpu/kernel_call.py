"""Calls of eager kernels on whole arrays, through the runtime's table."""

from __future__ import annotations

import struct

from ...ir.kernel_call import words_of
from ...ir.library import library
from ...ir.module import Instruction
from ...ir.size import Size
from ..abi import CALL_KERNEL
from ..errors import CompileError
from ..llvm import I64, PTR, Value, constant
from ..task import Task, location_of
from .unit import Unit

__all__ = ["KernelCallPlan"]


class KernelCallPlan:
    """A call of the runtime with a description of the op and the addresses of its operands and results."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, task: Task, call: Instruction) -> None:
        try:
            self.words = words_of(call)
        except ValueError as error:
            raise CompileError("kernel-call", str(error)) from None
        if not library().has_kernel(call.attrs["custom_call_target"]):
            raise CompileError("kernel-call", f"there is no kernel {call.attrs['custom_call_target']}")
        self.unit, self.task, self.call = unit, task, call

    def _words(self) -> Value:
        """The description in memory: constant, or with sizes that are not known yet."""
        entry = self.unit.builder
        if not any(isinstance(word, Size) for word in self.words):
            return self.unit.module.data(struct.pack(f"<{len(self.words)}q", *self.words))
        words = self.unit.entry.alloca(I64, len(self.words))
        for place, word in enumerate(self.words):
            entry.store(constant(I64, word), entry.gep(words, place, I64), 8)
        return words

    def emit(self) -> None:
        """Emits the call."""
        unit, entry = self.unit, self.unit.builder
        runtime = unit.entry.arguments[1]
        operands = [self.task.operands[o.parameter_number or 0] for o in self.call.operands]
        pointers = unit.pointers([*map(location_of, operands), *self.task.results])
        words = self._words()
        function = entry.load(entry.gep(runtime, CALL_KERNEL, I64), PTR, 8)
        entry.raw(f"call void {function.ref}(ptr {words.ref}, ptr {pointers.ref})")
