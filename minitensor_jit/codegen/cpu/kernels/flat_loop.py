"""Elementwise loops whose code does not depend on how many elements there are: steps of any size share it."""

from __future__ import annotations

from ....ir.analysis.flat import ANY_SIZE, FlatPart
from ....ir.module import Instruction
from ....runtime.buffer_assignment import Location
from ...abi import PARALLEL_FOR
from ...emitter.loops import i64
from ...indexing.indexing_map import AffineExpr, Space
from ...kernel_spec import Binding, KernelSpec, element_cost, reachable
from ...llvm.ir_text import Function
from ...llvm.ir_types import I64, PTR, Value
from ..tables import emit_table
from ..unit import FlatKernel, Unit
from .loop_kernel import LoopKernels, copies_for
from .vector_loops import vector_loop

__all__ = ["FlatLoop", "flat_kernel", "in_table", "launch_elements"]


def flat_kernel(unit: Unit, part: FlatPart, spec: KernelSpec) -> FlatKernel:
    """The loop over any number of elements of a part on one dimension, whose arrays are in a table."""
    # Constants are part of the code.
    key = None if any(isinstance(binding, Instruction) for binding in spec.operands) else part.key
    known = unit.flat_kernels.get(key)
    if known is not None:
        return known
    instructions = reachable([r for r, _ in spec.roots])
    lanes = unit.free_lanes(list(instructions), ANY_SIZE)
    cost = element_cost(instructions, ANY_SIZE)
    space = Space()
    e = unit.kernel(spec, lanes, space)
    targets = [unit.result_pointer(e, location) for location in spec.results]

    def body(v: AffineExpr, copy: int) -> None:
        # Read everything before anything is written: a result may lie where an operand was.
        values = [e.value(r, space.delinearize(v, r.dims)) for r, _ in spec.roots]
        for (r, _), target, value in zip(spec.roots, targets, values, strict=True):
            e.store(target, r.dtype, v, value)

    copies = copies_for(cost * max(1, len(spec.roots) - 1))
    begin, end = e.function.arguments[1:]
    vector_loop(e, ANY_SIZE, copies, begin, end, body)
    e.inner.ret()
    made = FlatKernel(e.function, cost, lanes * copies)
    if key is not None:
        unit.flat_kernels[key] = made
    return made


def launch_elements(unit: Unit, flat: FlatKernel, function: Function, table: Value, count: int | Value) -> None:
    """Runs a function over so many elements of a flat loop, whose arrays are in a table: in parallel if that pays."""
    b, runtime = unit.builder, unit.entry.arguments[1]
    threshold = max(1, unit.options.parallel_threshold // flat.cost)
    grain = max(1, threshold // 2 // flat.step) * flat.step  # whole vectors: only the last part has a masked one
    number = count.ref if isinstance(count, Value) else count
    direct = f"call void {function.reference.ref}(ptr {table.ref}, i64 0, i64 {number})"

    def divided() -> None:
        parallel_for = b.load(b.gep(runtime, PARALLEL_FOR, PTR), PTR, 8)
        rest = f"i64 {number}, i64 {grain}, ptr {function.reference.ref}, ptr {table.ref}"
        b.raw(f"call void {parallel_for.ref}({rest})")

    if not isinstance(count, Value):
        if count < threshold:
            b.raw(direct)
        else:
            divided()
        return
    then, otherwise, after = unit.condition_blocks()
    b.cbranch(b.icmp_signed("<", count, i64(threshold)), then, otherwise)
    b.position_at_end(then)
    b.raw(direct)
    b.branch(after)
    b.position_at_end(otherwise)
    divided()
    b.branch(after)
    b.position_at_end(after)


def in_table(spec: KernelSpec) -> KernelSpec:
    """The same for arrays whose addresses are in a table: operands, then results."""
    reads, results = len(spec.computation.parameters), len(spec.computation.roots)
    operands: list[Binding] = [Location("parameter", k) for k in range(reads)]
    return KernelSpec(spec.name, spec.computation, operands, [Location("result", reads + k) for k in range(results)])


class FlatLoop:
    """A loop over any number of elements. A step that is the only one with its code gets a loop of its size instead."""

    def __init__(self, unit: Unit, part: FlatPart, spec: KernelSpec, alone: KernelSpec) -> None:
        self.unit, self.part, self.spec, self.alone = unit, part, spec, alone
        parameters = [p for p in spec.computation.parameters if p.dims == (ANY_SIZE,)]
        self.in_place = {
            (n, p.parameter_number)
            for r, n in spec.roots
            for p in parameters
            if p.dtype == r.dtype and p.parameter_number is not None
        }

    def emit(self) -> None:
        """Emits the loop for the size of the only step, unless its code is there anyway."""
        unit, spec, alone = self.unit, self.spec, self.alone
        places = [binding for binding in spec.operands if isinstance(binding, Location)]
        if len(places) == len(spec.operands) and self.part.key in unit.horizontal:
            flat = flat_kernel(unit, self.part, in_table(spec))
            table = emit_table(unit, [*places, *spec.results])
            launch_elements(unit, flat, flat.function, table, self.part.size)
            return
        alone.name, alone.results = spec.name, spec.results
        alone.operands = [spec.operands[self.part.parameters.index(n)] for n in range(len(spec.operands))]
        LoopKernels(unit, alone).emit()

    def emit_for_any_size(self, slot: int) -> None:
        """Emits the loop into a function that finds the number of elements in its table, at `slot`."""
        unit = self.unit
        flat = flat_kernel(unit, self.part, self.spec)
        table = unit.entry.arguments[0]
        count = unit.builder.load(unit.builder.gep(table, slot, I64), I64, 8)
        launch_elements(unit, flat, flat.function, table, count)
