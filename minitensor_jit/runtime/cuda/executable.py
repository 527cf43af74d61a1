"""A module that was compiled for GPUs, and how it is run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitensor._C import cuda_stream as current_number
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.runtime.cuda import modules, profile, streams
from minitensor_jit.runtime.cuda.context import (
    check,
    current_device,
    enter,
    failure,
    let_go,
    recent_launches,
)
from minitensor_jit.runtime.cuda.driver import driver
from minitensor_jit.runtime.cuda.kernel_launch import Bind, Call, Launch, copy, fill, resolve
from minitensor_jit.runtime.cuda.program import (
    Branch,
    GpuProgram,
    GpuStep,
    HostCall,
    HostValue,
    KernelLaunch,
    MemoryCopy,
    MemoryFill,
    WhileLoop,
)
from minitensor_jit.runtime.kernel_counters import ModuleCounters

__all__ = ["GpuExecutable", "LoadedProgram"]

_ALIGNMENT = 512
"""What stands behind the scratch memory begins at a multiple of it, as in `csrc/trace/plan/gpu_program_step.cpp`."""

_PREPARED = 64
"""So many sets of addresses are remembered with the calls that are made with them."""


@dataclass(eq=False)
class GpuExecutable:
    """A program, and its modules on the GPUs that have run it."""

    program: GpuProgram
    cubin: bytes = b""
    """What the driver's assembler made of the PTX; empty where there is none."""
    counters: ModuleCounters | None = None
    """What runs are counted in, with `--hlo_profile`."""
    compile_seconds: Mapping[str, float] = field(default_factory=dict)
    on_gpus: dict[int, LoadedProgram] = field(default_factory=dict, repr=False)

    entry_address = 0
    imports = ()

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.program.name

    @property
    def parameter_shapes(self) -> Sequence[Shape]:
        """The parameters' types and dimensions."""
        return self.program.parameter_shapes

    @property
    def result_shapes(self) -> Sequence[Shape]:
        """The results' types and dimensions."""
        return self.program.result_shapes

    @property
    def scratch_bytes(self) -> int:
        """How much memory it needs besides."""
        return self.program.scratch_bytes

    @property
    def aliases(self) -> frozenset[tuple[int, int]]:
        """(result, parameter) that may lie over each other."""
        return self.program.aliases

    @property
    def read_before(self) -> frozenset[tuple[int, int]]:
        """(result, parameter) of which the parameter has been read when the result is written."""
        return self.program.read_before

    @property
    def kernels(self) -> int:
        """How many kernels there are."""
        return self.program.kernels

    @property
    def instructions(self) -> Mapping[str, int]:
        """How many HLO instructions of each opcode went into it."""
        return self.program.instructions

    @property
    def object_code(self) -> bytes:
        """What is loaded."""
        return self.cubin or self.program.ptx.encode()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return 2 * len(self.program.ptx) + len(self.cubin) + 4096

    def on(self, index: int) -> LoadedProgram:
        """The program on a GPU, which must be one that it was compiled for."""
        loaded = self.on_gpus.get(index)
        if loaded is None:
            loaded = self.on_gpus[index] = LoadedProgram(self, index)
        return loaded

    def run_on_arrays(self, args: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The results for these arguments, on the GPU that it was first loaded on, or the current one."""
        index = next(iter(self.on_gpus), current_device())
        enter(index)
        d = driver()
        tail = -(-self.scratch_bytes // _ALIGNMENT) * _ALIGNMENT
        sizes = [shape.nbytes for shape in (*self.parameter_shapes, *self.result_shapes)]
        blocks = [check(index, "allocating memory", d.mem_alloc, max(size, 1)) for size in (*sizes, tail + 1)]
        try:
            for block, arg in zip(blocks, args, strict=False):
                if arg.nbytes:
                    d.memcpy_htod(int(block), np.ascontiguousarray(arg).reshape(-1).view(np.uint8))
            loaded = self.on(index)
            values = [int.from_bytes(np.asarray(args[slot]).tobytes(), "little") for slot in loaded.by_value]
            loaded(tuple(map(int, blocks)), b"", values)
            streams.synchronize(index)
            results = []
            for block, shape in zip(blocks[len(args) :], self.result_shapes, strict=False):
                data = np.empty(shape.nbytes, np.uint8)
                if shape.nbytes:
                    d.memcpy_dtoh(data, int(block))
                results.append(data.view(shape.numpy_dtype).reshape(shape.dims))
            return results
        finally:
            for block in blocks:
                block.free()

    def close(self) -> None:
        """Forget the loaded modules."""
        self.on_gpus.clear()


class LoadedProgram:
    """A program on one GPU: its launches are prepared, and only addresses are filled in."""

    def __init__(self, executable: GpuExecutable, index: int) -> None:
        self.program = program = executable.program
        self.index = index
        self.counters = executable.counters
        enter(index)
        self._module = modules.load(index, executable) if program.ptx else None
        self._functions: dict[str, Any] = {}
        self._constants = None
        self._constants_address = 0
        if program.constants:
            self._constants = check(index, "allocating memory", driver().mem_alloc, len(program.constants))
            self._constants_address = int(self._constants)
            check(index, "a copy to the GPU", driver().memcpy_htod, self._constants_address, program.constants)
        self._tail = -(-program.scratch_bytes // _ALIGNMENT) * _ALIGNMENT
        self._slot = program.scratch_slot
        # Values that are passed by value have places of their own behind those of the buffers.
        self.by_value = {
            argument.slot: argument.nbytes
            for step in program.all_steps()
            if isinstance(step, KernelLaunch)
            for argument in step.arguments
            if isinstance(argument, HostValue)
        }
        self._value_slots = {slot: program.constants_slot + 1 + k for k, slot in enumerate(self.by_value)}
        self._steps = [self._prepare(step) for step in program.steps]
        self._prepared: dict[tuple[int, ...], list[Call]] = {}
        self._recent = recent_launches(index)
        self._blocking = os.environ.get("MT_CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")

    def __del__(self, let_go: Callable[..., None] = let_go) -> None:
        let_go(self.index, dict(self.__dict__))

    def bound(self, host: Sequence[int]) -> Callable[[tuple[int, ...], bytes], None]:
        """What a plan calls: `host` are the numbers of the parameters whose values the host knows."""
        return _Bound(self, host)

    def __call__(self, addresses: tuple[int, ...], known: bytes, values: Sequence[int] = ()) -> None:
        """Give the program to the current stream.

        `addresses` are those of the parameters, the results and the scratch memory. `known` has the values of
        parameters that the host knows, put behind the scratch memory; `values` are those that are passed by value.
        """
        index = self.index
        enter(index)
        number = current_number(index)
        stream = streams.stream_object(index, number) if number else None
        slots = (*addresses, self._constants_address, *values) if values else (*addresses, self._constants_address)
        self._recent.append(self.program.name)
        if known:
            target = slots[self._slot] + self._tail
            check(index, self.program.name, driver().memcpy_htod_async, target, known, stream)
        if self.counters is not None or profile.active():
            self._run_timed(slots, stream)
        else:
            # The cache of memory gives a program that runs again and again the same places.
            calls = self._prepared.get(slots)
            if calls is None:
                calls = self._bind(slots)
            try:
                for call, arguments in calls:
                    call(*arguments, stream)
            except driver().Error as error:
                raise failure(index, f"{self.program.name}, or a launch before it,", error) from error
        if self._blocking:
            streams.synchronize(index)

    def _bind(self, slots: tuple[int, ...]) -> list[Call]:
        if len(self._prepared) >= _PREPARED:
            self._prepared.clear()
        calls = self._prepared[slots] = [bind(slots) for bind in self._steps]
        return calls

    def _run_timed(self, slots: Sequence[int], stream: Any) -> None:
        with profile.program(self, stream) as timing:
            for step in self._steps:
                timing.step(step, slots)

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            assert self._module is not None
            self._functions[name] = check(self.index, f"loading {name}", self._module.get_function, name)
        return self._functions[name]

    def _prepare(self, step: GpuStep) -> Bind:
        if isinstance(step, KernelLaunch):
            return Launch(self._function(step.kernel), step, self._value_slots)
        if isinstance(step, MemoryCopy):
            return copy(step)
        if isinstance(step, MemoryFill):
            return fill(step)
        if isinstance(step, HostCall):
            return _HostStep(step, self.index)
        if isinstance(step, WhileLoop):
            return self._loop(step)
        return self._branch(step)

    def _loop(self, step: WhileLoop) -> Bind:
        condition = [self._prepare(one) for one in step.condition]
        body = [self._prepare(one) for one in step.body]
        where = resolve(step.predicate)
        gpu = self.index

        def run(slots: Sequence[int], stream: Any) -> None:
            again, turn, predicate = [bind(slots) for bind in condition], [bind(slots) for bind in body], where(slots)
            while True:
                for call, arguments in again:
                    call(*arguments, stream)
                if not _read(gpu, predicate, 1, stream)[0]:
                    return
                for call, arguments in turn:
                    call(*arguments, stream)

        return lambda slots: (run, (slots,))

    def _branch(self, step: Branch) -> Bind:
        branches = [[self._prepare(one) for one in branch] for branch in step.branches]
        where = resolve(step.index)
        gpu = self.index

        def run(slots: Sequence[int], stream: Any) -> None:
            if step.is_pred:
                taken = 0 if _read(gpu, where(slots), 1, stream)[0] else 1
            else:
                taken = int.from_bytes(_read(gpu, where(slots), 4, stream), "little", signed=True)
                taken = taken if 0 <= taken < len(branches) else len(branches) - 1
            for bind in branches[taken]:
                call, arguments = bind(slots)
                call(*arguments, stream)

        return lambda slots: (run, (slots,))


class _Bound:
    """A program with the parameters that the host knows: their values lie one after the other, 16 bytes each."""

    __slots__ = ("_loaded", "_places", "_upload")

    def __init__(self, loaded: LoadedProgram, host: Sequence[int]) -> None:
        self._loaded = loaded
        start = {slot: 16 * k for k, slot in enumerate(host)}
        self._places = [(start[slot], start[slot] + nbytes) for slot, nbytes in loaded.by_value.items()]
        self._upload = not loaded.program.addressed.isdisjoint(host)

    def __call__(self, addresses: tuple[int, ...], known: bytes) -> None:
        values = [int.from_bytes(known[first:last], "little") for first, last in self._places]
        self._loaded(addresses, known if self._upload else b"", values)


def _read(index: int, address: int, nbytes: int, stream: Any) -> bytearray:
    data = bytearray(nbytes)
    if stream is not None:
        stream.synchronize()
    check(index, None, driver().memcpy_dtoh, data, address)
    return data


class _HostStep:
    """An instruction that Python computes over copies."""

    def __init__(self, step: HostCall, index: int) -> None:
        self.step = step
        self._index = index
        self._module = parse_module(step.text)
        self._operands = [(resolve(address), shape) for address, shape in step.operands]
        self._results = [(resolve(address), shape) for address, shape in step.results]

    def __call__(self, slots: Sequence[int]) -> Call:
        return self._run, (slots,)

    def _run(self, slots: Sequence[int], stream: Any) -> None:
        operands = []
        for where, shape in self._operands:
            data = _read(self._index, where(slots), shape.nbytes, stream) if shape.nbytes else bytearray()
            operands.append(np.frombuffer(data, np.uint8).view(shape.numpy_dtype).reshape(shape.dims))
        results = evaluate(self._module, operands)
        moved = sum(shape.nbytes for _, shape in (*self._operands, *self._results))
        profile.note_host_call(self.step, moved)
        for (where, shape), result in zip(self._results, results, strict=True):
            array = np.asarray(result)
            if array.shape != shape.dims or array.dtype != shape.numpy_dtype:
                raise TypeError(f"{self._module.entry.root.name} gave {array.dtype}{list(array.shape)}, not {shape}")
            if shape.nbytes:
                flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                check(self._index, "a copy to the GPU", driver().memcpy_htod_async, where(slots), flat, stream)
