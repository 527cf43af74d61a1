"""The kernel of a window that is replaced in a large array."""

from __future__ import annotations

from ....ir.module import Instruction
from ...indexing.indexing_map import Space
from ...indexing.space import delinearize_rows
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import Value
from ...window_update import WindowUpdate
from ..unit import GpuUnit, Kernel
from .loop_kernel import blocks_for, for_each_unit, largest_index, threads_for

__all__ = ["DynamicUpdate"]


class DynamicUpdate(WindowUpdate):
    """The copy, which is none in place, and the window's kernel."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec, update: Instruction) -> None:
        super().__init__(spec, update)
        self.unit = unit

    def emit(self) -> None:
        """Emits and launches them."""
        unit, spec, root, size = self.unit, self.spec, self.update, self.size
        unit.copy(("result", 0), unit.symbol(spec, self.source), root.array_shape.nbytes)
        if not size:
            return
        nest = self.nest()
        space = Space()
        kernel = Kernel(unit, spec, space, threads_for(size), largest_index([root, *self.instructions]))
        e = kernel.e
        kernel.bind([self.window, *self.starts])
        variables = nest.variables(space, "v")

        def element(at: Value) -> None:
            delinearize_rows(e, at, variables, nest.extents)
            flat = nest.flat(variables)
            value = e.value(self.window, space.delinearize(flat, self.window.dims))
            e.store(kernel.result(0), root.dtype, self.place(space, flat), value)

        blocks = blocks_for(unit, size, kernel.threads)
        for_each_unit(kernel, size, blocks, element)
        kernel.launch(blocks, "dynamic-update", 2 * self.window.array_shape.nbytes, self.cost)
