"""From an optimised module to a program for a GPU: PTX, the driver's code of it, and what is dumped of both."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

from minitensor_jit.ir.module import Module
from minitensor_jit.runtime.cuda import modules
from minitensor_jit.runtime.cuda.context import gpu
from minitensor_jit.runtime.cuda.executable import GpuExecutable
from minitensor_jit.runtime.cuda.profile import counters_of
from minitensor_jit.runtime.cuda.program import GpuProgram

__all__ = ["compile_for_gpu"]

Dump = Callable[[str, str], None]


def compile_for_gpu(
    index: int,
    module: Module,
    *,
    name: str,
    fast_math: bool = False,
    profile: bool = False,
    dump: Dump | None = None,
    host_values: Collection[int] = (),
) -> GpuExecutable:
    """Code for a GPU of a module that has been through the passes; CompileError for what there is no code for.

    `host_values` are the numbers of parameters without dimensions whose values the host knows.
    """
    # Imported here: kept programs are run without LLVM.
    from minitensor_jit.codegen.nvptx.compiler import compile_module

    target = gpu(index).target
    program = compile_module(
        module, name=name, target=target, dump=dump, fast_math=fast_math, profile=profile, host_values=host_values
    )
    started = time.perf_counter()
    cubin = modules.assemble(program, index)
    seconds = {**program.compile_seconds, "assembly": time.perf_counter() - started}
    if dump is not None and program.ptx:
        usage = resource_use(program)
        if usage:
            dump("ptxas.txt", usage)
    executable = GpuExecutable(program, cubin, compile_seconds=seconds)
    if profile:
        executable.counters = counters_of(program.name, program.steps, index)
    return executable


def resource_use(program: GpuProgram) -> str:
    """What `ptxas -v` says of registers, shared memory and spills; empty where the toolkit isn't installed."""
    assembler = shutil.which("ptxas")
    if assembler is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "module.ptx")
        source.write_text(program.ptx)
        made = Path(folder, "module.cubin")
        command = [assembler, "-v", f"-arch={program.target.name}", "-o", str(made), str(source)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr
