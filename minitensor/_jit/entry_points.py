"""Where eager code enters `minitensor_jit`. Nothing is imported before it is asked for: eager code never loads LLVM."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitensor import _C
from minitensor._profile import events as profile_events
from minitensor._profile.step_stats import NodeExecStats, StepStats, from_events, from_gpus, source_of

__all__ = [
    "collect_step_stats",
    "compile_elsewhere",
    "compiler_config",
    "cuda_in_use",
    "cuda_module",
    "installed_version",
    "link_code",
    "session_runs",
    "start_cuda",
    "start_from_environment",
]


def start_from_environment() -> None:
    """Turn the JIT on if MT_JIT_FLAGS is set; called once, when minitensor is imported."""
    flags = os.environ.get("MT_JIT_FLAGS")
    if flags:
        from minitensor._jit import programs

        # A program that is recorded, and nothing else: the compiler isn't needed before there is something to compile.
        if (found := programs.plain(flags)) is not None:
            level, folder = found
            programs.begin(programs.FIRST | (programs.CAREFUL if level == 1 else 0), folder)
            return
        from minitensor_jit import api

        api.start_from_environment()


def session_runs() -> Any:
    """What runs a session's functions if its configuration says how they are compiled."""
    from minitensor_jit.functions.session_runs import SessionRuns

    return SessionRuns()


def compile_elsewhere(number: int, signature: bytes, described: Any, put_off: bool) -> bool:
    """Have another process compile a recorded trace, at once or when the program has ended; whether it will."""
    from minitensor._jit.background_process import submit

    return submit(number, signature, described, put_off)


def link_code(image: bytes, symbol: str, imports: dict[str, int]) -> tuple[int, Any]:
    """Load object code that the core's linker has no rule for."""
    from minitensor_jit.runtime.llvm_linker import link

    return link(image, symbol, imports)


def start_cuda() -> None:
    """Give the core what drives the GPUs, when the first tensor is put on one. An error says what is missing."""
    cuda_module("start").start()


def cuda_module(name: str) -> Any:
    """A module of what drives the GPUs."""
    from importlib import import_module

    return import_module(f"minitensor_jit.runtime.cuda.{name}")


def cuda_in_use() -> bool:
    """Whether a GPU is in use, without asking for one."""
    context = sys.modules.get("minitensor_jit.runtime.cuda.context")
    return context is not None and bool(context.initialized())


def installed_version(package: str) -> str:
    """The version of an installed package, without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def compiler_config() -> dict[str, str]:
    """What there is to say of the compiler, without loading it."""
    api = sys.modules.get("minitensor_jit")
    flags = os.environ.get("MT_JIT_FLAGS", "") if api is None else api.current_options().text()
    return {
        "llvmlite": installed_version("llvmlite"),
        "JIT": "not loaded" if api is None else "recording" if _C.is_recording() else "loaded",
        "JIT flags": flags or "none",
    }


def _kernels_of(name: str, begin: int, end: int) -> list[NodeExecStats]:
    """The kernels of a launch, which are known of code that measures itself (`--hlo_profile`)."""
    profile = sys.modules.get("minitensor_jit.inspect.profile")
    if profile is None:
        return []
    return [
        NodeExecStats(
            kernel.name,
            kernel.kind,
            kernel.last[0] / 1000,
            (kernel.last[1] - kernel.last[0]) / 1000,
            source=source_of(*kernel.ops[0][1:]) if kernel.ops else "",
            children=[NodeExecStats(op, op, 0.0, 0.0, source=source_of(file, line)) for op, file, line in kernel.ops],
            bytes=kernel.nbytes,
        )
        for kernel in profile.kernels_between(name, begin, end)
    ]


@contextmanager
def collect_step_stats() -> Iterator[StepStats]:
    """Note every kernel and launch that runs inside; the statistics are filled in at the end."""
    stats = StepStats()
    gpus = cuda_module("profile") if cuda_in_use() else None
    if gpus is not None:
        gpus.start()
    profile_events.start()
    try:
        yield stats
    finally:
        host = from_events(profile_events.stop(), kernels=_kernels_of).dev_stats
        stats.dev_stats[:] = host if gpus is None else [*host, *from_gpus(gpus.stop())]
