"""The kernels of the CPU."""

from __future__ import annotations

from functools import partial

from ...ir.analysis.flat import FlatPart, flat_part, flat_parts
from ...ir.module import Computation, Instruction
from ...ir.opcode import Trait, opcodes_with
from ...ir.size import active, hint
from ..kernel_spec import KernelPlan, KernelSpec
from ..planner import KernelChoice
from .kernels.column_kernel import ColumnKernel
from .kernels.dot import Dot
from .kernels.dot_epilogue import DotWithEpilogue
from .kernels.dynamic_update import DynamicUpdate
from .kernels.flat_loop import FlatLoop
from .kernels.generic_reduce import GenericReduce
from .kernels.horizontal_loop import HorizontalLoops
from .kernels.host_call import HostCall
from .kernels.kernel_call import ConvolutionWithEpilogue, KernelCallPlan
from .kernels.loop_kernel import LoopKernels
from .kernels.row_kernel import RowKernel
from .kernels.scatter import Scatter
from .kernels.sort import Sort
from .unit import Unit

__all__ = ["CpuPlanner"]


class CpuPlanner(KernelChoice):
    """Makes plans for a unit."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._parts: dict[Computation, list[FlatPart]] = {}
        # Steps that are measured are told apart by their lines in the user's program.
        self.share = not unit.options.profile
        self.whole = {
            "dot": partial(Dot, unit),
            "scatter": partial(Scatter, unit),
            "sort": partial(Sort, unit),
            "topk": partial(Sort, unit),
            "kernel-call": partial(KernelCallPlan, unit),
            **dict.fromkeys(opcodes_with(Trait.HOST), partial(HostCall, unit)),
        }
        self.elements, self.window = self._elements, partial(DynamicUpdate, unit)
        self.rows, self.columns = partial(RowKernel, unit), partial(ColumnKernel, unit)
        self.generic, self.product = partial(GenericReduce, unit), partial(DotWithEpilogue, unit)

    def _horizontal(self, computation: Computation) -> list[FlatPart]:
        """The loops that a computation consists of, if it has several."""
        known = self._parts.get(computation)
        if known is None:
            known = self._parts[computation] = flat_parts(computation)
        return known

    def flat(self, computation: Computation) -> FlatPart | None:
        """The computation for any number of elements, where steps can share it."""
        part = flat_part(computation) if self.share and not self._horizontal(computation) else None
        if part is None:
            return None
        nbytes = hint(sum(r.array_shape.nbytes for r in computation.roots))
        return part if nbytes < self.unit.options.streaming_store_bytes else None

    def flat_plan(self, part: FlatPart, flat: KernelSpec, alone: KernelSpec) -> KernelPlan:
        """The kernel for any number of elements."""
        return FlatLoop(self.unit, part, flat, alone)

    def _elements(self, spec: KernelSpec) -> KernelPlan:
        """Loops side by side, or those of a spec."""
        parts = self._horizontal(spec.computation) if active.get() is None else []
        return HorizontalLoops(self.unit, spec, parts) if parts else LoopKernels(self.unit, spec)

    def convolution(self, spec: KernelSpec, call: Instruction) -> KernelPlan:
        """A convolution, and what is done with its elements."""
        return ConvolutionWithEpilogue(self.unit, spec, call)
