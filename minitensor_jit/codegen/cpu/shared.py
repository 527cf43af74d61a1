"""Equal steps share their code: a function that reads its buffers' addresses from a table, and a table a step.

A training step has most of its loops several times: once a layer, or once a parameter that the optimizer updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...runtime.buffer_assignment import Location
from ..emitter.loops import i64
from ..kernel_spec import Binding, KernelPlan, KernelSpec
from ..llvm.ir_text import Function
from ..llvm.ir_types import I64, PTR, VOID
from .kernels.flat_loop import FlatLoop
from .tables import emit_table
from .unit import Unit

__all__ = ["SharedSteps"]


@dataclass
class _Shared:
    """A function that does a step with the buffers in a table: operands, results, temporaries of these sizes."""

    function: Function
    sized: bool = False
    """Whether the number of elements stands in the table behind the addresses."""
    temporaries: list[int] = field(default_factory=list)


class SharedSteps:
    """Emits steps that are there more than once. Constants among the operands are part of the function."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._functions: dict[KernelPlan, _Shared] = {}

    def launch(
        self, plan: KernelPlan, spec: KernelSpec, operands: Sequence[Binding], results: Sequence[Location], size: int
    ) -> None:
        """Emits a call of the step, and the step's function if this is its first call.

        `spec` is the plan's, `size` the number of elements of the step's first result.
        """
        shared = self._functions.get(plan)
        if shared is None:
            shared = self._functions[plan] = self._define(plan, spec, operands, results)
        unit = self._unit
        places = [b for b in (*operands, *results) if isinstance(b, Location)]
        places += [unit.temporary(nbytes) for nbytes in shared.temporaries]
        table = emit_table(unit, places, room=1)
        runtime = unit.entry.arguments[1]
        if shared.sized:
            unit.builder.store(i64(size), unit.builder.gep(table, len(places), I64), 8)
        unit.builder.raw(f"call void @{shared.function.name}(ptr {table.ref}, ptr {runtime.ref})")

    def _define(
        self, plan: KernelPlan, spec: KernelSpec, operands: Sequence[Binding], results: Sequence[Location]
    ) -> _Shared:
        unit = self._unit
        name = f'"step.{spec.name}.{len(self._functions)}"'
        shared = _Shared(Function(unit.module, name, VOID, [(PTR, "buffers"), (PTR, "runtime")]))
        slots = 0
        spec.operands = []
        for binding in operands:
            spec.operands.append(Location("parameter", slots) if isinstance(binding, Location) else binding)
            slots += isinstance(binding, Location)
        spec.results = [Location("result", slots + n) for n in range(len(results))]
        slots += len(results)

        def allocate(nbytes: int) -> Location:
            shared.temporaries.append(nbytes)
            return Location("scratch", slots + len(shared.temporaries) - 1)

        with unit.within(shared.function, allocate):
            if isinstance(plan, FlatLoop):
                shared.sized = True
                plan.emit_for_any_size(slots)
            else:
                plan.emit()
            unit.builder.ret()
        return shared
