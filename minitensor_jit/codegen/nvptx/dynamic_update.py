"""A large array in which a small window is replaced: where the result lies over it, only the window is written."""

from __future__ import annotations

from ...ir.module import Instruction
from ..index import Lin, Space
from ..indexing import accesses
from ..llvm import Value
from ..space import delinearize_rows, refine
from ..task import Task, element_cost, reachable
from .loop_kernel import blocks_for, for_each_unit, largest_index, threads_for
from .unit import GpuUnit, Kernel

__all__ = ["DynamicUpdate"]


class DynamicUpdate:
    """The copy, which is none in place, and the window's kernel."""

    def __init__(self, unit: GpuUnit, task: Task, update: Instruction) -> None:
        self.unit, self.task, self.update = unit, task, update
        number = update.operands[0].parameter_number
        assert number is not None
        self.in_place = {(0, number)}

    def emit(self) -> None:
        """Emits and launches them."""
        unit, task, root = self.unit, self.task, self.update
        source, window, *starts = root.operands
        unit.copy(("result", 0), unit.symbol(task, source), root.array_shape.nbytes)
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
        space = Space()
        kernel = Kernel(unit, task, space, threads_for(size), largest_index([root, *instructions]))
        e = kernel.e
        kernel.bind([window, *starts])
        variables = nest.variables(space, "v")

        def element(at: Value) -> None:
            delinearize_rows(e, at, variables, nest.extents)
            flat = nest.flat(variables)
            e.store(kernel.result(0), root.dtype, place(space, flat), e.value(window, space.delinearize(flat, dims)))

        blocks = blocks_for(unit, size, kernel.threads)
        for_each_unit(kernel, size, blocks, element)
        work = size * element_cost(instructions, size)
        kernel.launch(blocks, "dynamic-update", 2 * window.array_shape.nbytes, work)
