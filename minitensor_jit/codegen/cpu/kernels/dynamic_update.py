"""The loop of a window that is replaced in a large array."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.module import Instruction
from ...emitter.loops import counted_loop, i64
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.space import delinearize_rows
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import Value
from ...window_update import WindowUpdate
from ..unit import Unit
from .loop_kernel import fewer_lanes
from .scatter import emit_copy
from .vector_loops import vector_loop

__all__ = ["DynamicUpdate"]


class DynamicUpdate(WindowUpdate):
    """The copy and the window's kernel."""

    def __init__(self, unit: Unit, spec: KernelSpec, update: Instruction) -> None:
        super().__init__(spec, update)
        self.unit = unit

    def emit(self) -> None:
        """Emits and launches them."""
        unit, spec, root, window = self.unit, self.spec, self.update, self.window
        emit_copy(unit, spec, self.source, spec.results[0])
        if not self.size:
            return
        nest = self.nest()
        lanes = fewer_lanes(unit.lanes([root]), nest.inner)
        probe = Space()
        variables = nest.variables(probe, "v")
        inner = variables[-1]
        if not inner.terms or self.place(probe, nest.flat(variables)).coefficient(inner.terms[0][0]) != 1:
            lanes = 1  # neighbours of the window are no neighbours in the array
        space = Space()
        e = unit.kernel(spec, lanes, space)
        outer = nest.variables(space, "v")[:-1]
        target = unit.result_pointer(e, spec.results[0])

        def body(v: AffineExpr, _: int) -> None:
            flat = nest.flat([*outer, v])
            value = e.value(window, space.delinearize(flat, window.dims))
            e.store(target, root.dtype, self.place(space, flat), value)

        def row(p: Value, _: Sequence[Value]) -> list[Value]:
            delinearize_rows(e, p, outer, nest.extents[:-1])
            vector_loop(e, nest.inner, 1, i64(0), i64(nest.inner), body)
            return []

        begin, end = e.function.arguments[1:]
        counted_loop(e, begin, end, 1, row)
        e.inner.ret()
        unit.launch(e.function, prod(nest.extents[:-1]), self.cost)
