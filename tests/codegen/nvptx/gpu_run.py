"""Runs GPU programs in the emulator, step by step, over memory of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from ptx.machine import Machine, Memory
from runtime_table import agree, values

from minitensor import _C
from minitensor_jit.codegen.cpu.compiler import compile_module as compile_for_cpu
from minitensor_jit.codegen.nvptx.compiler import Options, compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.cuda.program import (
    Address,
    Branch,
    GpuProgram,
    GpuTarget,
    HostCall,
    HostValue,
    KernelLaunch,
    MemoryCopy,
    MemoryFill,
    Scalar,
    WhileLoop,
)

TARGET = GpuTarget.of("sm_80", multiprocessors=2)
"""Few multiprocessors, so that small arrays take the paths of large ones."""


class Runner:
    """One run of a program: buffers in device memory, each with its own bounds."""

    def __init__(self, program: GpuProgram, args: Sequence[np.ndarray], *, measure: bool = False) -> None:
        self.program = program
        self.memory = Memory()
        self.machine = Machine(program.ptx, measure=measure) if program.ptx else None
        self.launches: list[KernelLaunch] = []
        shapes = program.parameter_shapes
        assert [(s.dims, s.numpy_dtype) for s in shapes] == [(a.shape, a.dtype) for a in args]
        self.slots = [self.upload(np.ascontiguousarray(a).tobytes()) for a in args]
        self.slots += [self.memory.allocate(max(1, s.nbytes)) for s in program.result_shapes]
        self.slots.append(self.memory.allocate(max(1, program.scratch_bytes)))
        self.slots.append(self.upload(program.constants))

    def upload(self, data: bytes) -> int:
        at = self.memory.allocate(max(1, len(data)))
        self.memory.write(at, data)
        return at

    def results(self) -> list[np.ndarray]:
        self.run(self.program.steps)
        first = len(self.program.parameter_shapes)
        return [self.read(Address(first + k), s) for k, s in enumerate(self.program.result_shapes)]

    def address(self, at: Address) -> int:
        return self.slots[at.slot] + at.offset

    def read(self, at: Address, shape: Shape) -> np.ndarray:
        raw = self.memory.read(self.address(at), shape.nbytes)
        return np.frombuffer(raw, shape.numpy_dtype).reshape(shape.dims).copy()

    def run(self, steps) -> None:
        for step in steps:
            self.step(step)

    def step(self, step) -> None:
        if isinstance(step, KernelLaunch):
            self.launches.append(step)
            assert self.machine is not None
            raw = b""
            for a in step.arguments:
                if isinstance(a, HostValue):
                    shape = self.program.parameter_shapes[a.slot]
                    raw += bytes(-len(raw) % a.nbytes) + self.memory.read(self.slots[a.slot], shape.nbytes)
                elif isinstance(a, Scalar):
                    raw += bytes(-len(raw) % a.nbytes) + (a.value % (1 << 8 * a.nbytes)).to_bytes(a.nbytes, "little")
                else:
                    raw += bytes(-len(raw) % 8) + self.address(a).to_bytes(8, "little")
            self.machine.launch(step.kernel, step.grid, step.block, step.shared_bytes, raw, self.memory)
        elif isinstance(step, MemoryCopy):
            self.memory.write(self.address(step.target), self.memory.read(self.address(step.source), step.nbytes))
        elif isinstance(step, MemoryFill):
            data = (step.value % (1 << 8 * step.nbytes)).to_bytes(step.nbytes, "little") * step.count
            self.memory.write(self.address(step.target), data)
        elif isinstance(step, HostCall):
            given = [self.read(at, shape) for at, shape in step.operands]
            made = evaluate(parse_module(step.text), given)
            for (at, shape), one in zip(step.results, made, strict=True):
                self.memory.write(self.address(at), np.asarray(one, shape.numpy_dtype).tobytes())
        elif isinstance(step, WhileLoop):
            while True:
                self.run(step.condition)
                if not self.memory.read(self.address(step.predicate), 1)[0]:
                    return
                self.run(step.body)
        elif isinstance(step, Branch):
            if step.is_pred:
                number = 0 if self.memory.read(self.address(step.index), 1)[0] else 1
            else:
                number = int(np.frombuffer(self.memory.read(self.address(step.index), 4), np.int32)[0])
                number = number if 0 <= number < len(step.branches) else len(step.branches) - 1
            self.run(step.branches[number])


def compile_for_gpu(module: Module, target: GpuTarget = TARGET, **options) -> GpuProgram:
    return compile_module(
        module, name=module.name, target=target, options=Options(**{"least_vector_elements": 0, **options})
    )


def run_on_gpu(module: Module, args: Sequence[np.ndarray], target: GpuTarget = TARGET, **options) -> list[np.ndarray]:
    return Runner(compile_for_gpu(module, target, **options), args).results()


def run_on_cpu(module: Module, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the CPU's code with the core's runtime."""
    executable = compile_for_cpu(module, name=module.name)
    results = [np.empty(s.dims, s.numpy_dtype) for s in executable.result_shapes]
    scratch = np.empty(executable.scratch_bytes + 64, np.uint8)
    given = [np.ascontiguousarray(a) for a in args]
    at = scratch.ctypes.data
    addresses = [a.ctypes.data for a in (*given, *results)] + [at + -at % 64]
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(executable.entry_address)
    try:
        assert entry((ctypes.c_void_p * len(addresses))(*addresses), _C.runtime_address()) == 0
    finally:
        executable.close()
    return results


def check(
    build, *shapes: Shape, args=None, fused: bool = True, only_fused: bool = False, host: bool = False, **options
) -> list[np.ndarray]:
    """Compiles `build(builder, *parameters)`, as it is and after the passes; both give the bits of the CPU's code."""
    builder = Builder("test")
    module = builder.build(build(builder, *[builder.parameter(s) for s in shapes]))
    given = [values(s, seed) for seed, s in enumerate(shapes)] if args is None else [np.asarray(a) for a in args]
    wanted = run_on_cpu(module.clone(), given)
    versions = [] if only_fused else [module]
    if fused or only_fused:
        versions.append(run_pipeline(module.clone()))
    for version in versions:
        program = compile_for_gpu(version, **options)
        if not host:
            called = [s for s in program.all_steps() if isinstance(s, HostCall)]
            assert not called, f"the host computes {called[0].text}"
        got = Runner(program, given).results()
        for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
            assert agree(g, np.asarray(w)), f"result {k} of\n{version}\nis\n{g}\nexpected\n{w}"
    return got
