"""The steps of a module in order, with fusions that have no kernel of their own taken apart again.

A step is a kernel, a loop or a choice; the computations that the last two name are regions with steps of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol, TypeAlias

from ..ir.analysis.fingerprint import fingerprint
from ..ir.analysis.flat import FlatPart
from ..ir.infer.structured import branches
from ..ir.module import Computation, Instruction, Module
from ..ir.opcode import Trait, opcodes_with
from ..ir.shape import AnyShape, Shape, TupleShape, leaves
from ..ir.size import active
from .decompose import decompose_reduces
from .errors import CompileError
from .kernel_spec import KernelPlan, KernelSpec

__all__ = [
    "AnyStep",
    "ConditionalStep",
    "KernelStep",
    "Planner",
    "Region",
    "Schedule",
    "Value",
    "WhileStep",
    "leaf",
]

# One array: the instruction that defines it, and which leaf of its result it is.
Value: TypeAlias = tuple[Instruction, int]

_FORWARDS = opcodes_with(Trait.FORWARDS)
_NOT_RUN = opcodes_with(Trait.FREE) | _FORWARDS


@dataclass
class KernelStep:
    """One kernel, or one call of the runtime."""

    spec: KernelSpec
    plan: KernelPlan
    operands: list[Value]
    outputs: list[Value]

    def in_place(self, output: int, operand: Value) -> bool:
        """Whether the output may lie over the operand, wherever that is read here."""
        return all((output, j) in self.plan.in_place for j in self._places.get(operand, ()))

    @property
    def parts(self) -> list[tuple[Value, int]]:
        """The operands that may lie inside the result, and how many bytes from its beginning."""
        return [(self.operands[number], offset) for number, offset in getattr(self.plan, "operands_in_result", ())]

    @cached_property
    def _places(self) -> dict[Value, list[int]]:
        """The numbers of the operands that a value is."""
        found: dict[Value, list[int]] = {}
        for j, value in enumerate(self.operands):
            found.setdefault(value, []).append(j)
        return found


@dataclass
class Region:
    """A computation that runs as a whole; its results may also be values from outside, or constants."""

    steps: list[AnyStep]
    results: list[Value]

    def outside(self) -> dict[Value, None]:
        """The values from outside that are read."""
        made = {output for step in self.steps for output in step.outputs}
        read = [value for step in self.steps for value in step.operands] + self.results
        return {value: None for value in read if value not in made and value[0].opcode != "constant"}


@dataclass
class WhileStep:
    """A `while`. Its outputs are the values that change, in memory of their own; they begin as `starts`.

    What a loop leaves as it is has no output: it is the value from outside under other names.
    """

    outputs: list[Value]
    starts: list[Value]
    condition: Region
    body: Region

    @property
    def captured(self) -> list[Value]:
        """What is read from outside in every turn."""
        return [v for v in {**self.condition.outside(), **self.body.outside()} if v not in self.outputs]

    @property
    def operands(self) -> list[Value]:
        """What is read from outside."""
        return list(dict.fromkeys([*self.starts, *self.captured]))

    def in_place(self, output: int, operand: Value) -> bool:
        """Whether the output may lie over the operand: it begins as that."""
        return self.starts[output] == operand and self.starts.count(operand) == 1 and operand not in self.captured


@dataclass
class ConditionalStep:
    """A `conditional`: the region whose number `index` is, the last one if it is out of range."""

    outputs: list[Value]
    index: Value
    regions: list[Region]

    @property
    def operands(self) -> list[Value]:
        """What is read from outside."""
        return list(dict.fromkeys([self.index, *(v for region in self.regions for v in region.outside())]))

    def in_place(self, output: int, operand: Value) -> bool:
        """Never: a region may read what another result was written over."""
        return False


AnyStep: TypeAlias = KernelStep | WhileStep | ConditionalStep


class Planner(Protocol):
    """A target's kernels."""

    share: bool
    """Whether equal steps have one plan, and so one code."""

    def is_by_value(self, i: Instruction) -> bool:
        """Whether an operand is passed by value, not by its address: another code."""

    def plan(self, spec: KernelSpec) -> KernelPlan:
        """The kernel that fits; raises `CompileError` if none does."""

    def flat(self, computation: Computation) -> FlatPart | None:
        """The computation as a loop over any number of elements, if it has such code."""

    def flat_plan(self, part: FlatPart, flat: KernelSpec, alone: KernelSpec) -> KernelPlan:
        """The kernel for any number of elements; `alone` is that of the only step that has it."""


