"""Equal loops over several arrays as one: a parallel region for all updates of an optimizer, not one for each."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence

from ....ir.analysis.flat import FlatPart
from ...emitter.loops import i64
from ...kernel_spec import KernelSpec, location_of
from ...llvm.ir_text import Builder, Function
from ...llvm.ir_types import I64, PTR, VOID, Value
from ..tables import emit_table
from ..unit import FlatKernel, Unit
from .flat_loop import flat_kernel, in_table, launch_elements

__all__ = ["HorizontalLoops"]


class HorizontalLoops:
    """The elements of all parts, one part after the other, divided among threads as those of one array would be.

    Nothing is copied together first, as other compilers do it: the loop's code is there once, and a table has the
    addresses of each part's arrays.
    """

    def __init__(self, unit: Unit, spec: KernelSpec, parts: Sequence[FlatPart]) -> None:
        self.unit, self.spec, self.parts = unit, spec, parts
        unit.horizontal.add(parts[0].key)
        parameters, roots = spec.computation.parameters, spec.computation.roots
        readers = Counter(number for part in parts for number in part.parameters)
        # What another part reads as well may not be overwritten: nobody knows which of them comes first.
        self.in_place = {
            (n, number)
            for part in parts
            for number in part.parameters
            for n in part.results
            if readers[number] == 1 and parameters[number].dims and parameters[number].dtype == roots[n].dtype
        }

    def emit(self) -> None:
        """Emits the loop, the function that goes through the parts, and its launch."""
        unit, spec, parts = self.unit, self.spec, self.parts
        first = KernelSpec(spec.name, parts[0].flattened(spec.computation))
        flat = flat_kernel(unit, parts[0], in_table(first))
        places = []
        for part in parts:
            places += [location_of(spec.operands[number]) for number in part.parameters]
            places += [spec.results[number] for number in part.results]
        table = emit_table(unit, places)
        starts, total = [], 0
        for part in parts:
            starts.append((total, part.size))
            total += -(-part.size // flat.step) * flat.step  # so that threads get whole vectors
        every = self._driver(flat, starts, len(places) // len(parts))
        launch_elements(unit, flat, every, table, total)

    def _driver(self, flat: FlatKernel, starts: Sequence[tuple[int, int]], width: int) -> Function:
        """`(table, begin, end)`: the loop for what each part has of these elements; `starts` are (first, number)."""
        unit = self.unit
        name = f'"{self.spec.name}.{unit.kernels}.parts"'
        function = Function(unit.module, name, VOID, [(PTR, "table"), (I64, "begin"), (I64, "end")])
        table, begin, end = function.arguments
        data = unit.module.data(b"".join(struct.pack("<qq", *start) for start in starts))
        entry, loop, some, after, done = (function.block(n) for n in ("entry", "loop", "some", "after", "done"))
        Builder(function, entry).branch(loop)
        b = Builder(function, loop)
        part, following = (Value(I64, "i64", function.fresh()) for _ in range(2))
        b.raw(f"{part.ref} = phi i64 [ 0, %{entry.label} ], [ {following.ref}, %{after.label} ]")
        first = b.gep(data, b.add(part, part), I64)
        start, count = b.load(first, I64, 8), b.load(b.gep(first, 1, I64), I64, 8)
        low = b.intrinsic("llvm.smax", b.sub(begin, start), i64(0))
        high = b.intrinsic("llvm.smin", b.sub(end, start), count)
        b.cbranch(b.icmp_signed("<", low, high), some, after)
        b = Builder(function, some)
        mine = b.gep(table, b.mul(part, i64(width)), PTR)
        b.raw(f"call void {flat.function.reference.ref}(ptr {mine.ref}, i64 {low.ref}, i64 {high.ref})")
        b.branch(after)
        b = Builder(function, after)
        b.raw(f"{following.ref} = add i64 {part.ref}, 1")
        b.cbranch(b.icmp_signed("<", following, i64(len(starts))), loop, done)
        Builder(function, done).ret()
        return function
