"""From a cluster's lowered module to an executable: passes and code generation, for the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from minitensor import _C
from minitensor_jit.compiler.backend import backend_of
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.stages import Stages
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.log import log, talks
from minitensor_jit.lowering.lower import LoweredCluster
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["generate"]


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

    backend = backend_of(device)
    pipeline = backend.pipeline_options(
        options, lowered.rounds_products, verify=stages is not None, on_pass=on_pass if hooks else None
    )
    try:
        module = run_pipeline(lowered.module, pipeline)
    except VerificationError:
        if not pipeline.verify and text:
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
    executable = backend.compile(
        module,
        lowered,
        name=name,
        fast_math=options.fast_math,
        profile=options.hlo_profile,
        dump=dump if writers else None,
        **({"annotated": True} if record is not None and backend.records else {}),
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
