"""Sort and topk: the comparator as a function of two elements' numbers, for the runtime's sort."""

from __future__ import annotations

import struct
from math import prod

from ....ir.module import Instruction
from ....runtime.buffer_assignment import Location
from ...abi import SORT
from ...emitter.elemental import Emitter
from ...emitter.scalar_computation import apply_scalar, before, check_scalar
from ...indexing.indexing_map import Space
from ...kernel_spec import KernelSpec, location_of
from ...llvm.ir_text import Function
from ...llvm.ir_types import I8, I64, PTR
from ..unit import Unit

__all__ = ["Sort"]


class Sort:
    """A call of the runtime's sort, whatever the number of operands and the comparator. A topk keeps the first ones."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, spec: KernelSpec, sort: Instruction) -> None:
        self.top = sort.opcode == "topk"
        x = sort.operands[0]
        self.comparator = before(x.dtype, largest=sort.attrs["largest"]) if self.top else sort.attrs["to_apply"]
        check_scalar(sort.opcode, self.comparator)
        self.unit, self.spec, self.sort = unit, spec, sort

    def emit(self) -> None:
        """Emits the comparator and the call."""
        unit, spec, sort = self.unit, self.spec, self.sort
        dims = sort.operands[0].dims
        axis = len(dims) - 1 if self.top else sort.attrs["dimensions"][0]
        kept = sort.attrs["k"] if self.top else dims[axis]
        if 0 in dims or not kept:
            return
        inner = prod(dims[axis + 1 :])
        less = self._comparator(dims[axis], inner)
        sizes = [o.array_shape.itemsize for o in sort.operands]
        words = [prod(dims[:axis]), dims[axis], inner, len(sizes), kept, int(self.top), *sizes]
        operands = [location_of(spec.operands[o.parameter_number or 0]) for o in sort.operands]
        pointers = unit.pointers([*operands, *self._results()])
        entry, runtime = unit.builder, unit.entry.arguments[1]
        description = unit.module.data(struct.pack(f"<{len(words)}q", *words))
        function = entry.load(entry.gep(runtime, SORT, I64), PTR, 8)
        entry.raw(f"call void {function.ref}(ptr {description.ref}, ptr {pointers.ref}, ptr {less.reference.ref})")

    def _results(self) -> list[Location]:
        numbers = [r.attrs["index"] if r.opcode == "get-tuple-element" else 0 for r, _ in self.spec.roots]
        return [self.spec.results[numbers.index(k)] for k in range(len(self.sort.operands) + self.top)]

    def _comparator(self, length: int, inner: int) -> Function:
        """`(lane, i, j)`: whether element i of the lane goes before element j."""
        unit = self.unit
        unit.kernels += 1
        name = f'"{self.spec.name}.{unit.kernels}.less"'
        function = Function(unit.module, name, I8, [(PTR, "lane"), (I64, "i"), (I64, "j")])
        lane, first, second = function.arguments
        space = Space()
        e = Emitter(function, space, 1)
        i, j = space.var("i", length), space.var("j", length)
        e.set_variable(i, first)
        e.set_variable(j, second)
        arguments = []
        for k, o in enumerate(self.sort.operands):
            base = e.inner.load(e.inner.gep(lane, k, PTR), PTR, 8)
            arguments += [e.load(base, o.dtype, at * inner) for at in (i, j)]
        (before,) = apply_scalar(e, self.comparator, arguments)
        e.inner.ret(e.inner.zext(before, I8))
        return function
