"""The steps of a module's entry in order, with fusions that have no kernel of their own taken apart again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...ir.module import Computation, Instruction, Module
from ...ir.shape import TupleShape
from ..errors import CompileError
from .column_kernel import ColumnKernel
from .decompose import decompose_reduces
from .dot import Dot
from .generic_reduce import GenericReduce
from .kernel_call import KernelCallPlan
from .loop_kernel import LoopKernels
from .reduction import reductions
from .row_kernel import RowKernel
from .scatter import Scatter
from .unit import Plan, Task, Unit, reachable

__all__ = ["Schedule", "Step", "Value"]

# One array: the instruction that defines it, and which of its results it is.
Value: TypeAlias = tuple[Instruction, int]


@dataclass
class Step:
    """One kernel, or one call of the runtime."""

    task: Task
    plan: Plan
    operands: list[Value]
    outputs: list[Value]


class Schedule:
    """Plans the steps. `results` are the values that the module returns; some may be parameters or constants."""

    def __init__(self, unit: Unit, module: Module) -> None:
        self.unit = unit
        self.steps: list[Step] = []
        self._names: dict[Value, Value] = {}  # values that are other values under another name
        self._run(module.entry)
        root = module.entry.root
        count = len(root.shape.elements) if isinstance(root.shape, TupleShape) else 1
        self.results = [self.resolve((root, k)) for k in range(count)]
        self._remove_dead()

    def resolve(self, value: Value) -> Value:
        """The value that is really in memory: behind reshapes, tuples and calls."""
        while True:
            known = self._names.get(value)
            if known is not None:
                value = known
                continue
            i, k = value
            if i.opcode == "tuple":
                value = (i.operands[k], 0)
            elif i.opcode == "get-tuple-element":
                value = (i.operands[0], i.attrs["index"])
            elif i.opcode in ("reshape", "bitcast", "copy"):
                value = (i.operands[0], 0)
            else:
                return value

    def _remove_dead(self) -> None:
        live = set(self.results)
        kept = []
        for step in reversed(self.steps):
            if live.intersection(step.outputs):
                live.update(step.operands)
                kept.append(step)
        self.steps = kept[::-1]

    # ---- planning

    def _run(self, computation: Computation) -> None:
        for i in computation.instructions:
            if i.opcode in ("parameter", "constant", "tuple", "get-tuple-element", "reshape", "bitcast", "copy"):
                continue
            if i.opcode == "call":
                self._inline(i, i.attrs["to_apply"])
            elif i.opcode == "fusion":
                self._fusion(i)
            else:
                self._alone(i)

    def _inline(self, i: Instruction, computation: Computation) -> None:
        """Runs a called computation's instructions as steps of their own."""
        # A copy, since the same computation may be called again, and values are known by their instructions.
        computation = computation.clone()
        for parameter, operand in zip(computation.parameters, i.operands, strict=True):
            self._names[(parameter, 0)] = (operand, 0)
        for k, root in enumerate(computation.roots):
            self._names[(i, k)] = (root, 0)
        self._run(computation)

    def _fusion(self, i: Instruction) -> None:
        computation = _array_roots(i.attrs["calls"])
        try:
            self._add(computation, i.name, list(i.operands), [(i, k) for k in range(len(computation.roots))])
        except CompileError:
            self._inline(i, computation)

    def _alone(self, i: Instruction) -> None:
        """A lone instruction is a fusion of one."""
        parameters: dict[Instruction, Instruction] = {}
        for o in i.operands:
            if o not in parameters:
                number = len(parameters)
                parameters[o] = Instruction(f"p{number}", "parameter", o.shape, parameter_number=number)
        body = i.clone([parameters[o] for o in i.operands])
        computation = _array_roots(Computation(i.name, [*parameters.values(), body], body))
        self._add(computation, i.name, list(parameters), [(i, k) for k in range(len(computation.roots))])

    def _add(
        self, computation: Computation, name: str, operands: Sequence[Instruction], outputs: Sequence[Value]
    ) -> None:
        """A step for the computation; raises `CompileError` if it has no kernel."""
        several = decompose_reduces(computation)
        if several is not None:
            first, chains = several
            call = Instruction(name, "fusion", first.root.shape, operands, {"calls": first})
            self._add(first, name, operands, [(call, k) for k in range(len(chains))])
            for k, (chain, output) in enumerate(zip(chains, outputs, strict=True)):
                # The first link of a chain is a parameter that stands for what the step before computed.
                self._names[(chain[0], 0)] = (call, k)
                initial = chain[-1].operands[1]
                if initial.parameter_number is not None:
                    self._names[(initial, 0)] = (operands[initial.parameter_number], 0)
                for link in chain[1:]:
                    self._alone(link)
                self._names[output] = (chain[-1], 0)
            return
        task = Task(name, computation)
        plan = self._plan(task)
        self.steps.append(Step(task, plan, [self.resolve((o, 0)) for o in operands], list(outputs)))

    def _plan(self, task: Task) -> Plan:
        unit = self.unit
        roots = task.computation.roots
        instructions = reachable(roots)
        special = [i for i in instructions if i.opcode in ("dot", "scatter", "sort", "kernel-call")]
        if len(special) == 1 and special[0].opcode == "kernel-call":
            sources = [r.operands[0] if r.opcode == "get-tuple-element" else r for r in roots]
            if sources != special * len(roots) or any(o.opcode != "parameter" for o in special[0].operands):
                raise CompileError("fusion", "kernel-call inside a fusion")
            return KernelCallPlan(unit, task, special[0])
        if special:
            if roots != special or any(o.opcode != "parameter" for o in special[0].operands):
                raise CompileError("fusion", f"{special[0].opcode} inside a fusion")
            if special[0].opcode == "dot":
                return Dot(unit, task, special[0])
            if special[0].opcode == "scatter":
                return Scatter(unit, task, special[0])
            raise CompileError("sort", "no code for this opcode yet")
        found = reductions(instructions)
        if not found:
            return LoopKernels(unit, task)
        if any(r is None for r in found):
            reduces = [i for i in instructions if i.opcode == "reduce"]
            if len(reduces) == 1 and all(
                (r.operands[0] if r.opcode == "get-tuple-element" else r) is reduces[0] for r in roots
            ):
                return GenericReduce(unit, task, reduces[0])
            raise CompileError("fusion", "a reduction by a computation of its own beside other results")
        steps = [r for r in found if r is not None]
        if len({r.shape for r in steps}) > 1:
            raise CompileError("fusion", "reductions of different shapes")
        return (RowKernel if steps[0].inner == 1 else ColumnKernel)(unit, task, steps)


def _array_roots(computation: Computation) -> Computation:
    """The computation with arrays as its roots, where its root is one instruction with several results."""
    root = computation.root
    if root.opcode == "tuple" or not isinstance(root.shape, TupleShape):
        return computation
    elements = [
        Instruction(f"{root.name}.{k}", "get-tuple-element", shape, [root], {"index": k})
        for k, shape in enumerate(root.shape.elements)
    ]
    outputs = Instruction(f"{root.name}.outputs", "tuple", root.shape, elements)
    return Computation(computation.name, [*computation.instructions, *elements, outputs], outputs)
