"""From a cluster's lowered module to an executable: passes and code generation, for the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from minitensor import _C
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.stages import Stages
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.log import log, talks
from minitensor_jit.lowering.lower import LoweredCluster
from minitensor_jit.runtime.executable import AnyExecutable

if TYPE_CHECKING:
    from minitensor_jit.passes.pipeline import PipelineOptions

__all__ = ["compiler_of", "generate", "pipeline_options", "place_of", "target_text"]


def _target_of(device: str) -> Any:
    """What code for a GPU is generated for."""
    from minitensor_jit.runtime.cuda.context import gpu

    return gpu(int(device.partition(":")[2])).target


def _has_matrix_units(device: str) -> bool:
    """Whether products of float16 and bfloat16 are computed by units of their own."""
    return device != "cpu" and bool(_target_of(device).compute_capability >= (8, 0))


def target_text(device: str, rounds_products: bool) -> str:
    """What code for a GPU depends on beside its module."""
    return f"{_target_of(device)}{', TF32' if rounds_products else ''}"


def place_of(device: str, rounds_products: bool) -> str:
    """What code on disk depends on beside the compiler, for a GPU; empty for the CPU."""
    if device == "cpu":
        return ""
    from minitensor_jit.runtime.cuda.context import driver_version

    return "{}, driver of CUDA {}.{}".format(target_text(device, rounds_products), *driver_version())


def compiler_of(device: str, numbers: Collection[int] = ()) -> Callable[..., AnyExecutable]:
    """What generates code for a device. `numbers` are the places of parameters whose values the host knows."""
    if device == "cpu":
        from minitensor_jit.codegen.cpu.compiler import compile_module

        return compile_module
    from minitensor_jit.compiler.cuda import compile_for_gpu

    return partial(compile_for_gpu, int(device.partition(":")[2]), host_values=numbers)


def pipeline_options(
    options: JitOptions,
    device: str,
    rounds_products: bool,
    *,
    verify: bool,
    on_pass: Callable[[str, Module, bool, Mapping[str, int]], None] | None = None,
) -> PipelineOptions:
    """How the passes run for code of a device; whether products may be rounded is what was set at the calls."""
    # Imported here: cached plans run no passes.
    from minitensor_jit.passes.pipeline import PipelineOptions

    return PipelineOptions(
        verify=verify,
        fold_constants=not options.disable_constant_folding,
        fast_math=options.fast_math,
        reduce_precision=options.reduce_precision,
        gpu=device != "cpu",
        narrow_products=_has_matrix_units(device),
        tf32=rounds_products and _has_matrix_units(device),
        on_pass=on_pass,
    )


def generate(
    options: JitOptions,
    lowered: LoweredCluster,
    name: str,
    stages: Stages | None = None,
    *,
    device: str = "cpu",
    text: str = "",
) -> AnyExecutable:
    """Run the passes and generate code. `text` is the module's, if it has one."""
    # Imported here: eager programs and cached plans never load LLVM.
    from minitensor_jit.ir.verifier import VerificationError
    from minitensor_jit.passes.pipeline import run_pipeline

    if stages is not None:
        stages.before(lowered.module)
        if stages.dump is not None:
            stages.dump.repro(options.codegen.text())
    loud = talks(options, "xla_compiler", 2)
    if loud:
        log(options, "xla_compiler", 2, "%s: as lowered\n%s", name, print_module(lowered.module))
    hooks = [stages.on_pass] if stages is not None else []
    if talks(options, "pass_manager", 1):
        hooks.append(partial(_log_pass, options))

    def on_pass(name: str, module: Module, changed: bool, rules: Mapping[str, int]) -> None:
        for hook in hooks:
            hook(name, module, changed, rules)

    pipeline = pipeline_options(
        options, device, lowered.rounds_products, verify=stages is not None, on_pass=on_pass if hooks else None
    )
    try:
        module = run_pipeline(lowered.module, pipeline)
    except VerificationError:
        if not pipeline.verify and text and device == "cpu":
            # Once more, verified after every pass: that names the wrong one.
            from minitensor_jit.ir.text.parser import parse_module

            run_pipeline(parse_module(text), replace(pipeline, verify=True, on_pass=None))
        raise
    if loud:
        log(options, "xla_compiler", 2, "%s: after the passes\n%s", name, print_module(module))
    if stages is not None:
        stages.after(module)
    record = stages.record if stages is not None else None
    writers = [stages.code] if stages is not None and (stages.dump is not None or record is not None) else []
    if talks(options, "codegen", 2):
        writers.append(partial(_log_buffers, options))

    def dump(kind: str, text: str) -> None:
        for write in writers:
            write(kind, text)

    _C._compiler_point()
    compile_module = compiler_of(device, lowered.numbers)
    executable: AnyExecutable = compile_module(
        module,
        name=name,
        fast_math=options.fast_math,
        profile=options.hlo_profile,
        dump=dump if writers else None,
        **({"annotated": True} if record is not None and device == "cpu" else {}),
    )
    if record is not None:
        record.compiled(executable.kernels, executable.scratch_bytes, executable.compile_seconds)
    if stages is not None and stages.dump is not None:
        took = ", ".join(f"{stage} {1e3 * taken:.1f} ms" for stage, taken in executable.compile_seconds.items())
        stages.dump.end(f"Kernels: {executable.kernels}. Scratch memory: {executable.scratch_bytes:,} bytes. {took}")
    if talks(options, "codegen", 1):
        times = ", ".join(f"{stage} {1e3 * taken:.1f} ms" for stage, taken in executable.compile_seconds.items())
        what = "%s: kernels: %d, %d bytes of scratch memory, %d bytes of code; %s"
        scratch, code = executable.scratch_bytes, len(executable.object_code)
        log(options, "codegen", 1, what, name, executable.kernels, scratch, code, times)
    if executable.counters is not None:
        # Imported here: it measures the machine with tensors.
        from minitensor_jit.inspect.profile import register

        register(executable.counters)
    return executable


def _log_buffers(options: JitOptions, kind: str, text: str) -> None:
    if kind == "buffer-assignment.txt":
        log(options, "codegen", 2, "%s", text.rstrip())


def _log_pass(options: JitOptions, name: str, module: Module, changed: bool, _: Mapping[str, int]) -> None:
    count = sum(len(computation.instructions) for computation in module.computations)
    verb = "changed" if changed else "left"
    log(
        options,
        "pass_manager",
        1 if changed else 2,
        "%s %s %s: %d instructions",
        name,
        verb,
        module.name,
        count,
    )
