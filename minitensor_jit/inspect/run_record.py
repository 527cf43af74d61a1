"""Everything that a report tells of a run: graphs, modules, compilations, spans of compile time, events, memory.

A process keeps one record at a time, `recording()`, which the runtime tells what it does. It builds on what there is:
the account of every op, the profile of compiled code, the events of the core.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import minitensor
from minitensor import _C, _forks
from minitensor._profile import events as profile_events
from minitensor_jit.clustering.graph import Graph, Source
from minitensor_jit.clustering.pipeline import ClusteringResult, cluster
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.graph_record import GraphRecord
from minitensor_jit.inspect.module_record import ModuleRecord
from minitensor_jit.inspect.report import Report
from minitensor_jit.inspect.run_events import RunEvents
from minitensor_jit.inspect.run_memory import MemoryCurve

__all__ = ["Compilation", "LaunchMemory", "RunRecord", "Span", "begin", "end", "recording"]

_MOST_ROWS = 1_500_000
"""Nodes and instructions of all phases and stages that are kept; of what comes later only the figures are."""
_MOST_SPANS = 20_000
_MOST_COMPILES = 2_000
_MOST_LAUNCHES = 20_000
_DEEPEST = 40

_OWN = tuple(str(Path(file).resolve().parent) + "/" for file in (str(minitensor.__file__), str(Path(__file__).parent)))


class Span(NamedTuple):
    """A part of the time that compiling took; times are seconds of the monotonic clock."""

    name: str
    begin: float
    end: float
    depth: int
    thread: int


class Compilation(NamedTuple):
    """A compilation: why it was needed, and where the program was when it had to be."""

    cluster: str
    milliseconds: float
    why: str
    stack: tuple[Source, ...]
    module: int
    """The number of the module; -1 where its code was on disk, or too many were compiled."""
    begin: float


class LaunchMemory(NamedTuple):
    """What was allocated while a cluster ran."""

    cluster: str
    at: float
    allocated: int


@dataclass
class Predicted:
    """What a cluster needs, by its executable."""

    parameters: int
    results: int
    scratch: int


@dataclass
class RunRecord:
    """Collects; safe to feed from several threads."""

    account: Report = field(default_factory=Report)
    graphs: list[GraphRecord] = field(default_factory=list)
    modules: list[ModuleRecord] = field(default_factory=list)
    module_of: dict[str, int] = field(default_factory=dict)
    """By cluster: the number of the module that it runs."""
    compiles: list[Compilation] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    launches: list[LaunchMemory] = field(default_factory=list)
    predicted: dict[str, Predicted] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    """How many of a kind were not kept, for want of room."""
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0

    def __post_init__(self) -> None:
        self.events = RunEvents()
        self.memory = MemoryCurve()
        self._lock = _forks.lock()
        self._rows = 0
        self._graphs: dict[Hashable, GraphRecord] = {}
        self._by_text: dict[str, int] = {}
        self._depth = threading.local()

    # ---- what the runtime tells

    def cluster(self, graph: Graph, options: JitOptions) -> ClusteringResult:
        """Cluster a graph, and keep what it is after each phase, if there is room."""
        record = GraphRecord(graph.name)
        with self.span(f"clustering of {graph.name}"):
            began = time.monotonic()
            result = cluster(graph, options, watch=record.after)
            for phase, _, seconds in record.phases[1:]:
                self.add_span(phase, began, began := began + seconds)
        record.decided(result.verdicts)
        known = self._graphs.get(key := record.key)
        if known is not None:
            known.take(record)
        elif self._keep("graphs", self.graphs, record):
            self._graphs[key] = record
        return result

    def module(self, name: str, flags: str, device: str) -> ModuleRecord:
        """The record of the next module to be compiled; it is kept when that has ended."""
        return ModuleRecord(name, flags, device, self._add_module)

    def _add_module(self, module: ModuleRecord) -> None:
        depth = getattr(self._depth, "value", 0)
        for name, _, began, seconds in module.passes:
            self.add_span(f"pass {name}", began, began + seconds, depth)
        began = module.ended
        for part in ("emit", "llvm", "load"):
            if (taken := module.summary.get(part, 0.0)) > 0:
                self.add_span(part, began, began := began + taken, depth)
        if self._keep("modules", self.modules, module):
            self.module_of[module.name] = self.modules.index(module)

    def _keep(self, kind: str, where: list[Any], what: Any) -> bool:
        with self._lock:
            if self._rows + what.size > _MOST_ROWS:
                self.left_out[kind] = self.left_out.get(kind, 0) + 1
                return False
            self._rows += what.size
            where.append(what)
        return True

    def runs(self, cluster: str, text: str, predicted: Predicted) -> None:
        """Enter which module a cluster runs, by the id of its text, and what memory that needs."""
        with self._lock:
            self.predicted.setdefault(cluster, predicted)
            number = self.module_of.get(cluster)
            if number is not None:
                self._by_text.setdefault(text, number)
            elif text in self._by_text:
                self.module_of[cluster] = self._by_text[text]

    def compiled(self, cluster: str, milliseconds: float, why: str) -> None:
        """Enter a compilation; called where the program had to wait for it."""
        if len(self.compiles) >= _MOST_COMPILES:
            self.left_out["compilations"] = self.left_out.get("compilations", 0) + 1
            return
        begin = time.monotonic() - milliseconds / 1e3
        self.compiles.append(
            Compilation(cluster, milliseconds, why, user_stack(), self.module_of.get(cluster, -1), begin)
        )

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Count the time inside as a part of that name."""
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        began = time.monotonic()
        try:
            yield
        finally:
            self._depth.value = depth
            self.add_span(name, began, time.monotonic(), depth)

    def add_span(self, name: str, began: float, ended: float, depth: int | None = None) -> None:
        """Enter a part that was measured, below what is open on this thread."""
        if depth is None:
            depth = getattr(self._depth, "value", 0)
        if len(self.spans) < _MOST_SPANS:
            self.spans.append(Span(name, began, ended, depth, threading.get_ident()))
        else:
            self.left_out["spans"] = self.left_out.get("spans", 0) + 1

    def probe(self, cluster: str) -> Callable[[bool, Any], None]:
        """An observer of a launch: how much is allocated when it runs."""

        def observe(ran: bool, _addresses: Any) -> None:
            if not ran and len(self.launches) < _MOST_LAUNCHES:
                self.launches.append(LaunchMemory(cluster, time.monotonic(), self.memory.allocated()))

        return observe

    # ---- from its beginning to its end

    def start(self) -> None:
        """Begin to note events and memory."""
        self.began = time.monotonic()
        profile_events.watch(self.events.add)
        self.memory.start(profile_events.drain)

    def stop(self) -> None:
        """End it."""
        if not self.ended:
            self.ended = time.monotonic()
            self.memory.stop()
            profile_events.end_watch()
            self.events.finish()


def user_stack() -> tuple[Source, ...]:
    """The frames of the user's program, on the thread that waits for what this one does; the innermost first."""
    found: list[Source] = []
    frame: Any = sys._current_frames().get(_C._calling_thread())
    while frame is not None and len(found) < _DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith((*_OWN, "<frozen")):
            found.append(Source(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(found)


_recording: RunRecord | None = None


def recording() -> RunRecord | None:
    """The record that this process keeps at the moment, if it keeps one."""
    return _recording


def begin(record: RunRecord) -> None:
    """Keep a record from here on. RuntimeError where one is kept already."""
    global _recording
    if _recording is not None:
        raise RuntimeError("a report is being written already: of the whole program (--report), or by jit.report()")
    _recording = record
    record.start()


def end(record: RunRecord) -> None:
    """End a record."""
    global _recording
    if _recording is record:
        _recording = None
        record.stop()
