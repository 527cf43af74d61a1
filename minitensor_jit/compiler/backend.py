"""The targets: what passes run with, what generates code, and what that code depends on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from minitensor_jit.flags import JitOptions
from minitensor_jit.ir.module import Module
from minitensor_jit.lowering.lower import LoweredCluster
from minitensor_jit.runtime.executable import AnyExecutable

if TYPE_CHECKING:
    from minitensor_jit.passes.pipeline import PipelineOptions
    from minitensor_jit.passes.target import Target

__all__ = ["Backend", "backend_of"]

# Passes and code generation are imported where they are used: eager programs and cached plans load neither.


class Backend(ABC):
    """What clusters of one device are compiled with."""

    any_size: bool
    """Whether there is code for dimensions whose size is known when it runs."""
    records: bool
    """Whether its code can say which instruction each of its lines is from, and be watched while it runs."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """What passes ask for."""

    @abstractmethod
    def module_prefix(self, lowered: LoweredCluster) -> str:
        """What code depends on beside the text of its module: modules are told apart by it."""

    @abstractmethod
    def disk_key(self, rounds_products: bool) -> str:
        """What code on disk depends on beside the compiler."""

    @abstractmethod
    def compile(self, module: Module, lowered: LoweredCluster, **options: Any) -> AnyExecutable:
        """Code of a module that has been through the passes; CompileError for what there is no code for."""

    def pipeline_options(
        self,
        options: JitOptions,
        rounds_products: bool,
        *,
        verify: bool,
        on_pass: Callable[[str, Module, bool, Mapping[str, int]], None] | None = None,
    ) -> PipelineOptions:
        """How the passes run; whether products may be rounded is what was set at the calls."""
        from minitensor_jit.passes.pipeline import PipelineOptions

        target = self.target
        return PipelineOptions(
            verify=verify,
            fold_constants=not options.disable_constant_folding,
            fast_math=options.fast_math,
            reduce_precision=options.reduce_precision,
            target=target,
            tf32=rounds_products and target.narrow_products,
            on_pass=on_pass,
        )


class _Cpu(Backend):
    any_size = records = True

    @property
    def target(self) -> Target:
        from minitensor_jit.passes.target import CPU

        return CPU

    def module_prefix(self, lowered: LoweredCluster) -> str:
        return ""

    def disk_key(self, rounds_products: bool) -> str:
        return ""

    def compile(self, module: Module, lowered: LoweredCluster, **options: Any) -> AnyExecutable:
        from minitensor_jit.codegen.cpu.compiler import compile_module

        return compile_module(module, **options)


class _Gpu(Backend):
    any_size = records = False

    def __init__(self, index: int) -> None:
        self.index = index

    def _hardware(self) -> Any:
        from minitensor_jit.runtime.cuda.context import gpu

        return gpu(self.index).target

    @property
    def target(self) -> Target:
        from minitensor_jit.passes.target import GPU

        return replace(GPU, narrow_products=self._hardware().compute_capability >= (8, 0))

    def module_prefix(self, lowered: LoweredCluster) -> str:
        return f"{self._code_for(lowered.rounds_products)}, by value: {lowered.numbers}\n"

    def disk_key(self, rounds_products: bool) -> str:
        from minitensor_jit.runtime.cuda.context import driver_version

        return "{}, driver of CUDA {}.{}".format(self._code_for(rounds_products), *driver_version())

    def _code_for(self, rounds_products: bool) -> str:
        return f"{self._hardware()}{', TF32' if rounds_products else ''}"

    def compile(self, module: Module, lowered: LoweredCluster, **options: Any) -> AnyExecutable:
        from minitensor_jit.compiler.cuda import compile_for_gpu

        return compile_for_gpu(self.index, module, host_values=lowered.numbers, **options)


@cache
def backend_of(device: str) -> Backend:
    """The backend of a device, by its name: cpu, or cuda with a number."""
    return _Cpu() if device == "cpu" else _Gpu(int(device.partition(":")[2]))
