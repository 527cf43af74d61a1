"""Elementwise loops whose code does not depend on how many elements there are: steps of any size share it.

Horizontal fusion of an optimizer's updates would copy all parameters together to loop over them once; here each is
updated where it lies, by one and the same code.
"""

from __future__ import annotations

from typing import Final

from ...ir.module import Computation, Instruction
from ...ir.opcode import is_elementwise
from ...ir.shape import Shape, TupleShape
from ...ir.size import hint
from ..abi import PARALLEL_FOR
from ..index import Lin, Space
from ..llvm import I64, PTR
from ..loops import i64
from ..task import Task, element_cost, reachable
from .loop_kernel import LoopKernels, copies_for
from .loops import vector_loop
from .unit import Unit

__all__ = ["FlatLoop", "flattened"]

# Stands for the number of elements, which the code learns when it runs.
_ANY: Final = 1 << 30


def flattened(computation: Computation, streaming_bytes: int) -> Computation | None:
    """The computation on one dimension of any size; None where an element reads other than its own place or scalars."""
    roots = computation.roots
    if any(not isinstance(r.shape, Shape) for r in roots):
        return None
    dims = roots[0].dims
    size = roots[0].array_shape.size
    nbytes = hint(sum(r.array_shape.nbytes for r in roots))
    if size < 2 or any(r.dims != dims for r in roots) or nbytes >= streaming_bytes:
        return None
    for i in computation.instructions:
        if i.opcode == "tuple":
            continue
        if not isinstance(i.shape, Shape) or i.dims not in (dims, ()):
            return None
        if i.opcode == "broadcast":
            if i.operands[0].dims != ():
                return None
        elif i.opcode == "constant":
            if i.dims != ():
                return None
        elif i.opcode != "parameter" and not is_elementwise(i.opcode):
            return None
    return _with_any_size(computation, dims)


def _with_any_size(computation: Computation, dims: tuple[int, ...]) -> Computation:
    def shape_of(i: Instruction) -> Shape:
        shape = i.array_shape
        return shape.with_dims((_ANY,)) if shape.dims == dims else shape

    mapping: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        copy = i.clone([mapping[o] for o in i.operands])
        copy.shape = TupleShape(tuple(map(shape_of, i.operands))) if i.opcode == "tuple" else shape_of(i)
        if i.opcode == "broadcast":
            copy.attrs = {**i.attrs, "dimensions": ()}
        mapping[i] = copy
    return Computation(computation.name, mapping.values(), mapping[computation.root])


class FlatLoop:
    """A loop over any number of elements. A step that is the only one with its code gets a loop of its size instead."""

    def __init__(self, unit: Unit, task: Task, alone: Task) -> None:
        self.unit, self.task, self.alone = unit, task, alone
        parameters = [p for p in task.computation.parameters if p.dims == (_ANY,)]
        self.in_place = {
            (n, p.parameter_number)
            for r, n in task.roots
            for p in parameters
            if p.dtype == r.dtype and p.parameter_number is not None
        }

    def emit(self) -> None:
        """Emits the loop for the size of the only step."""
        self.alone.name, self.alone.operands, self.alone.results = self.task.name, self.task.operands, self.task.results
        LoopKernels(self.unit, self.alone).emit()

    def emit_for_any_size(self, slot: int) -> None:
        """Emits the loop into a function that finds the number of elements in its table, at `slot`."""
        unit, task = self.unit, self.task
        instructions = reachable([r for r, _ in task.roots])
        lanes = unit.lanes(list(instructions))
        cost = element_cost(instructions, _ANY)
        space = Space()
        e = unit.kernel(task, lanes, space)
        targets = [unit.result_pointer(e, location) for location in task.results]

        def body(v: Lin, copy: int) -> None:
            # Read everything before anything is written: a result may lie where an operand was.
            values = [e.value(r, space.delinearize(v, r.dims)) for r, _ in task.roots]
            for (r, _), target, value in zip(task.roots, targets, values, strict=True):
                e.store(target, r.dtype, v, value)

        copies = copies_for(cost * max(1, len(task.roots) - 1))
        begin, end = e.function.arguments[1:]
        vector_loop(e, _ANY, copies, begin, end, body)
        e.inner.ret()

        b, (table, runtime) = unit.builder, unit.entry.arguments
        count = b.load(b.gep(table, slot, I64), I64, 8)
        threshold = max(1, unit.options.parallel_threshold // cost)
        step = lanes * copies
        grain = max(1, threshold // 2 // step) * step  # whole vectors: only the last part has a masked one
        then, otherwise, after = unit.condition_blocks()
        b.cbranch(b.icmp_signed("<", count, i64(threshold)), then, otherwise)
        kernel = e.function.reference.ref
        b.position_at_end(then)
        b.raw(f"call void {kernel}(ptr {table.ref}, i64 0, i64 {count.ref})")
        b.branch(after)
        b.position_at_end(otherwise)
        function = b.load(b.gep(runtime, PARALLEL_FOR, PTR), PTR, 8)
        b.raw(f"call void {function.ref}(i64 {count.ref}, i64 {grain}, ptr {kernel}, ptr {table.ref})")
        b.branch(after)
        b.position_at_end(after)