class Schedule:
    """Plans the steps. `results` are the values that the module returns; some may be parameters or constants."""

    def __init__(self, planner: Planner, module: Module) -> None:
        self.planner = planner
        self.steps: list[AnyStep] = []
        self.plans = KernelPlans(planner)
        self._names: dict[Value, Value] = {}  # values that are other values under another name
        self._first: dict[int, tuple[AnyShape, list[int]]] = {}
        region = self._region(module.entry)
        self.steps, self.results = region.steps, region.results

    def _region(self, computation: Computation) -> Region:
        before, self.steps = self.steps, []
        self._run(computation)
        root = computation.root
        region = Region(self.steps, [self.resolve((root, k)) for k in range(_count(root.shape))])
        _remove_dead(region)
        self.steps = before
        return region

    def resolve(self, value: Value) -> Value:
        """The value that is really in memory: behind reshapes, tuples and calls."""
        while True:
            known = self._names.get(value)
            if known is not None:
                value = known
                continue
            i, k = value
            if i.opcode == "tuple":
                starts = self._starts(i.shape)
                index = bisect_right(starts, k) - 1
                value = (i.operands[index], k - starts[index])
            elif i.opcode == "get-tuple-element":
                whole = i.operands[0]
                value = (whole, self._starts(whole.shape)[i.attrs["index"]] + k)
            elif i.opcode in _FORWARDS:
                value = (i.operands[0], k)
            else:
                return value

    def _starts(self, shape: AnyShape) -> list[int]:
        """Where the arrays of a tuple's elements begin among all of its arrays."""
        assert isinstance(shape, TupleShape)
        known = self._first.get(id(shape))
        if known is None:
            starts = [0, *accumulate(map(_count, shape.elements))][:-1]
            known = self._first[id(shape)] = (shape, starts)
        return known[1]

    # ---- planning

    def _run(self, computation: Computation) -> None:
        for i in computation.instructions:
            if i.opcode in _NOT_RUN:
                continue
            if i.opcode == "call":
                self._inline(i, i.attrs["to_apply"])
            elif i.opcode == "while":
                self._loop(i)
            elif i.opcode == "conditional":
                self._choice(i)
            elif i.opcode == "fusion":
                self._fusion(i)
            else:
                self._alone(i)

    def _inline(self, i: Instruction, computation: Computation) -> None:
        """Runs a called computation's instructions as steps of their own."""
        # A copy, since the same computation may be called again, and values are known by their instructions.
        computation = computation.clone()
        for parameter, operand in zip(computation.parameters, i.operands, strict=True):
            self._rename(parameter, operand)
        self._rename(i, computation.root)
        self._run(computation)

    def _rename(self, new: Instruction, old: Instruction) -> None:
        for k in range(_count(new.shape)):
            self._names[(new, k)] = (old, k)

    def _loop(self, i: Instruction) -> None:
        condition, body = i.attrs["condition"].clone(), i.attrs["body"].clone()
        (outer,), (inner,), (state,) = condition.parameters, body.parameters, i.operands
        outputs, starts, changing = [], [], []
        for k in range(_count(i.shape)):
            unchanged = self.resolve((body.root, k)) == (inner, k)
            now = (state, k) if unchanged else (i, k)
            if unchanged:
                self._names[(i, k)] = now
            else:
                changing.append(k)
                outputs.append(now)
                starts.append(self.resolve((state, k)))
            self._names[(outer, k)] = self._names[(inner, k)] = now
        before, after = self._region(condition), self._region(body)
        after.results = [after.results[k] for k in changing]
        _remove_dead(after)
        self.steps.append(WhileStep(outputs, starts, before, after))

    def _choice(self, i: Instruction) -> None:
        index, *operands = i.operands
        regions = []
        for computation, operand in zip(branches(i.attrs), operands, strict=True):
            copy = computation.clone()
            self._rename(copy.parameters[0], operand)
            regions.append(self._region(copy))
        outputs = [(i, k) for k in range(_count(i.shape))]
        self.steps.append(ConditionalStep(outputs, self.resolve((index, 0)), regions))

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
            if any(chain[-1].operands[1].opcode not in ("parameter", "constant") for chain in chains):
                raise CompileError("fusion", "the initial value of a reduction in steps is computed")
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
        values = [self.resolve((o, 0)) for o in operands]
        unknown = active.get() is not None
        flat = None
        if not unknown and not any(i.opcode == "constant" and i.array_shape.size > 1 for i, _ in values):
            flat = self.planner.flat(computation)
        if flat is not None:
            values = [values[number] for number in flat.parameters]

        def make() -> tuple[KernelSpec, KernelPlan]:
            if flat is None:
                spec = KernelSpec(name, computation)
                return spec, self.planner.plan(spec)
            spec = KernelSpec(name, flat.flattened(computation))
            return spec, self.planner.flat_plan(flat, spec, KernelSpec(name, computation))

        # A shared step sees a table of its own, in which the size of a dimension that is a symbol isn't.
        if unknown or not self.planner.share:
            spec, plan = make()
        else:
            spec, plan = self.plans.get(fingerprint(computation) if flat is None else flat.key, values, make)
        self.steps.append(KernelStep(spec, plan, values, list(outputs)))


class KernelPlans:
    """The plans of all steps: equal computations, with equal constants among their operands, have one together.

    So have flat ones of any size.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._known: dict[Hashable, tuple[KernelSpec, KernelPlan]] = {}
        self._uses: Counter[KernelPlan] = Counter()

    def get(
        self, computation: Hashable, operands: Sequence[Value], make: Callable[[], tuple[KernelSpec, KernelPlan]]
    ) -> tuple[KernelSpec, KernelPlan]:
        """The plan of such a step, whose computation has this key."""
        constants = tuple([_literal(i) for i, _ in operands])
        by_value = tuple([self._planner.is_by_value(i) for i, _ in operands])
        key = computation, constants, by_value
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = make()
        self._uses[known[1]] += 1
        return known

    def is_shared(self, plan: KernelPlan) -> bool:
        """Whether more than one step has this plan."""
        return self._uses[plan] > 1


def _literal(i: Instruction) -> Hashable:
    return None if i.literal is None else (i.shape, i.literal.tobytes())


def leaf(value: Value) -> Shape:
    """The shape of an array."""
    return leaves(value[0].shape)[value[1]]


def _count(shape: AnyShape) -> int:
    return len(leaves(shape))


def _remove_dead(region: Region) -> None:
    live = set(region.results)
    kept = []
    for step in reversed(region.steps):
        if live.intersection(step.outputs) or _has_effect(step):
            live.update(step.operands)
            kept.append(step)
    region.steps = kept[::-1]


def _has_effect(step: AnyStep) -> bool:
    """Whether it runs although nobody reads what it gives."""
    if isinstance(step, KernelStep):
        return any(i.has_side_effect for i in step.spec.computation.instructions)
    regions = [step.condition, step.body] if isinstance(step, WhileStep) else step.regions
    return any(_has_effect(inner) for region in regions for inner in region.steps)


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
