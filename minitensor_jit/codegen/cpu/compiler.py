"""From an optimised module to machine code: plan the steps, assign buffers, emit, compile, load."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext

from ...ir.module import Module
from ...passes.convolution_canonicalization import ConvolutionCanonicalization
from ...passes.expander import Expander
from ...passes.loop_calls import LoopCalls
from ...passes.precision.narrow_types import NarrowTypes
from ...runtime.buffer_assignment import Location
from ...runtime.executable import Executable, Interface
from ...runtime.kernel_counters import ModuleCounters
from ...runtime.loaded_code import LoadedCode
from ..check import check_module
from ..kernel_spec import Binding, KernelPlan, KernelSpec, Sequential
from ..llvm.ir_text import Module as LlvmModule
from ..module_emitter import Dump, ModuleEmitter
from ..schedule import ConditionalStep, KernelStep, WhileStep, leaf
from .control import Control
from .kernels.dot import emit_products
from .kernels.loop_kernel import LoopKernels
from .planner import CpuPlanner
from .shared import SharedSteps
from .stopwatch import Stopwatch
from .target_machine import CpuTarget, host_target
from .unit import Options, Unit

__all__ = ["Options", "compile_module", "place_module"]

ENTRY = "entry"


def compile_module(
    module: Module,
    *,
    name: str,
    num_threads_hint: int = 2,
    fast_math: bool = False,
    profile: bool = False,
    dump: Dump | None = None,
    annotated: bool = False,
    options: Options | None = None,
    target: CpuTarget | None = None,
) -> Executable:
    """Compiles a module for this machine; raises `CompileError` if it has something without code.

    `dump(kind, text)` gets the LLVM IR before and after the passes (`ir-no-opt.ll`, `ir-with-opt.ll`), the assembly
    (`s`), and where every array lies (`buffer-assignment.txt`). `annotated`: with the HLO instruction behind each line.
    """
    started = time.perf_counter()
    target = target or host_target()
    options = options or Options(
        fast_math=fast_math, threads=num_threads_hint, profile=profile, annotated=annotated and dump is not None
    )
    program, text = _emitted(module, name, target, options)
    emitted = time.perf_counter()
    if dump is not None:
        dump("buffer-assignment.txt", program.buffers())
        dump("ir-no-opt.ll", text)
    code = target.compile(text)
    compiled = time.perf_counter()
    loaded = LoadedCode(code, ENTRY, program.unit.module.imports)
    seconds = {"emit": emitted - started, "llvm": compiled - emitted, "load": time.perf_counter() - compiled}
    if dump is not None:
        target.dump(text, dump)
        seconds["dump"] = time.perf_counter() - started - sum(seconds.values())
    return Executable(
        name=name,
        interface=Interface(program.parameter_shapes, program.result_shapes, program.aliases, program.read_before),
        scratch_bytes=program.assignment.size,
        object_code=code,
        imports=tuple(program.unit.module.imports),
        code=loaded,
        kernels=program.unit.kernels,
        counters=program.counters,
        instructions=dict(Counter(i.opcode for c in module.computations for i in c.instructions)),
        compile_seconds=seconds,
    )


def place_module(module: Module, *, name: str, fast_math: bool = False, num_threads_hint: int = 2) -> ModuleEmitter:
    """Where the arrays of a module would lie: all of `compile_module` but LLVM's part."""
    options = Options(fast_math=fast_math, threads=num_threads_hint, profile=False)
    return _emitted(module, name, host_target(), options)[0]


def _emitted(module: Module, name: str, target: CpuTarget, options: Options) -> tuple[_Program, str]:
    # For modules that come without the pipeline.
    for one in (ConvolutionCanonicalization(), Expander(), NarrowTypes(), LoopCalls()):
        one.run(module)
    check_module(module)
    program = _Program(module, name, target, options)
    return program, program.emit()


class _Program(ModuleEmitter):
    """One module on its way to LLVM text."""

    def __init__(self, module: Module, name: str, target: CpuTarget, options: Options) -> None:
        super().__init__(module, name)
        self.unit = Unit(LlvmModule(name, target.triple, target.layout), target, options, self.temporary)
        if options.fast_math:
            # Fused multiply-adds. Reassociation would break the rounding tricks of the transcendental functions.
            self.unit.module.float_flags = " contract"
        self.plan(CpuPlanner(self.unit))
        self._shared = SharedSteps(self.unit)
        self._stopwatch = Stopwatch(self.unit, name) if options.profile else None
        self._control = Control(
            unit=self.unit,
            locations=self.locations,
            where=self.where,
            run=self.run_region,
            reserve=self.scratch,
            release=self.assignment.release_all,
        )

    @property
    def counters(self) -> ModuleCounters | None:
        """What the code counts about itself."""
        return None if self._stopwatch is None else self._stopwatch.counters

    def emit(self) -> str:
        """The text of the whole module."""
        with self._stopwatch.whole() if self._stopwatch is not None else nullcontext():
            self.place()
        return self.unit.finish()

    def launch(self, step: KernelStep, operands: list[Binding], results: list[Location]) -> None:
        """Emits a step, or a call of the code that it shares with others."""
        spec = step.spec
        if self.schedule.plans.is_shared(step.plan):
            self._shared.launch(step.plan, spec, operands, results, leaf(step.outputs[0]).size)
        else:
            spec.operands, spec.results = operands, results
            self._kernel(spec, step.plan)

    def sequential(self, step: KernelStep) -> Sequential | None:
        """Of products, unless each is measured."""
        return getattr(step.plan, "sequential", None) if self._stopwatch is None else None

    def launch_sequence(self, steps: Sequence[tuple[KernelStep, list[Binding], list[Location]]]) -> None:
        """Emits one call for several products."""
        about = self.sequential(steps[0][0])
        assert about is not None
        note = self.unit.module.annotate(steps[0][0].spec.name)
        emit_products(self.unit, about.key, [(operands, results[0]) for _, operands, results in steps])
        self.unit.module.note = note

    def copy(self, spec: KernelSpec) -> None:
        """Emits a loop that copies."""
        self._kernel(spec, LoopKernels(self.unit, spec))

    def loop(self, loop: WhileStep) -> None:
        """Emits blocks of the entry."""
        self._control.loop(loop)

    def choice(self, choice: ConditionalStep) -> None:
        """Emits blocks of the entry."""
        self._control.choice(choice)

    def _kernel(self, spec: KernelSpec, plan: KernelPlan) -> None:
        note = self.unit.module.annotate(spec.name)
        with self._stopwatch.kernel(spec, type(plan).__name__) if self._stopwatch is not None else nullcontext():
            plan.emit()
        self.unit.module.note = note
