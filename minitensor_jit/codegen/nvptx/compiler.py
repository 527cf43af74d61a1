"""From an optimised module to a program for a GPU: plan the steps, assign buffers, emit LLVM text, make PTX of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ...ir.module import Module
from ...ir.size import active
from ...passes.convolution_canonicalization import ConvolutionCanonicalization
from ...passes.expander import Expander
from ...passes.loop_calls import LoopCalls
from ...passes.precision.narrow_types import NarrowTypes
from ...passes.target import GPU
from ...runtime.buffer_assignment import Location
from ...runtime.cuda.program import Branch, GpuProgram, GpuStep, GpuTarget, KernelLaunch, MemoryCopy, WhileLoop
from ..check import check_module
from ..control import ControlFlow
from ..emitter.types import PARTS
from ..errors import CompileError
from ..kernel_spec import Binding, KernelSpec, flops_of, source_ops
from ..llvm.ir_text import Module as LlvmModule
from ..module_emitter import Dump, ModuleEmitter
from ..schedule import ConditionalStep, KernelStep, WhileStep, leaf
from .kernels.loop_kernel import LoopKernels
from .math.functions import FUNCTIONS
from .planner import GpuPlanner
from .target_machine import LAYOUT, TRIPLE, ptx_of
from .unit import GpuUnit, Options

__all__ = ["Options", "compile_module"]


def compile_module(
    module: Module,
    *,
    name: str,
    target: GpuTarget,
    dump: Dump | None = None,
    fast_math: bool = False,
    profile: bool = False,
    options: Options | None = None,
    host_values: Collection[int] = (),
) -> GpuProgram:
    """Compiles a module for a GPU; raises `CompileError` if it has something without code.

    `host_values` are the numbers of parameters without dimensions whose values the host knows when it launches: kernels
    get them by value (`HostValue`). They need memory only where the program has an address in them (`addressed`).

    `dump(kind, text)` gets the LLVM IR (`ir-no-opt.ll`), the PTX (`ptx`), and where every array lies
    (`buffer-assignment.txt`).
    """
    started = time.perf_counter()
    if active.get() is not None:
        raise CompileError("parameter", "no code for dimensions of unknown size on this device")
    # For modules that come without the pipeline.
    for one in (
        ConvolutionCanonicalization(),
        Expander(GPU),
        NarrowTypes(keep_products=True),
        LoopCalls(),
    ):
        one.run(module)
    check_module(module, narrow_products=True)
    options = options or Options(fast_math=fast_math, profile=profile)
    program = _Program(module, name, target, options, host_values)
    program.place()
    text = str(program.unit.module)
    emitted = time.perf_counter()
    if dump is not None:
        dump("buffer-assignment.txt", program.buffers())
        dump("ir-no-opt.ll", text)
    ptx = ptx_of(text, target) if program.unit.kernels else ""
    if dump is not None:
        dump("ptx", ptx)
    return GpuProgram(
        name=name,
        target=target,
        ptx=ptx,
        steps=tuple(program.steps),
        parameter_shapes=tuple(program.parameter_shapes),
        result_shapes=tuple(program.result_shapes),
        scratch_bytes=program.assignment.size,
        constants=program.unit.constants.data(),
        aliases=program.aliases,
        read_before=program.read_before,
        instructions=dict(Counter(i.opcode for c in module.computations for i in c.instructions)),
        compile_seconds={"emit": emitted - started, "llvm": time.perf_counter() - emitted},
    )


class _Program(ModuleEmitter):
    """One module on its way to LLVM text and steps."""

    def __init__(
        self, module: Module, name: str, target: GpuTarget, options: Options, host_values: Collection[int]
    ) -> None:
        super().__init__(module, name)
        self.steps: list[GpuStep] = []
        constants_slot = len(self.parameter_shapes) + len(self.result_shapes) + 1
        by_value = {
            k: self.parameter_shapes[k].itemsize
            for k in host_values
            if not self.parameter_shapes[k].dims and self.parameter_shapes[k].dtype not in PARTS
        }
        self.unit = GpuUnit(LlvmModule(name, TRIPLE, LAYOUT), target, options, constants_slot, by_value)
        self.unit.module.inline = FUNCTIONS
        if options.fast_math:
            self.unit.module.float_flags = " contract"
        self.plan(GpuPlanner(self.unit, self.entry.parameters))
        self._control = _Control(self)

    def launch(self, step: KernelStep, operands: list[Binding], results: list[Location]) -> None:
        """The steps of a plan; its kernels are emitted when it is met first."""
        step.spec.operands, step.spec.results = operands, results
        code = self.unit.emit(step.plan, step.spec)
        temporaries = [self.temporary(nbytes) for nbytes in code.temporaries]
        made = self.unit.steps(code, step.spec.name, operands, results, temporaries)
        if self.unit.options.profile:
            about: dict[str, Any] = {"ops": source_ops(step.spec)}
            if len(made) == 1:  # of the kernels of several steps it is known what they do themselves only
                about["operations"] = flops_of(step.spec)
            made = [replace(one, **about) if isinstance(one, KernelLaunch) else one for one in made]
        self.steps += made

    def copy(self, spec: KernelSpec) -> None:
        """A copy of memory, or, of a constant, a kernel that writes it."""
        binding, (target,) = spec.operands[0], spec.results
        nbytes = spec.computation.root.array_shape.nbytes
        if isinstance(binding, Location):
            self.copy_memory(binding, target, nbytes)
            return
        code = self.unit.emit(LoopKernels(self.unit, spec), spec)
        self.steps += self.unit.steps(code, "copy", spec.operands, spec.results, [])

    def copy_memory(self, source: Location, target: Location, nbytes: int) -> None:
        """A copy, unless the places are the same."""
        if nbytes and source != target:
            self.steps.append(MemoryCopy(self.unit.address(target), self.unit.address(source), nbytes))

    def loop(self, loop: WhileStep) -> None:
        """A loop whose predicate the host reads."""
        self._control.loop(loop)

    def choice(self, choice: ConditionalStep) -> None:
        """A branch whose index the host reads."""
        self._control.choice(choice)


class _Control(ControlFlow):
    """Makes steps with steps inside."""

    def __init__(self, program: _Program) -> None:
        super().__init__(
            locations=program.locations,
            where=program.where,
            run=program.run_region,
            reserve=program.scratch,
            release=program.assignment.release_all,
        )
        self._program = program

    def copy(self, source: Location, target: Location, nbytes: int) -> None:
        """Emits a copy, unless the places are the same."""
        self._program.copy_memory(source, target, nbytes)

    def loop(self, loop: WhileStep) -> None:
        """A `while`."""
        program = self._program
        self.begin(loop)
        outside, program.steps = program.steps, []
        self.run(loop.condition)
        predicate = program.unit.address(self.where(loop.condition.results[0]))
        self.forget(loop.condition)
        condition, program.steps = program.steps, []
        self.iterate(loop)
        body, program.steps = program.steps, outside
        program.steps.append(WhileLoop(tuple(condition), predicate, tuple(body)))

    def choice(self, choice: ConditionalStep) -> None:
        """A `conditional`."""
        program = self._program
        index = program.unit.address(self.where(choice.index))
        outside = program.steps
        branches = []
        for region in choice.regions:
            program.steps = []
            self.branch(choice, region)
            branches.append(tuple(program.steps))
        program.steps = outside
        program.steps.append(Branch(index, leaf(choice.index).dtype == "pred", tuple(branches)))
