"""From a recorded trace to a launch plan: cluster, lower, optimise, emit code. Only for misses: hits stay in C++."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from minitensor_jit.clustering.graph import CLONE_ATTRIBUTE, LAUNCH, Graph, Node, Value
from minitensor_jit.clustering.pipeline import ClusteringResult, cluster
from minitensor_jit.errors import InvalidArgumentError, JitError
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.dump import ModuleDump, dumper_for
from minitensor_jit.inspect.filing import describe_failure, how_to_file
from minitensor_jit.inspect.report import Report
from minitensor_jit.inspect.stages import Stages, pictures_for, stages_for
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.printer import print_module
from minitensor_jit.log import log, talks
from minitensor_jit.lowering.lower import LoweredCluster, StreamPosition, lower_cluster
from minitensor_jit.runtime.disk_cache import cache_at, key_of
from minitensor_jit.runtime.executable import Executable
from minitensor_jit.runtime.observer import Observer, observer_for, together
from minitensor_jit.runtime.recorded import RecordedTrace, ValueRef

logger = logging.getLogger("minitensor_jit")

MAX_EXECUTABLES = 512

VERIFIED = 512
"""Up to so many instructions, a module is verified after every pass: that takes some milliseconds at the most."""

_GUARDED = 10
"""Where in the tuple of a launch stands whether an op inside can fail."""


class Compiler:
    """Makes launch plans under one set of options; keeps what it compiled."""

    def __init__(self, options: JitOptions, report: Report | None = None) -> None:
        self.options = options
        self.report = report
        self.dumper = dumper_for(options)
        self.pictures = pictures_for(options)
        self.disk = (
            cache_at(options.persistent_cache_directory, options.persistent_cache_bytes)
            if options.persistent_cache_directory is not None and not options.hlo_profile
            else None
        )
        self._executables: OrderedDict[str, Executable] = OrderedDict()
        # Compilers of sessions that ran under these options, with their numbers, by the session's level and flag.
        self.session_compilers: dict[tuple[int, bool], tuple[Compiler, int]] = {}
        self._seen: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._traces = itertools.count()
        self.lock = threading.RLock()  # held while it compiles

    @property
    def size(self) -> int:
        """How many compiled clusters are kept."""
        return len(self._executables)

    def clear(self) -> None:
        """Forget what was compiled; plans that still launch it keep it alive."""
        with self.lock:
            self._executables.clear()
            self._seen.clear()

    # ---- the plan

    def plan(self, nodes: Sequence[Any], leaves: Sequence[Any], scalars: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """The plan of a trace, in the form that the core reads: steps, deferred results, bounds checks, account."""
        with self.lock:
            trace = RecordedTrace(nodes, leaves, scalars, f"trace_{next(self._traces)}")
            result = cluster(trace.graph, self.options)
            record = self.report.record_trace(trace.graph, result, runs=0) if self.report is not None else None
            if self.dumper is not None:
                self.dumper.graphs(trace.graph.name, result.texts, trace.graph.dot())
            return (*_Plan(self, trace, result).build(), record)

    # ---- one cluster

    def compile(self, node: Node) -> tuple[LoweredCluster, Executable, ModuleDump | None]:
        """Compile the graph inside a cluster's node, unless an equal one was compiled before.

        With what was compiled just now comes the writer of its dumps, if there are any.
        """
        assert node.subgraph is not None
        name = str(node.params["function"])
        started = time.perf_counter()
        try:
            lowered = lower_cluster(node.subgraph, name)
        except Exception as error:
            dump = self.dumper.module(name) if self.dumper is not None else None
            self._describe(error, dump, node.subgraph.text())
            raise
        lowered.module.name = "cluster"
        # Code that measures itself is told apart by the lines that it is measured for.
        text = print_module(lowered.module, metadata=self.options.hlo_profile)
        known = self._executables.get(text)
        if known is not None:
            self._executables.move_to_end(text)
            if self.report is not None:
                self.report.record_hit(name)
            return lowered, known, None
        lowered.module.name = name
        stages = stages_for(lowered.module, int(node.params["num_constant_args"]), self.dumper, self.pictures)
        key = key_of(text, self.options) if self.disk is not None else ""
        # What is on disk has no stages to dump.
        kept = self.disk.load(key, name, self.options) if self.disk is not None and stages is None else None
        try:
            executable = kept or self.generate(lowered, name, stages)
        except Exception as error:
            self._describe(error, None if stages is None else stages.dump, node.subgraph.text())
            raise
        if self.disk is not None and kept is None:
            self.disk.store(key, executable)
        self._executables[text] = executable
        while len(self._executables) > MAX_EXECUTABLES:
            # Plans that launch it keep it alive.
            self._executables.popitem(last=False)
        milliseconds, why = (time.perf_counter() - started) * 1e3, self._why(node, lowered)
        if kept is not None:
            why += ", loaded from disk"
        log(self.options, "xla_compiler", 1, "%s: ready in %.1f ms (%s)", name, milliseconds, why)
        if self.report is not None:
            self.report.record_compile(name, milliseconds, why)
        return lowered, executable, None if stages is None else stages.dump

    def _describe(self, error: Exception, dump: ModuleDump | None, graph: str) -> None:
        """Write all that is known of a failure beside the module's other files, and add to it how to report it."""
        if dump is not None:
            dump.failure(f"{describe_failure(error, self.options)}\n{graph}")
        error.add_note(how_to_file(dump))

    def generate(self, lowered: LoweredCluster, name: str, stages: Stages | None = None) -> Executable:
        """Run the passes and generate code, whatever was compiled before."""
        # Imported here: eager programs and cached plans never load LLVM.
        from minitensor_jit.codegen.cpu.compiler import compile_module
        from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline

        if stages is not None:
            stages.before(lowered.module)
            if stages.dump is not None:
                stages.dump.repro(self.options.codegen.text())
        # Verified after each pass, so that a wrong rewrite is named instead of run; large modules only at the end.
        verify = stages is not None or lowered.module.instruction_count() <= VERIFIED
        fold = not self.options.disable_constant_folding
        loud = talks(self.options, "xla_compiler", 2)
        if loud:
            log(self.options, "xla_compiler", 2, "%s: as lowered\n%s", name, print_module(lowered.module))
        hooks = [stages.on_pass] if stages is not None else []
        if talks(self.options, "pass_manager", 1):
            hooks.append(self._log_pass)

        def on_pass(name: str, module: Module, changed: bool) -> None:
            for hook in hooks:
                hook(name, module, changed)

        pipeline = PipelineOptions(verify=verify, fold_constants=fold, on_pass=on_pass if hooks else None)
        module = run_pipeline(lowered.module, pipeline)
        if loud:
            log(self.options, "xla_compiler", 2, "%s: after the passes\n%s", name, print_module(module))
        if stages is not None:
            stages.after(module)
        dump = stages.code if stages is not None and stages.dump is not None else None
        profiled = self.options.hlo_profile
        executable = compile_module(module, name=name, fast_math=self.options.fast_math, profile=profiled, dump=dump)
        if executable.counters is not None:
            # Imported here: it measures the machine with tensors.
            from minitensor_jit.inspect.profile import register

            register(executable.counters)
        return executable

    def _log_pass(self, name: str, module: Module, changed: bool) -> None:
        count = sum(len(computation.instructions) for computation in module.computations)
        verb = "changed" if changed else "left"
        log(
            self.options,
            "pass_manager",
            1 if changed else 2,
            "%s %s %s: %d instructions",
            name,
            verb,
            module.name,
            count,
        )

    def _why(self, node: Node, lowered: LoweredCluster) -> str:
        """What is new about a cluster, compared with the last one of the same ops at the same lines."""
        assert node.subgraph is not None
        key = tuple((n.op, n.source) for n in node.subgraph if not n.is_argument)
        shapes = tuple(
            str(node.subgraph.meta(value)) for value, _ in lowered.parameters if not isinstance(value, StreamPosition)
        )
        before = self._seen.get(key)
        self._seen[key] = shapes
        if before is None:
            return "first use"
        for place, (old, new) in enumerate(zip(before, shapes, strict=False)):
            if old != new:
                return f"argument {place}: {old} became {new}"
        return "other results are used, or constants changed"


