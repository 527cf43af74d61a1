"""A large array in which a small window is replaced: where the result lies over it, only the window is written."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.module import Instruction
from ..index import Lin, Space
from ..indexing import accesses
from ..llvm import Value
from ..loops import counted_loop, i64
from ..space import delinearize_rows, refine
from ..task import Task, element_cost, reachable
from .loop_kernel import fewer_lanes
from .loops import vector_loop
from .scatter import emit_copy
from .unit import Unit

__all__ = ["DynamicUpdate"]


class DynamicUpdate:
    """The copy and the window's kernel."""

    def __init__(self, unit: Unit, task: Task, update: Instruction) -> None:
        self.unit, self.task, self.update = unit, task, update
        number = update.operands[0].parameter_number
        assert number is not None
        self.in_place = {(0, number)}

    def emit(self) -> None:
        """Emits and launches them."""
        unit, task, root = self.unit, self.task, self.update
        source, window, *starts = root.operands
        emit_copy(unit, task, source, task.results[0])
        size, dims = window.array_shape.size, window.dims
        if not size:
            return

        def place(space: Space, flat: Lin) -> Lin:
            at = [space.dyn(o, (), n - k) for o, n, k in zip(starts, root.dims, dims, strict=True)]
            within = space.delinearize(flat, dims)
            return Space.linearize(tuple(x + s for x, s in zip(within, at, strict=True)), root.dims)

        def forms(space: Space, flat: Lin) -> set[Lin]:
            reads = accesses(space, [(window, space.delinearize(flat, dims))]).all_forms()
            return {*reads, place(space, flat)}

        instructions = reachable([window])
        nest = refine(size, forms)
        lanes = fewer_lanes(unit.lanes([root]), nest.inner)
        probe = Space()
        variables = nest.variables(probe, "v")
        inner = variables[-1]
        if not inner.terms or place(probe, nest.flat(variables)).coefficient(inner.terms[0][0]) != 1:
            lanes = 1  # neighbours of the window are no neighbours in the array
        space = Space()
        e = unit.kernel(task, lanes, space)
        outer = nest.variables(space, "v")[:-1]
        target = unit.result_pointer(e, task.results[0])

        def body(v: Lin, _: int) -> None:
            flat = nest.flat([*outer, v])
            value = e.value(window, space.delinearize(flat, dims))
            e.store(target, root.dtype, place(space, flat), value)

        def row(p: Value, _: Sequence[Value]) -> list[Value]:
            delinearize_rows(e, p, outer, nest.extents[:-1])
            vector_loop(e, nest.inner, 1, i64(0), i64(nest.inner), body)
            return []

        begin, end = e.function.arguments[1:]
        counted_loop(e, begin, end, 1, row)
        e.inner.ret()
        unit.launch(e.function, prod(nest.extents[:-1]), size * element_cost(instructions, size))
