"""The kernels of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...ir.analysis.flat import FlatPart
from ...ir.library import loop_of
from ...ir.module import Computation, Instruction
from ...ir.opcode import Trait, opcodes_with
from ..errors import CompileError
from ..kernel_spec import KernelPlan, KernelSpec, reachable
from ..planner import KernelChoice
from .kernels.column_kernel import ColumnKernel
from .kernels.dot import Dot
from .kernels.dynamic_update import DynamicUpdate
from .kernels.generic_reduce import GenericReduce
from .kernels.host_call import HostCall
from .kernels.loop_kernel import LoopKernels
from .kernels.row_kernel import RowKernel
from .kernels.scan import Scan, scans
from .kernels.scatter import Scatter
from .kernels.sort import Sort
from .unit import GpuUnit

__all__ = ["GpuPlanner"]


class GpuPlanner(KernelChoice):
    """Makes plans for a unit."""

    def __init__(self, unit: GpuUnit, parameters: Sequence[Instruction] = ()) -> None:
        self.unit = unit
        self._by_value = {p for p in parameters if p.parameter_number in unit.host_values}
        # Steps that are measured are told apart by their lines in the user's program.
        self.share = not unit.options.profile
        self.whole = {
            "dot": partial(Dot, unit),
            "scatter": partial(Scatter, unit),
            "sort": partial(Sort, unit),
            "topk": partial(Sort, unit),
            "kernel-call": self._kernel_call,
            **dict.fromkeys(opcodes_with(Trait.HOST), partial(HostCall, unit)),
        }
        self.elements, self.window = partial(LoopKernels, unit), partial(DynamicUpdate, unit)
        self.rows, self.columns = partial(RowKernel, unit), partial(ColumnKernel, unit)
        self.generic, self.product = partial(GenericReduce, unit), partial(Dot, unit)

    def _kernel_call(self, spec: KernelSpec, call: Instruction) -> KernelPlan:
        """A scan, or a call of the host."""
        return Scan(self.unit, spec, call) if scans(call) else HostCall(self.unit, spec, call)

    def is_by_value(self, i: Instruction) -> bool:
        """Whether launches pass the value of an operand."""
        return i in self._by_value

    def flat(self, computation: Computation) -> FlatPart | None:
        """None: each size has a kernel."""
        return None

    def flat_plan(self, part: FlatPart, flat: KernelSpec, alone: KernelSpec) -> KernelPlan:
        """Never asked for."""
        raise NotImplementedError

    def plan(self, spec: KernelSpec) -> KernelPlan:
        """The kernel that fits, or a call of the host for an instruction without code."""
        for i in reachable(spec.computation.roots):
            if i.opcode == "elementwise-call" and not self._has_code(i):
                reason = f"no code for the function {i.attrs['custom_call_target']} of {i.operands[0].dtype}"
                if spec.computation.roots != [i] or any(o.opcode != "parameter" for o in i.operands):
                    raise CompileError("fusion", reason)
                return HostCall(self.unit, spec, i, reason)
        return super().plan(spec)

    def _has_code(self, i: Instruction) -> bool:
        loop = loop_of(i)
        return loop is not None and loop.symbol in self.unit.module.inline
