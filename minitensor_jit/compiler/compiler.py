"""What one set of options has: its caches, and the compiler proper once there is something to compile.

What an earlier process compiled is run from disk without the compiler: neither it nor NumPy and LLVM, which it needs,
are imported for that.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from minitensor import _C, _forks
from minitensor_jit.cache.disk_cache import cache_at
from minitensor_jit.cache.executable_cache import ExecutableCache
from minitensor_jit.cache.plan_store import PlanStore
from minitensor_jit.clustering.state import PROCESS_STATE
from minitensor_jit.flags import JitOptions
from minitensor_jit.log import log
from minitensor_jit.runtime.executable import Executable

if TYPE_CHECKING:
    from minitensor_jit.compiler.launcher import Launcher
    from minitensor_jit.inspect.report import Report

_used: ContextVar[dict[str, Executable] | None] = ContextVar("_used", default=None)


@contextmanager
def noting_executables() -> Iterator[dict[str, Executable]]:
    """The executables that plans made inside use, by the ids of their modules."""
    noted: dict[str, Executable] = {}
    token = _used.set(noted)
    try:
        yield noted
    finally:
        _used.reset(token)


def note_executable(module: str, executable: Executable) -> None:
    """Tell `noting_executables` of one."""
    noted = _used.get()
    if noted is not None:
        noted[module] = executable


@contextmanager
def no_collections() -> Iterator[None]:
    """Compiling makes many objects and hardly any cycles: looking for these would take a fifth of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Compiler:
    """Makes launch plans under one set of options; keeps what it compiled."""

    def __init__(self, options: JitOptions, report: Report | None = None) -> None:
        self.options = options
        self.report = report
        self.disk = (
            cache_at(options.persistent_cache_directory, options.persistent_cache_bytes)
            if options.persistent_cache_directory is not None and not options.hlo_profile
            else None
        )
        self.executables = ExecutableCache(options.executable_cache_bytes)
        self.lock = _forks.lock()  # held while it compiles: a fork waits for that
        if options.plan_cache_bytes != JitOptions().plan_cache_bytes:
            _C.set_plan_cache_limit(options.plan_cache_bytes)
        self._watched = options.looks_inside or options.writes_stages
        self.plans: PlanStore | None = None
        if self.disk is not None and not self._watched and not options.verify and options.clustering_fuel is None:
            self.plans = PlanStore(self.disk, options)
        if options.writes_stages:
            _ = self._launcher  # a folder that can't be written to is an error now

    @cached_property
    def _launcher(self) -> Launcher:
        from minitensor_jit.compiler.launcher import Launcher

        return Launcher(self)

    @property
    def size(self) -> int:
        """How many compiled clusters there are."""
        return len(self.executables)

    def clear(self) -> None:
        """Forget what was compiled; plans that still launch it keep it alive."""
        with self.lock:
            self.executables.clear()
            if "_launcher" in self.__dict__:
                self._launcher.clear()

    def plan(
        self,
        nodes: Sequence[Any],
        inputs: Sequence[Any],
        scalars: Sequence[Any],
        number: int = 0,
    ) -> tuple[Any, ...] | None:
        """The plan of a trace, in the form that the core reads: `Launcher.plan`.

        None if a thread compiles it, which then tells the core by that number; 0 is none.
        """
        if number and self.options.async_compilation and not self._watched:
            # Imported here: few programs have a thread compile.
            from minitensor_jit.compiler.background_thread import compile_later

            compile_later(partial(self._make, number, nodes, inputs, scalars))
            return None
        with self.lock, no_collections():
            return self._launcher.plan(nodes, inputs, scalars)

    def _make(self, number: int, nodes: Sequence[Any], inputs: Sequence[Any], scalars: Sequence[Any]) -> None:
        """Have the code in memory that a plan needs."""
        try:
            with self.lock, no_collections():
                self._launcher.plan(nodes, inputs, scalars)
        except Exception as error:  # raised again where the plan is made, which falls back
            log(self.options, "xla_compiler", 1, "the thread that compiles: %s", error)
        _C.plan_made(number)

    def recall(self, signature: bytes) -> tuple[memoryview, list[tuple[int, Executable]], str] | None:
        """The plan of a trace with that signature, if an earlier process kept it on disk.

        As the core wrote it, with the code of its launches, and a name for them.
        """
        if self.plans is None or self.report is not None:
            return None
        with self.lock, no_collections():
            started = time.perf_counter()
            name = "cluster" if self.options.deterministic_cluster_names else PROCESS_STATE.next_name()
            found = self.plans.load(signature, name)
            if found is None:
                return None
            plan, modules = found
            code = []
            for module, loaded in modules:
                known = self.executables.find(module)
                executable = known if isinstance(known, Executable) else loaded
                self.executables.insert(module, executable, keep=False)
                note_executable(module, executable)
                code.append((executable.entry_address, executable))
            milliseconds = (time.perf_counter() - started) * 1e3
            log(self.options, "xla_compiler", 1, "%s: ready in %.1f ms (its plan was on disk)", name, milliseconds)
            return plan, code, name
