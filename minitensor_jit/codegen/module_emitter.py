"""A module's steps in order, with memory for what they make: what compiling is for every target."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ..ir.module import Computation, Instruction, Module
from ..ir.refusal import Refusal, Refused
from ..ir.shape import Shape, leaves
from ..runtime.buffer_assignment import BufferAssignment, Location
from .buffer_text import BufferUse, buffer_text
from .input_output_alias import input_output_aliases, replaced_in
from .kernel_spec import Binding, KernelSpec, Sequential, location_of
from .schedule import AnyStep, ConditionalStep, KernelStep, Planner, Region, Schedule, Value, WhileStep, leaf

__all__ = ["Dump", "ModuleEmitter"]

# A table of addresses lies on the stack.
MAX_SEQUENCE: Final = 128

# Gets a kind and a text.
Dump = Callable[[str, str], None]


class ModuleEmitter:
    """One module on its way to code. A target says how a step, a loop, a choice and a copy are emitted."""

    aliases: frozenset[tuple[int, int]]
    """(result, parameter) of results that may lie over parameters; after `place`."""
    read_before: frozenset[tuple[int, int]]
    """(result, parameter): a window of something is replaced once the parameter has been read; after `place`."""
    refusals: list[Refusal]
    """Results of loops that could not be written over an operand of their size that is not read any more."""

    def __init__(self, module: Module, name: str) -> None:
        self.entry = module.entry
        self.parameter_shapes = [p.array_shape for p in module.entry.parameters]
        self.result_shapes = leaves(module.entry.root.shape)
        self.assignment = BufferAssignment()
        self.locations: dict[Value, Location] = {}
        self.schedule: Schedule
        self._module = module
        self._name = name
        self.refusals = []
        self._uses: list[BufferUse] = []
        self._temporaries: list[Hashable] = []
        self._read_beside: dict[int, set[Value]] = {}
        self._begun: dict[int, int] = {}  # by step: the first one of those that are launched with it
        self._parts: dict[Value, tuple[Value, int]] = {}  # what lies inside another value, and how far in bytes
        self._first_written: dict[Value, int] = {}  # results that have parts: the step that makes the first one
        self._scratch_slot = len(self.parameter_shapes) + len(self.result_shapes)

    # ---- what a target emits

    def launch(self, step: KernelStep, operands: list[Binding], results: list[Location]) -> None:
        """A step whose arrays are there."""
        raise NotImplementedError

    def sequential(self, step: KernelStep) -> Sequential | None:
        """What a step's plan says about steps in a row, where this target can launch them as one."""
        return None

    def launch_sequence(self, steps: Sequence[tuple[KernelStep, list[Binding], list[Location]]]) -> None:
        """Steps in a row that are launched as one."""
        raise NotImplementedError

    def copy(self, spec: KernelSpec) -> None:
        """A spec of one operand and one result, which is the same."""
        raise NotImplementedError

    def loop(self, loop: WhileStep) -> None:
        """A `while`."""
        raise NotImplementedError

    def choice(self, choice: ConditionalStep) -> None:
        """A `conditional`."""
        raise NotImplementedError

    # ---- buffers

    def scratch(self, key: Hashable, nbytes: int) -> Location:
        """Scratch memory, until the key is released."""
        return Location("scratch", self._scratch_slot, self.assignment.allocate(key, nbytes))

    def temporary(self, nbytes: int) -> Location:
        """Scratch memory that is free again after the current step."""
        key = object()
        self._temporaries.append(key)
        return self.scratch(key, nbytes)

    def where(self, value: Value) -> Location:
        """Where a value lies; a constant's location has its bytes."""
        return location_of(self.binding(value, leaf(value)))

    def run_region(self, region: Region) -> None:
        """Emits the steps of a region; its results are kept."""
        self._emit(region.steps, region.results)

    def binding(self, value: Value, shape: Shape) -> Binding:
        """The place of a value, or the constant that it is, with that shape."""
        instruction = value[0]
        if instruction.opcode != "constant":
            return self.locations[value]
        if instruction.shape == shape:
            return instruction
        assert instruction.literal is not None
        literal = np.ascontiguousarray(instruction.literal).view(shape.numpy_dtype).reshape(shape.dims)
        return Instruction(instruction.name, "constant", shape, literal=literal)

    def _place_results(self) -> list[tuple[int, Value]]:
        """Gives computed results their buffers; what is left over must be copied there at the end."""
        computed = {output for step in self.schedule.steps for output in step.outputs}
        copies: list[tuple[int, Value]] = []
        first = len(self.parameter_shapes)
        for parameter in self.entry.parameters:
            assert parameter.parameter_number is not None
            self.locations[(parameter, 0)] = Location("parameter", parameter.parameter_number)
        for n, value in enumerate(self.schedule.results):
            if value in computed and value not in self.locations:
                self.locations[value] = Location("result", first + n)
            else:
                copies.append((n, value))
        self._place_updated({value for _, value in copies})
        return copies

    def _place_updated(self, copied: set[Value]) -> None:
        """What a window is replaced in, to give a result, is computed in the result's memory."""
        steps = self.schedule.steps
        maker = {output: step for step in steps for output in step.outputs}
        last_read = {value: k for k, step in enumerate(steps) for value in step.operands}
        for value in self.schedule.results:
            while (updated := replaced_in(maker.get(value), value)) is not None:
                step = maker[value]
                free = updated in maker and updated not in self.locations and updated not in copied
                if not free or steps[last_read[updated]] is not step or not step.in_place(0, updated):
                    break
                self.locations[updated] = self.locations[value]
                value = updated

    # ---- emission

    def plan(self, planner: Planner) -> None:
        """Finds the steps and their kernels."""
        self.schedule = Schedule(planner, self._module)

    def place(self) -> None:
        """Emits every step, with memory for what it makes."""
        copies = self._place_results()
        self._emit(self.schedule.steps, [value for _, value in copies], sequences=True)
        for n, value in copies:
            self._copy(n, value)
        self.aliases, self.read_before = input_output_aliases(
            self.entry.parameters,
            self.schedule,
            copies,
            self.result_shapes,
            self.locations,
            self._begun,
            self._read_beside,
            self._first_written,
        )

    def _emit(self, steps: Sequence[AnyStep], kept: Iterable[Value], sequences: bool = False) -> None:
        """The steps in order. Memory of what they make is free after its last reader, but of what is `kept`.

        `sequences`: some steps in a row may be one launch. Where the places of results are chosen by others, which
        know the order of the steps only, they may not.
        """
        made = {value for step in steps for value in step.outputs}
        last_use = {value: k for k, step in enumerate(steps) for value in (*step.outputs, *step.operands)}
        last_use.update({value: len(steps) for value in kept})
        dying: dict[int, list[Value]] = {}
        for value, k in last_use.items():
            if value in made:  # what comes from outside is another's
                dying.setdefault(k, []).append(value)
        self._find_parts(steps, last_use, whole_module=sequences)
        end = 0
        while end < len(steps):
            first, end = end, self._sequence_end(steps, end) if sequences else end + 1
            row = steps[first:end]
            for k, step in enumerate(row, first):
                self._place(k, step, dying.get(k, ()))
            if len(row) > 1:
                self.launch_sequence([(step, *self._bind(step)) for step in row if isinstance(step, KernelStep)])
            elif isinstance(row[0], WhileStep):
                self.loop(row[0])
            elif isinstance(row[0], ConditionalStep):
                self.choice(row[0])
            else:
                self.launch(row[0], *self._bind(row[0]))
            dead = [value for k in range(first, end) for value in dying.get(k, ())]
            self.assignment.release_all([*dead, *self._temporaries])
            self._temporaries.clear()

    def _sequence_end(self, steps: Sequence[AnyStep], first: int) -> int:
        """Where the steps end that are launched as one with this first one.

        None of them waits for another: no thread has to be done with what it reads when another one goes on. So what
        one writes others read at their own place only, and nothing is written over what one reads elsewhere.
        """
        read: set[Value] = set()
        written: set[Value] = set()
        end, key = first, None
        for step in steps[first : first + MAX_SEQUENCE]:
            about = self.sequential(step) if isinstance(step, KernelStep) else None
            if about is None or not isinstance(step, KernelStep) or key not in (None, about.key):
                break
            elsewhere = {step.operands[number] for number in about.elsewhere}
            if not elsewhere.isdisjoint(written) or not read.isdisjoint({*step.operands} - elsewhere):
                break
            key = about.key
            read |= elsewhere
            written.update(step.outputs)
            end += 1
        self._read_beside.update(dict.fromkeys(range(first, end), read))
        self._begun.update(dict.fromkeys(range(first, end), first))
        return max(end, first + 1)

    def _find_parts(self, steps: Sequence[AnyStep], last_use: Mapping[Value, int], *, whole_module: bool) -> None:
        """Finds what is made only to be put together with others: it is computed inside the whole, without a copy.

        The whole has its memory from its first part on. Where others have chosen that, it may hold something else then,
        unless it is a result of the module: what may lie there is known here.
        """
        made = {value for step in steps if isinstance(step, KernelStep) for value in step.outputs}
        for k, step in enumerate(steps):
            if not isinstance(step, KernelStep):
                continue
            for value, offset in step.parts:
                whole = step.outputs[0]
                chosen = self.locations.get(whole)
                if chosen is not None and not (whole_module and chosen.kind == "result"):
                    break
                if value in made and value not in self.locations and last_use[value] == k:
                    self._parts.setdefault(value, (whole, offset))

    def _inside(self, value: Value, k: int) -> Location:
        """Where a value lies that may be a part of another one; `k` is the step that makes it, or a part of it."""
        if value in self._parts:
            whole, offset = self._parts[value]
            outer = self._inside(whole, k)
            return replace(outer, offset=outer.offset + offset)
        if value not in self.locations:
            self.locations[value] = self.scratch(value, leaf(value).nbytes)
        if self.locations[value].kind == "result":
            self._first_written.setdefault(value, k)
        return self.locations[value]

    def _place(self, k: int, step: AnyStep, dying: Iterable[Value]) -> None:
        """Memory for what a step makes: that of an operand which it reads last, at the place that it writes, or new."""
        free = [v for v in dying if v in step.operands and self.assignment.holds(v)]
        for m, value in enumerate(step.outputs):
            if value in self.locations:
                continue
            if value in self._parts:
                self.locations[value] = self._inside(value, k)
                continue
            nbytes = leaf(value).nbytes
            over = next(
                (v for v in free if isinstance(step, KernelStep) and leaf(v).nbytes == nbytes and step.in_place(m, v)),
                None,
            )
            if over is None:
                self._note(value, [v for v in free if leaf(v).nbytes == nbytes])
                self.locations[value] = self.scratch(value, nbytes)
            else:
                free.remove(over)
                self.assignment.hand_over(over, value)
                self.locations[value] = self.locations[over]

    def _note(self, value: Value, dying: Sequence[Value]) -> None:
        if dying and value[0].opcode == "fusion":
            why = "it reads an operand of its size, that nothing reads later, elsewhere than where it writes"
            decision = Refused.OTHER_PLACE.because(why, leaf(value).nbytes)
            self.refusals.append(Refusal(value[0], dying[0][0], decision))

    def _bind(self, step: KernelStep) -> tuple[list[Binding], list[Location]]:
        """Where a step's operands and results are."""
        spec = step.spec
        spec.name = _symbol(spec.name)
        operands = [
            self.binding(v, p.array_shape) for v, p in zip(step.operands, spec.computation.parameters, strict=True)
        ]
        results = [self.locations[o] for o in step.outputs]
        # Not the shapes of the spec: a step of many sizes stands there with another one.
        read, written = map(leaf, step.operands), map(leaf, step.outputs)
        self._uses.append(
            BufferUse(spec.name, [*zip(operands, read, strict=True)], [*zip(results, written, strict=True)])
        )
        return operands, results

    def _copy(self, n: int, value: Value) -> None:
        """A result that is a parameter, a constant, or the same as another result."""
        shape = self.result_shapes[n]
        parameter = Instruction("x", "parameter", shape, parameter_number=0)
        spec = KernelSpec(
            "copy",
            Computation("copy", [parameter], parameter),
            [self.binding(value, shape)],
            [Location("result", len(self.parameter_shapes) + n)],
        )
        self._uses.append(BufferUse(spec.name, [(spec.operands[0], shape)], [(spec.results[0], shape)]))
        self.copy(spec)

    def buffers(self) -> str:
        """The buffer assignment, for people; after `place`."""
        size = self.assignment.size
        return buffer_text(self._name, self.parameter_shapes, self.result_shapes, self.aliases, size, self._uses)


def _symbol(name: str) -> str:
    """A name that can stand in quotes in LLVM text."""
    return re.sub(r"[^A-Za-z0-9_.$-]", "_", name)
