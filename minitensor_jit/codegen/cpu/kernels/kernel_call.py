"""Calls of eager kernels on whole arrays, through the runtime's table."""

from __future__ import annotations

import struct
from math import prod

from ....ir.library import library
from ....ir.module import Instruction
from ....ir.semantics.kernel_call import is_convolution, words_of
from ....ir.size import Size
from ...abi import CALL_KERNEL, CONVOLVE
from ...errors import CompileError
from ...kernel_spec import KernelSpec, location_of
from ...llvm.ir_text import Function
from ...llvm.ir_types import I64, PTR, Value, constant
from ...matrix import check_chain
from ..unit import Unit
from .epilogue import emit_epilogue

__all__ = ["ConvolutionWithEpilogue", "KernelCallPlan"]


class KernelCallPlan:
    """A call of the runtime with a description of the op and the addresses of its operands and results."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, spec: KernelSpec, call: Instruction) -> None:
        try:
            self.words = words_of(call)
        except ValueError as error:
            raise CompileError("kernel-call", str(error)) from None
        if not library().has_kernel(call.attrs["custom_call_target"]):
            raise CompileError("kernel-call", f"there is no kernel {call.attrs['custom_call_target']}")
        self.unit, self.spec, self.call = unit, spec, call

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
        self.emit_call(None)

    def emit_call(self, epilogue: Function | None) -> None:
        """Emits the call, of a convolution if it has an epilogue."""
        unit, entry = self.unit, self.unit.builder
        buffers, runtime = unit.entry.arguments
        operands = [self.spec.operands[o.parameter_number or 0] for o in self.call.operands]
        pointers = unit.pointers([*map(location_of, operands), *self.spec.results])
        words = self._words()
        field, rest = CALL_KERNEL, ""
        if epilogue is not None:
            field, rest = CONVOLVE, f", ptr {epilogue.reference.ref}, ptr {buffers.ref}"
        function = entry.load(entry.gep(runtime, field, I64), PTR, 8)
        entry.raw(f"call void {function.ref}(ptr {words.ref}, ptr {pointers.ref}{rest})")


class ConvolutionWithEpilogue(KernelCallPlan):
    """A convolution whose result is overwritten, element by element, with what a fusion makes of it."""

    def __init__(self, unit: Unit, spec: KernelSpec, call: Instruction) -> None:
        if not is_convolution(call):
            raise CompileError("fusion", f"{call.attrs['custom_call_target']} inside a fusion")
        check_chain(spec, call)
        super().__init__(unit, spec, call)

    def emit(self) -> None:
        """Emits the epilogue and the call."""
        images, filters, *places = self.call.dims
        function = None
        if 0 not in self.call.dims:
            function = emit_epilogue(self.unit, self.spec, self.call, (images, filters, prod(places)))
        self.emit_call(function)
