"""The process that compiles for a program while that goes on; see `minitensor/_jit/background_process.py`."""

from __future__ import annotations

import os
import pickle
import select
import struct
import time
from contextlib import suppress
from typing import Any

from minitensor import _C
from minitensor._jit import kept_plans
from minitensor._jit.background_process import JOBS, REPLIES
from minitensor._jit.processor import processor
from minitensor_jit.cache.lru_disk_folder import read_file
from minitensor_jit.clustering.pipeline import cluster
from minitensor_jit.compiler.compiler import Compiler, no_collections, noting_executables
from minitensor_jit.compiler.launcher import Launcher
from minitensor_jit.compiler.plan_builder import PlanBuilder
from minitensor_jit.compiler.trace_to_graph import RecordedTrace
from minitensor_jit.flags import parse_flags
from minitensor_jit.ir.library import ELEMENTWISE_PREFIX

__all__ = ["compile_job", "serve"]

_NICENESS = 19
"""It gets next to nothing of a processor that the program wants too: all its threads wait for the one that shares."""
_IDLE_SECONDS = 60.0
_LAST_SECONDS = 5.0
"""What is waiting when the program has gone is still compiled for its next run, if it doesn't take longer."""


class _Bench:
    """A compiler for the options of one program."""

    def __init__(self, flags: str, folder: str) -> None:
        # What is kept on disk is found by the program's own options.
        self.options = parse_flags(flags).replace(persistent_cache_directory=folder)
        # All at once, for the sizes that there are: other sizes are other jobs.
        working = self.options.replace(enable_lazy_compilation=False, async_compilation=False, dynamic_shapes=False)
        self.launcher = Launcher(Compiler(working))
        assert self.launcher.disk is not None
        self.launcher.disk.makes = False  # a program that takes its folder away when it ends leaves nothing


_benches: dict[tuple[str, str], _Bench] = {}


def compile_job(flags: str, path: str, signature: bytes, described: Any) -> bool:
    """Compile a trace, and keep its plan and code in a file; False if there is nothing to be launched."""
    folder = os.path.dirname(path)
    bench = _benches.get((flags, folder))
    if bench is None:
        bench = _benches[flags, folder] = _Bench(flags, folder)
    nodes, inputs, scalars = described
    with no_collections(), noting_executables() as used:
        trace = RecordedTrace(nodes, inputs, scalars, "trace")
        result = cluster(trace.graph, bench.options)
        builder = PlanBuilder(trace, result, bench.launcher.options, None, bench.launcher)
        steps, deferred, checks = builder.build()
        if not builder.modules:
            return False
        counts = [len(node[3]) for node in nodes]
        returned: tuple[Any, ...] = (steps, deferred, checks, None, False, None)
        plan = _C.plan_bytes(counts, len(inputs), len(scalars), returned)
    objects = []
    for module in builder.modules:
        executable = used[module]
        loops = (symbol.removeprefix(ELEMENTWISE_PREFIX).rpartition(".") for symbol in executable.imports)
        imports = [(symbol, name, dtype) for symbol, (name, _, dtype) in zip(executable.imports, loops, strict=True)]
        objects.append((executable.object_code, imports))
    disk = bench.launcher.disk
    assert disk is not None
    disk.store_as(path, kept_plans.encode(flags, processor(), signature, plan, objects))
    return os.path.exists(path)


def serve() -> None:
    """Do the jobs that come, until the program has gone."""
    with suppress(OSError):
        os.nice(_NICENESS)
    waiting = b""
    deadline: float | None = None
    while deadline is None or time.monotonic() < deadline:
        line, newline, rest = waiting.partition(b"\n")
        if newline:
            waiting = rest
            number, path = line.split(b" ", 1)
            done = _do(int(number), os.fsdecode(path))
            try:
                os.write(REPLIES, struct.pack("=QQ", int(number), done))
            except OSError:
                deadline = deadline or time.monotonic() + _LAST_SECONDS
        elif deadline is not None or not select.select([JOBS], [], [], _IDLE_SECONDS)[0]:
            return
        elif more := os.read(JOBS, 1 << 16):
            waiting += more
        else:
            deadline = time.monotonic() + _LAST_SECONDS


def _do(number: int, path: str) -> bool:
    try:
        flags, folder, signature, described = pickle.loads(read_file(path))
        return compile_job(flags, kept_plans.path_of(folder, number), signature, described)
    except Exception:  # its ops go on to run one by one
        return False
    finally:
        with suppress(OSError):
            os.unlink(path)
