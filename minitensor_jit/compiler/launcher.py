"""From a recorded trace to a launch plan: cluster, lower, optimise, emit code. Only for misses: hits stay in C++."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

from minitensor import _C
from minitensor_jit.cache.disk_cache import key_of
from minitensor_jit.cache.executable_cache import module_id
from minitensor_jit.clustering.graph import Node
from minitensor_jit.clustering.pipeline import ClusteringResult, cluster
from minitensor_jit.clustering.unclustered_reason import Verdict
from minitensor_jit.compiler.backend import backend_of
from minitensor_jit.compiler.compiled_cluster import Ready
from minitensor_jit.compiler.compiler import Compiler, no_collections, note_executable
from minitensor_jit.compiler.dynamic_shapes import Template
from minitensor_jit.compiler.module_compiler import generate
from minitensor_jit.compiler.plan_builder import PlanBuilder
from minitensor_jit.compiler.recompile_reason import CompileReasons
from minitensor_jit.compiler.shape_polymorphism import AllSizes
from minitensor_jit.compiler.trace_to_graph import RecordedTrace
from minitensor_jit.errors import LoweringError
from minitensor_jit.inspect.dump import ModuleDump, dumper_for
from minitensor_jit.inspect.filing import describe_failure, how_to_file
from minitensor_jit.inspect.refusal_row import RefusalRow
from minitensor_jit.inspect.report import Report
from minitensor_jit.inspect.run_record import Predicted, recording
from minitensor_jit.inspect.stages import Stages, pictures_for, stages_for
from minitensor_jit.ir.size import Sizes, value_of
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.log import log
from minitensor_jit.lowering.lower import LoweredCluster, lower_cluster, rounds_products
from minitensor_jit.runtime.executable import AnyExecutable, Executable

_MAX_SEEN = 4096


class Launcher:
    """Makes the launch plans of one compiler: what there is of it once there is something to compile."""

    def __init__(self, compiler: Compiler) -> None:
        self.options = compiler.options
        self.dumper = dumper_for(self.options)
        self.pictures = pictures_for(self.options)
        self.disk = compiler.disk
        self.executables = compiler.executables
        self._compiler = compiler
        self._reasons = CompileReasons(_MAX_SEEN)
        self._all_sizes = AllSizes(self)
        self._traces = itertools.count()

    @property
    def report(self) -> Report | None:
        """The account that is kept, if there is one."""
        return self._compiler.report

    def clear(self) -> None:
        """Forget what was compiled, but for the executables."""
        self._reasons.clear()
        self._all_sizes.clear()

    # ---- the plan

    def plan(self, nodes: Sequence[Any], inputs: Sequence[Any], scalars: Sequence[Any]) -> tuple[Any, ...]:
        """The plan of a trace, in the form that the core reads.

        Steps, deferred results, bounds checks, account, whether launches are timed against their ops, and what keeps
        the plan on disk or None.
        """
        _C._compiler_point()
        trace = RecordedTrace(nodes, inputs, scalars, f"trace_{next(self._traces)}")
        record = recording()
        result = cluster(trace.graph, self.options) if record is None else record.cluster(trace.graph, self.options)
        if self.dumper is not None:
            self.dumper.graphs(trace.graph.name, result.texts, trace.graph.dot())
        with _span(f"plan of {trace.graph.name}"):
            return self._plan(trace, result)

    def _plan(self, trace: RecordedTrace, result: ClusteringResult) -> tuple[Any, ...]:
        builder = PlanBuilder(trace, result, self.options, self.report, self)
        built = builder.build()
        modules = builder.modules or []
        kept = modules and not builder.waiting and not builder.may_lose
        keep = partial(self._keep, modules) if kept else None
        # Code that measures itself is slower for it.
        measures = self.options.measure_clusters and not self.options.hlo_profile
        return (*built, self._record(trace, result, builder.waiting), measures, keep)

    def _keep(self, modules: Sequence[str], signature: bytes, plan: bytes) -> None:
        if self._compiler.plans is not None:
            with self._compiler.lock:
                self._compiler.plans.store(signature, plan, modules)

    def _record(self, trace: RecordedTrace, result: ClusteringResult, waiting: Mapping[str, Verdict]) -> Any:
        """Enter the trace into the account; `waiting` says why clusters are not launched."""
        if self.report is None:
            return None
        if waiting:
            verdicts = {id: waiting.get(verdict.cluster or "", verdict) for id, verdict in result.verdicts.items()}
            clusters = [one for one in result.clusters if one.name not in waiting]
            result = ClusteringResult(result.graph, clusters, verdicts, result.texts)
        return self.report.record_trace(trace.graph, result, runs=0)

    # ---- one cluster

    def compile(self, node: Node, *, alone: bool = False) -> Ready:
        """Compile the graph inside a cluster's node, unless an equal one was compiled before.

        An op `alone` is what an eager op on a GPU is: it is compiled at once.
        """
        assert node.subgraph is not None
        _C._compiler_point()
        name = str(node.params["function"])
        started = time.perf_counter()
        if self._dynamic and backend_of(node.device).any_size:
            found = self._all_sizes.find(node, name)
            if found is not None:
                template, ready = found
                self._tell(node, name, template)
                return ready
        try:
            with _span("lowering"):
                lowered = lower_cluster(node.subgraph, name)
        except Exception as error:
            dump = self.dumper.module(name) if self.dumper is not None else None
            self._describe(error, dump, node.subgraph.text())
            raise
        lowered.module.name = "cluster"
        # Code that measures itself is told apart by the lines that it is measured for.
        text = print_module(lowered.module, metadata=self.options.hlo_profile)
        lowered.module.name = name
        module = module_id(backend_of(node.device).module_prefix(lowered) + text)
        known = self.executables.find(module)
        if known is not None:
            if self.report is not None:
                self.report.record_hit(name)
            self._tell(node, name)
            return self.ready(lowered, known, module)
        stages = self._stages(node, lowered)
        why = self._reasons.why(node.subgraph, lowered, in_detail=self.report is not None)
        graph = node.subgraph.text
        keep = alone or not node.must_compile
        executable = self._make(lowered, text, module, started, why, stages, graph, node.device, keep=keep)
        self._tell(node, name)
        return self.ready(lowered, executable, module, None if stages is None else stages.dump)

    def _tell(self, node: Node, name: str, template: Template | None = None) -> None:
        """Enter into the account what finds out what passes refuse to do in a cluster."""
        if self.report is None:
            return
        assert node.subgraph is not None
        graph = node.subgraph
        options = backend_of(node.device).pipeline_options(self.options, rounds_products(graph), verify=False)

        def find() -> list[RefusalRow]:
            # Imported here: without an account no passes run for code that is there.
            from minitensor_jit.compiler.refusals import refusals_of

            with self._compiler.lock, no_collections():
                if template is None:
                    return refusals_of(graph, name, options)
                return refusals_of(template.graph, name, options, template.context, len(template.places))

        lines = frozenset(Counter((n.op, n.source) for n in graph if not n.is_argument).items())
        self.report.record_refusals(name, (lines, template is not None), find)

    def _stages(self, node: Node, lowered: LoweredCluster) -> Stages | None:
        record, kept = recording(), None
        if record is not None:
            kept = record.module(lowered.module.name, self.options.codegen.text(), node.device)
        return stages_for(lowered.module, int(node.params["num_constant_args"]), self.dumper, self.pictures, kept)

    @cached_property
    def _dynamic(self) -> bool:
        """Whether clusters are compiled for all sizes of a dimension. Who looks inside wants to see numbers."""
        o = self.options
        watched = o.looks_inside or o.hlo_profile or o.writes_stages or recording() is not None
        return o.dynamic_shapes and not o.async_compilation and not o.always_defer_compilation and not watched

    def ready(
        self,
        lowered: LoweredCluster,
        executable: AnyExecutable,
        module: str,
        dump: ModuleDump | None = None,
        *,
        sizes: Sizes = (),
    ) -> Ready:
        """How code is called, for some sizes if it is for all of them."""
        # Code that measures itself has addresses of this process in it: no pickle takes it along, nor code for GPUs.
        if not sizes and executable.counters is None and isinstance(executable, Executable):
            note_executable(module, executable)
        work = sum(value_of(s.nbytes, sizes) for s in (*executable.parameter_shapes, *executable.result_shapes))
        scratch = value_of(executable.scratch_bytes, sizes)
        if (record := recording()) is not None:
            parameters = sum(value_of(s.nbytes, sizes) for s in executable.parameter_shapes)
            record.runs(lowered.module.name, module, Predicted(parameters, work - parameters, scratch))
        return Ready(lowered, executable, scratch, work, sizes, dump, "" if sizes else module)

    def _make(
        self,
        lowered: LoweredCluster,
        text: str,
        module: str,
        started: float,
        why: str,
        stages: Stages | None,
        graph: Callable[[], str],
        device: str,
        *,
        keep: bool,
    ) -> AnyExecutable:
        """The executable of a module, from disk or compiled now."""
        name = lowered.module.name
        key = ""
        if self.disk is not None:
            key = key_of(module, self.options, backend_of(device).disk_key(lowered.rounds_products))
        # What is on disk has no stages to dump.
        kept = self.disk.load(key, name, self.options) if self.disk is not None and stages is None else None
        try:
            with _span(f"compiling {name}"):
                executable = kept or self.generate(lowered, name, stages, device=device, text=text)
        except Exception as error:
            if stages is not None and stages.record is not None:
                stages.record.failed(error)
            self._describe(error, None if stages is None else stages.dump, graph())
            raise
        if self.disk is not None and kept is None:
            self.disk.store(key, executable)
        self.executables.insert(module, executable, keep=keep)
        milliseconds = (time.perf_counter() - started) * 1e3
        if stages is not None and stages.record is not None:
            # What the record itself took is no part of compiling.
            milliseconds -= stages.record.overhead * 1e3
        if kept is not None:
            why += ", loaded from disk"
        log(self.options, "xla_compiler", 1, "%s: ready in %.1f ms (%s)", name, milliseconds, why)
        if self.report is not None:
            self.report.record_compile(name, milliseconds, why)
        if (record := recording()) is not None:
            record.compiled(name, milliseconds, why)
        return executable

    def _describe(self, error: Exception, dump: ModuleDump | None, graph: str) -> None:
        """Write all that is known of a failure beside the module's other files, and add to it how to report it."""
        if dump is not None:
            dump.failure(f"{describe_failure(error, self.options)}\n{graph}")
        if not isinstance(error, LoweringError):
            error.add_note(how_to_file(dump))

    def generate(
        self, lowered: LoweredCluster, name: str, stages: Stages | None = None, *, device: str = "cpu", text: str = ""
    ) -> AnyExecutable:
        """Run the passes and generate code, whatever was compiled before. `text` is the module's, if it has one."""
        return generate(self.options, lowered, name, stages, device=device, text=text)


def _span(name: str) -> AbstractContextManager[None]:
    """Has the time inside counted for a report, if one is written."""
    record = recording()
    return nullcontext() if record is None else record.span(name)
