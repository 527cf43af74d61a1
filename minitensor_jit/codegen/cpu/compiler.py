"""From an optimised module to machine code: plan the steps, assign buffers, emit, compile, load."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext

import numpy as np

from ...ir.module import Computation, Instruction, Module
from ...ir.shape import Shape, leaves
from ...passes.expander import Expander
from ...passes.loop_calls import LoopCalls
from ...passes.narrow_types import NarrowTypes
from ...runtime.buffer_assignment import BufferAssignment, Location
from ...runtime.executable import Executable
from ...runtime.kernel_counters import ModuleCounters
from ...runtime.loaded_code import LoadedCode
from ..check import check_module
from ..llvm import Module as LlvmModule
from .buffer_text import BufferUse, buffer_text
from .control import Control
from .loop_kernel import LoopKernels
from .schedule import AnyStep, Choice, Loop, Schedule, Step, Value, leaf
from .shared import SharedSteps
from .stopwatch import Stopwatch
from .target import CpuTarget, host_target
from .unit import Binding, Options, Plan, Task, Unit

__all__ = ["Options", "compile_module"]

Dump = Callable[[str, str], None]

ENTRY = "entry"


def compile_module(
    module: Module,
    *,
    name: str,
    num_threads_hint: int = 2,
    fast_math: bool = False,
    profile: bool = False,
    dump: Dump | None = None,
    options: Options | None = None,
    target: CpuTarget | None = None,
) -> Executable:
    """Compiles a module for this machine; raises `CompileError` if it has something without code.

    `dump(kind, text)` gets the LLVM IR before and after the passes (`ir-no-opt.ll`, `ir-with-opt.ll`), the assembly
    (`s`), and where every array lies (`buffer-assignment.txt`).
    """
    started = time.perf_counter()
    for one in (Expander(), NarrowTypes(), LoopCalls()):  # for modules that come without the pipeline
        one.run(module)
    check_module(module)
    target = target or host_target()
    options = options or Options(fast_math=fast_math, threads=num_threads_hint, profile=profile)
    program = _Program(module, name, target, options)
    text = program.emit()
    emitted = time.perf_counter()
    if dump is not None:
        dump("buffer-assignment.txt", program.buffers())
        dump("ir-no-opt.ll", text)
    code = target.compile(text, dump=dump)
    compiled = time.perf_counter()
    loaded = LoadedCode(code, ENTRY, program.unit.module.imports)
    return Executable(
        name=name,
        parameter_shapes=program.parameter_shapes,
        result_shapes=program.result_shapes,
        scratch_bytes=program.assignment.size,
        aliases=program.aliases,
        object_code=code,
        imports=tuple(program.unit.module.imports),
        code=loaded,
        kernels=program.unit.kernels,
        counters=program.counters,
        instructions=dict(Counter(i.opcode for c in module.computations for i in c.instructions)),
        compile_seconds={
            "emit": emitted - started,
            "llvm": compiled - emitted,
            "load": time.perf_counter() - compiled,
        },
    )


class _Program:
    """One module on its way to LLVM text."""

    def __init__(self, module: Module, name: str, target: CpuTarget, options: Options) -> None:
        self.entry = module.entry
        self.parameter_shapes = [p.array_shape for p in module.entry.parameters]
        self.result_shapes = leaves(module.entry.root.shape)
        self.assignment = BufferAssignment()
        self.unit = Unit(LlvmModule(name, target.triple, target.layout), target, options, self._temporary)
        if options.fast_math:
            # Fused multiply-adds. Reassociation would break the rounding tricks of the transcendental functions.
            self.unit.module.float_flags = " contract"
        self.schedule = Schedule(self.unit, module)
        self._shared = SharedSteps(self.unit)
        self._name = name
        self._uses: list[BufferUse] = []
        self._stopwatch = Stopwatch(self.unit, name) if options.profile else None
        self._locations: dict[Value, Location] = {}
        self._temporaries: list[Hashable] = []
        self._scratch_slot = len(self.parameter_shapes) + len(self.result_shapes)
        self._control = Control(
            unit=self.unit,
            locations=self._locations,
            where=lambda value: self.unit.location(self._binding(value, leaf(value))),
            run=lambda region: self._emit(region.steps, region.results),
            reserve=self._scratch,
            release=self.assignment.release_all,
        )

    @property
    def counters(self) -> ModuleCounters | None:
        """What the code counts about itself."""
        return None if self._stopwatch is None else self._stopwatch.counters

    # ---- buffers

    def _scratch(self, key: Hashable, nbytes: int) -> Location:
        return Location("scratch", self._scratch_slot, self.assignment.allocate(key, nbytes))

    def _temporary(self, nbytes: int) -> Location:
        key = object()
        self._temporaries.append(key)
        return self._scratch(key, nbytes)

    def _place_results(self) -> list[tuple[int, Value]]:
        """Gives computed results their buffers; what is left over must be copied there at the end."""
        computed = {output for step in self.schedule.steps for output in step.outputs}
        copies: list[tuple[int, Value]] = []
        first = len(self.parameter_shapes)
        for parameter in self.entry.parameters:
            assert parameter.parameter_number is not None
            self._locations[(parameter, 0)] = Location("parameter", parameter.parameter_number)
        for n, value in enumerate(self.schedule.results):
            if value in computed and value not in self._locations:
                self._locations[value] = Location("result", first + n)
            else:
                copies.append((n, value))
        return copies

    def _binding(self, value: Value, shape: Shape) -> Binding:
        instruction = value[0]
        if instruction.opcode != "constant":
            return self._locations[value]
        if instruction.shape == shape:
            return instruction
        assert instruction.literal is not None
        literal = np.ascontiguousarray(instruction.literal).view(shape.numpy_dtype).reshape(shape.dims)
        return Instruction(instruction.name, "constant", shape, literal=literal)

    # ---- emission

    def emit(self) -> str:
        """The text of the whole module."""
        copies = self._place_results()
        with self._stopwatch.whole() if self._stopwatch is not None else nullcontext():
            self._emit(self.schedule.steps, [value for _, value in copies])
            for n, value in copies:
                self._copy(n, value)
        self.aliases = self._aliases(copies)
        return self.unit.finish()

    def _emit(self, steps: Sequence[AnyStep], kept: Iterable[Value]) -> None:
        """The steps in order. Memory of what they make is free after its last reader, but of what is `kept`."""
        made = {value for step in steps for value in step.outputs}
        last_use = {value: k for k, step in enumerate(steps) for value in (*step.outputs, *step.operands)}
        last_use.update({value: len(steps) for value in kept})
        dying: dict[int, list[Value]] = {}
        for value, k in last_use.items():
            if value in made:  # what comes from outside is another's
                dying.setdefault(k, []).append(value)
        for k, step in enumerate(steps):
            self._place(step, dying.get(k, ()))
            if isinstance(step, Loop):
                self._control.loop(step)
            elif isinstance(step, Choice):
                self._control.choice(step)
            else:
                self._launch(step)
            self.assignment.release_all([*dying.get(k, ()), *self._temporaries])
            self._temporaries.clear()

    def _place(self, step: AnyStep, dying: Iterable[Value]) -> None:
        """Memory for what a step makes: that of an operand which it reads last, at the place that it writes, or new."""
        free = [v for v in dying if v in step.operands and self.assignment.holds(v)]
        for m, value in enumerate(step.outputs):
            if value in self._locations:
                continue
            nbytes = leaf(value).nbytes
            over = next(
                (v for v in free if isinstance(step, Step) and leaf(v).nbytes == nbytes and step.in_place(m, v)), None
            )
            if over is None:
                self._locations[value] = self._scratch(value, nbytes)
            else:
                free.remove(over)
                self.assignment.hand_over(over, value)
                self._locations[value] = self._locations[over]

    def _launch(self, step: Step) -> None:
        task = step.task
        task.name = _symbol(task.name)
        operands = [
            self._binding(v, p.array_shape) for v, p in zip(step.operands, task.computation.parameters, strict=True)
        ]
        results = [self._locations[o] for o in step.outputs]
        # Not the shapes of the task: a step of many sizes stands there with another one.
        read, written = map(leaf, step.operands), map(leaf, step.outputs)
        self._uses.append(
            BufferUse(task.name, [*zip(operands, read, strict=True)], [*zip(results, written, strict=True)])
        )
        if self.schedule.plans.is_shared(step.plan):
            self._shared.launch(step.plan, task, operands, results, leaf(step.outputs[0]).size)
        else:
            task.operands, task.results = operands, results
            self._kernel(task, step.plan)

    def buffers(self) -> str:
        """The buffer assignment, for people; after `emit`."""
        size = self.assignment.size
        return buffer_text(self._name, self.parameter_shapes, self.result_shapes, self.aliases, size, self._uses)

    def _kernel(self, task: Task, plan: Plan) -> None:
        if self._stopwatch is None:
            plan.emit()
            return
        with self._stopwatch.kernel(task, type(plan).__name__):
            plan.emit()

    def _copy(self, n: int, value: Value) -> None:
        """A result that is a parameter, a constant, or the same as another result."""
        parameter = Instruction("x", "parameter", self.result_shapes[n], parameter_number=0)
        task = Task(
            "copy",
            Computation("copy", [parameter], parameter),
            [self._binding(value, self.result_shapes[n])],
            [Location("result", len(self.parameter_shapes) + n)],
        )
        shape = self.result_shapes[n]
        self._uses.append(BufferUse(task.name, [(task.operands[0], shape)], [(task.results[0], shape)]))
        self._kernel(task, LoopKernels(self.unit, task))

    def _aliases(self, copies: list[tuple[int, Value]]) -> frozenset[tuple[int, int]]:
        """Which results may be written over which parameters: nothing may read the parameter afterwards."""
        steps, copied = self.schedule.steps, {value for _, value in copies}
        maker = {output: (k, m) for k, step in enumerate(steps) for m, output in enumerate(step.outputs)}
        last_read = {value: k for k, step in enumerate(steps) for value in step.operands}
        left_over = {n for n, _ in copies}
        fitting: dict[int, list[tuple[int, int, int]]] = {}  # by bytes: the result, its step, which output
        for n, result in enumerate(self.schedule.results):
            if n not in left_over:
                fitting.setdefault(self.result_shapes[n].nbytes, []).append((n, *maker[result]))
        found: set[tuple[int, int]] = set()
        for parameter in self.entry.parameters:
            value: Value = (parameter, 0)
            number = parameter.parameter_number
            if value in copied or number is None:
                continue
            for n, k, m in fitting.get(self.parameter_shapes[number].nbytes, ()):
                if last_read.get(value, -1) <= k and steps[k].in_place(m, value):
                    found.add((n, number))
        return frozenset(found)


def _symbol(name: str) -> str:
    """A name that can stand in quotes in LLVM text."""
    return re.sub(r"[^A-Za-z0-9_.$-]", "_", name)