class _Plan:
    """Builds one plan."""

    def __init__(self, compiler: Compiler, trace: RecordedTrace, result: ClusteringResult) -> None:
        self.compiler = compiler
        self.trace = trace
        self.graph = result.graph
        self.steps: list[tuple[Any, ...]] = []
        self.reads: list[list[int]] = []  # per step, the leaves it reads
        self.writes: list[list[Value]] = []
        self.in_place: list[set[tuple[Value, int]]] = []  # per step: (result, leaf) that may share memory
        self.checks: list[tuple[int, int, int, int]] = []
        self.names: dict[Value, Value] = {}  # outputs of launches -> values of the recorded graph

    def build(self) -> tuple[list[tuple[Any, ...]], list[ValueRef], list[tuple[int, int, int, int]]]:
        for node in self.graph:
            if node.is_argument or node.kind == "constant":
                continue
            if node.op == LAUNCH:
                self.launch(node)
            else:
                self.op(node)
        return self.steps, self.deferred(), self.checks

    def original(self, value: Value) -> Value:
        """The value of the recorded graph that a value of the clustered one is."""
        value = self.names.get(value, value)
        if value[0] in self.graph:
            clone_of = self.graph.node(value[0]).attributes.get(CLONE_ATTRIBUTE)
            if clone_of is not None:
                return (clone_of, value[1])
        return value

    def op(self, node: Node) -> None:
        index = node.attributes.get(CLONE_ATTRIBUTE, node.id)
        refs = [self.trace.value_ref(self.original(value)) for value in node.inputs]
        self.steps.append(("op", index))
        self.reads.append([i for kind, i, _ in refs if kind == "leaf"])
        results = [(index, result) for result in range(len(node.outputs))]
        self.writes.append(results)
        whole = self.trace.leaves
        self.in_place.append(
            {
                (results[0], leaf)
                for leaf in self.reads[-1]
                if node.kind == "elementwise"
                and whole[leaf].offset == 0
                and whole[leaf].sizes == node.outputs[0].shape
                and whole[leaf].row_major
            }
        )

    def launch(self, node: Node) -> None:
        assert node.subgraph is not None
        name = str(node.params["function"])
        fetches = node.subgraph.fetches
        self.names.update(((node.id, place), value) for place, value in enumerate(fetches))
        try:
            lowered, executable, dump = self.compiler.compile(node)
        except InvalidArgumentError:
            raise
        except Exception as error:  # a defect must not stop the user's program: its ops run eagerly instead
            self.failed(node, name, error)
            return
        outer = {(arg.id, 0): value for arg, value in zip(node.subgraph.arguments, node.inputs, strict=True)}
        refs = [
            (
                ("random", value.node, 0)
                if isinstance(value, StreamPosition)
                else self.trace.value_ref(self.original(outer[value])),
                dtype,
            )
            for value, dtype in lowered.parameters
        ]
        outputs = [self.trace.value_ref(value) for value in fetches]
        children = [
            self.trace.launch_name(n.payload.node)
            for n in node.subgraph
            if n.payload is not None and n.kind != "argument"
        ]
        work = sum(shape.nbytes for shape in (*executable.parameter_shapes, *executable.result_shapes))
        self.steps.append(
            (
                "launch",
                executable.entry_address,
                refs,
                outputs,
                executable.scratch_bytes,
                work,
                executable,
                name,
                children,
                lowered.reports_errors,
                lowered.fallible,
                self.observer(name, node.subgraph, lowered, executable, dump),
            )
        )
        leaves = [ref[1] if ref[0] == "leaf" else -1 for ref, _ in refs]
        self.reads.append([leaf for leaf in leaves if leaf >= 0])
        self.writes.append(list(fetches))
        self.in_place.append(
            {
                (fetches[result], leaves[parameter])
                for result, parameter in executable.aliases
                if leaves[parameter] >= 0
                and self.trace.leaves[leaves[parameter]].offset == 0
                and self.trace.leaves[leaves[parameter]].row_major
            }
        )
        for check in lowered.checks:
            operand = next(
                n.payload
                for n in node.subgraph
                if n.payload is not None and n.kind != "argument" and n.payload.node == check.node
            ).operands[check.operand]
            self.checks.append((operand.index, check.low, check.high, check.node))

    def observer(
        self, name: str, graph: Graph, lowered: LoweredCluster, executable: Executable, dump: ModuleDump | None
    ) -> Observer | None:
        """Who looks at the runs of a launch."""
        options = self.compiler.options
        found: list[Observer | None] = [observer_for(options, name, graph, lowered, executable, dump)]
        if options.verify:
            # Imported here: it knows tensors and kernels, which the launcher does not need.
            from minitensor_jit.runtime.verify import Verifier

            found.append(Verifier(options, name, graph, lowered, executable, self.compiler.generate, dump))
        return together(observer for observer in found if observer is not None)

    def failed(self, node: Node, name: str, error: Exception) -> None:
        assert node.subgraph is not None
        if node.must_compile:
            if isinstance(error, JitError):
                raise InvalidArgumentError(name, str(error), node.source) from error
            raise error
        advice = "".join(f". {note}" for note in getattr(error, "__notes__", ())[-1:])
        logger.warning("compiling %s failed (%s: %s); its ops run eagerly%s", name, type(error).__name__, error, advice)
        logger.debug("the failure", exc_info=error)
        if self.compiler.report is not None:
            self.compiler.report.record_fallback(name, f"{type(error).__name__}: {error}")
        for inner in node.subgraph:
            if inner.is_argument or inner.kind == "constant":
                continue
            call = inner.payload
            self.steps.append(("op", call.node))
            self.reads.append([operand.index for operand in call.operands if operand.kind == "leaf"])
            self.writes.append([(call.node, result) for result in range(len(inner.outputs))])
            self.in_place.append(set())

    def deferred(self) -> list[ValueRef]:
        """Results that go to memory which is still read afterwards, or otherwise than element by element."""
        late = []
        # If an op inside a launch fails, all run again from what the trace reads, which must still be there.
        whole = any(step[0] == "launch" and step[_GUARDED] for step in self.steps)
        for value, home in self.trace.live.items():
            if home < 0:
                continue
            if whole:
                late.append(self.trace.value_ref(value))
                continue
            memory = self.trace.leaves[home].storage
            sharing = {i for i, leaf in enumerate(self.trace.leaves) if leaf.storage == memory}
            writer = next(step for step, values in enumerate(self.writes) if value in values)
            read_later = any(sharing.intersection(reads) for reads in self.reads[writer + 1 :])
            here = sharing.intersection(self.reads[writer])
            if read_later or not all((value, leaf) in self.in_place[writer] for leaf in here):
                late.append(self.trace.value_ref(value))
        return late
