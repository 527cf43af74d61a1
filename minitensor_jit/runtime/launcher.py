"""From a recorded trace to a launch plan: cluster, lower, optimise, emit code. Only for misses: hits stay in C++."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from weakref import ref

from minitensor import _C
from minitensor_jit.clustering.graph import Graph, Node
from minitensor_jit.clustering.mark_for_compilation import PROCESS_STATE
from minitensor_jit.clustering.pipeline import ClusteringResult, cluster
from minitensor_jit.clustering.verdict import Reason, Verdict
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.dump import ModuleDump, dumper_for
from minitensor_jit.inspect.filing import describe_failure, how_to_file
from minitensor_jit.inspect.report import Report
from minitensor_jit.inspect.stages import Stages, pictures_for, stages_for
from minitensor_jit.ir.decision import Decision
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.printer import print_module
from minitensor_jit.ir.size import NotSymbolic, SizeContext, Sizes, value_of
from minitensor_jit.log import log, talks
from minitensor_jit.lowering.lower import LoweredCluster, lower_cluster
from minitensor_jit.runtime.background import compile_later
from minitensor_jit.runtime.compilation_profile import ClusterProfile
from minitensor_jit.runtime.disk_cache import cache_at, key_of
from minitensor_jit.runtime.dynamic_shapes import Family, Place, Template, family_key, generalise, sizes_are_symbols
from minitensor_jit.runtime.executable import AnyExecutable, Executable
from minitensor_jit.runtime.executable_cache import ExecutableCache, module_id
from minitensor_jit.runtime.plan_builder import PlanBuilder
from minitensor_jit.runtime.plan_store import PlanStore
from minitensor_jit.runtime.ready import NotYet, Ready
from minitensor_jit.runtime.recorded import RecordedTrace
from minitensor_jit.runtime.trial import COMPILED_RUNS, EAGER_RUNS, Draft, Trial, Waiting

_MAX_PROFILES = 4096

_MOST_VARIANTS = 8
"""Of code for all sizes of the same dimensions, on disk."""

_used = threading.local()


@contextmanager
def noting_executables() -> Iterator[dict[str, Executable]]:
    """The executables that plans made inside use, by the ids of their modules."""
    previous = getattr(_used, "executables", None)
    _used.executables = {}
    try:
        yield _used.executables
    finally:
        _used.executables = previous


@dataclass
class _Job:
    """A compilation on the compiling thread."""

    pid: int
    done: bool = False
    error: Exception | None = None
    dump: ModuleDump | None = None
    """The writer of its dumps, if there are any."""


@contextmanager
def _no_collections() -> Iterator[None]:
    """Compiling makes many objects and hardly any cycles: looking for these would take a fifth of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _target(device: str) -> Any:
    """What code for a card is generated for."""
    from minitensor_jit.runtime.cuda.context import card

    return card(int(device.partition(":")[2])).target


def has_matrix_units(device: str) -> bool:
    """Whether products of float16 and bfloat16 are computed by units of their own."""
    return device != "cpu" and bool(_target(device).compute_capability >= (8, 0))


def _symbols(count: int) -> str:
    """How the dimensions are spoken of that are symbols."""
    return "s of a dimension" if count == 1 else ", ".join(f"s{n or ''}" for n in range(count)) + " of dimensions"


def _driver() -> str:
    from minitensor_jit.runtime.cuda.context import driver_version

    return "driver of CUDA {}.{}".format(*driver_version())


def compiler_of(device: str, numbers: Collection[int] = ()) -> Callable[..., AnyExecutable]:
    """What generates code for a device. `numbers` are the places of parameters whose values the host knows."""
    if device == "cpu":
        from minitensor_jit.codegen.cpu.compiler import compile_module

        return compile_module
    from minitensor_jit.runtime.cuda.compile import compile_for_card

    return partial(compile_for_card, int(device.partition(":")[2]), host_values=numbers)


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
        watched = self._inside or options.verify or self.dumper is not None or self.pictures is not None
        self.plans = (
            PlanStore(self.disk, options)
            if self.disk is not None and not watched and options.clustering_fuel is None
            else None
        )
        self.executables = ExecutableCache(options.executable_cache_bytes)
        # Compilers of sessions that ran under these options, with their numbers, by the session's level and flag.
        self.session_compilers: dict[tuple[int, bool], tuple[Compiler, int]] = {}
        self._seen: OrderedDict[tuple[Any, ...], tuple[Any, ...]] = OrderedDict()
        self._profiles: OrderedDict[tuple[Any, ...], ClusterProfile] = OrderedDict()
        self._families: OrderedDict[Hashable, Family] = OrderedDict()
        self._jobs: dict[str, _Job] = {}
        self._traces = itertools.count()
        self.lock = threading.RLock()  # held while it compiles
        if options.plan_cache_bytes != JitOptions().plan_cache_bytes:
            _C.set_plan_cache_limit(options.plan_cache_bytes)

    @property
    def size(self) -> int:
        """How many compiled clusters there are."""
        return len(self.executables)

    def clear(self) -> None:
        """Forget what was compiled; plans that still launch it keep it alive."""
        with self.lock:
            self.executables.clear()
            self._seen.clear()
            self._profiles.clear()
            self._families.clear()

    # ---- the plan

    def recall(self, signature: bytes) -> tuple[memoryview, list[tuple[int, Executable]], str] | None:
        """The plan of a trace with that signature, if an earlier process kept it on disk.

        As the core wrote it, with the code of its launches, and a name for them.
        """
        if self.plans is None or self.report is not None:
            return None
        with self.lock, _no_collections():
            started = time.perf_counter()
            name = "cluster" if self.options.deterministic_cluster_names else PROCESS_STATE.next_name()
            found = self.plans.load(signature, name)
            if found is None:
                return None
            plan, modules = found
            noted = getattr(_used, "executables", None)
            code = []
            for module, loaded in modules:
                known = self.executables.find(module)
                executable = known if isinstance(known, Executable) else loaded
                self.executables.insert(module, executable, keep=False)
                if noted is not None:
                    noted[module] = executable
                code.append((executable.entry_address, executable))
            milliseconds = (time.perf_counter() - started) * 1e3
            log(self.options, "xla_compiler", 1, "%s: ready in %.1f ms (its plan was on disk)", name, milliseconds)
            return plan, code, name

    def plan(
        self,
        nodes: Sequence[Any],
        leaves: Sequence[Any],
        scalars: Sequence[Any],
        policy: Trial | Waiting | None = None,
    ) -> tuple[Any, ...]:
        """The plan of a trace, in the form that the core reads.

        Steps, deferred results, bounds checks, account, policy, after how many runs to ask that, number of clusters to
        measure, counters of runs, what keeps these, and what keeps the plan on disk or None.
        """
        with self.lock, _no_collections():
            if isinstance(policy, Trial):
                return self._after_trial(policy)
            if policy is None:
                trace = RecordedTrace(nodes, leaves, scalars, f"trace_{next(self._traces)}")
                result = cluster(trace.graph, self.options)
                if self.dumper is not None:
                    self.dumper.graphs(trace.graph.name, result.texts, trace.graph.dot())
                draft = Draft(trace, result)
            else:
                draft = policy.draft
            return self._plan(draft)

    def _plan(self, draft: Draft) -> tuple[Any, ...]:
        builder = self._builder(draft, {})
        built = builder.build()
        keep = partial(self._keep, builder.modules) if builder.modules and not builder.waiting else None
        record = self._record(draft, builder.waiting)
        counters = [profile.address for profile in builder.profiles]
        held = tuple(builder.profiles)
        if builder.pending:
            jobs = [module for module in builder.pending if module]
            waiting = Waiting(draft, lambda: all(self._finished(module) for module in jobs))
            return (*built, record, waiting, 1, 0, counters, held, None)
        plan = (*built, record, None, -1, 0, counters, held, keep)
        # Code that measures itself is slower for it.
        if not self.options.measure_clusters or self.options.hlo_profile or not builder.launched:
            return plan
        trial = Trial(draft, builder.clusters, frozenset(builder.launched), plan)
        return (*built, record, trial, COMPILED_RUNS, len(builder.clusters), counters, held, keep)

    def _keep(self, modules: Sequence[str], signature: bytes, plan: bytes) -> None:
        if self.plans is not None:
            with self.lock:
                self.plans.store(signature, plan, modules)

    def _after_trial(self, trial: Trial) -> tuple[Any, ...]:
        if trial.measures_ops:
            reason = Verdict(reason=Reason.MEASURED_LOSS, detail="it is being measured")
            builder = self._builder(trial.draft, dict.fromkeys(trial.candidates, reason))
            return (*builder.build(), trial.plan[3], trial, EAGER_RUNS, len(builder.clusters), *trial.plan[7:])
        losers = {name: Verdict(reason=Reason.MEASURED_LOSS, detail=figures) for name, figures in trial.losers.items()}
        if not losers:
            return trial.plan
        for name, verdict in losers.items():
            log(self.options, "xla_compiler", 1, "%s runs op by op from now on: %s", name, verdict.detail)
        builder = self._builder(trial.draft, losers)
        return (*builder.build(), self._record(trial.draft, losers), None, -1, 0, *trial.plan[7:])

    def _builder(self, draft: Draft, eager: Mapping[str, Verdict]) -> PlanBuilder:
        return PlanBuilder(draft.trace, draft.result, self.options, self.report, self, eager)

    def _record(self, draft: Draft, eager: Mapping[str, Verdict]) -> Any:
        """Enter the trace into the account; `eager` says why clusters are not launched."""
        if self.report is None:
            return None
        result = draft.result
        if eager:
            verdicts = {id: eager.get(verdict.cluster or "", verdict) for id, verdict in result.verdicts.items()}
            clusters = [one for one in result.clusters if one.name not in eager]
            result = ClusteringResult(result.graph, clusters, verdicts, result.texts)
        return self.report.record_trace(draft.trace.graph, result, runs=0)

    # ---- one cluster

    def compile(self, node: Node, *, alone: bool = False) -> Ready | NotYet:
        """Compile the graph inside a cluster's node, unless an equal one was compiled before.

        An op `alone` is what an eager op on a card is: it is compiled at once.
        """
        assert node.subgraph is not None
        name = str(node.params["function"])
        started = time.perf_counter()
        profile = None if node.must_compile or alone else self._profile(node)
        if self._dynamic and node.device == "cpu":
            ready = self._for_all_sizes(node, name, profile)
            if ready is not None:
                return ready
        try:
            lowered = lower_cluster(node.subgraph, name)
        except Exception as error:
            dump = self.dumper.module(name) if self.dumper is not None else None
            self._describe(error, dump, node.subgraph.text())
            raise
        lowered.module.name = "cluster"
        # Code that measures itself is told apart by the lines that it is measured for.
        text = print_module(lowered.module, metadata=self.options.hlo_profile)
        lowered.module.name = name
        if node.device != "cpu":
            text = f"{_target(node.device)}, by value: {lowered.numbers}\n{text}"
        module = module_id(text)
        known = self.executables.find(module)
        if known is not None:
            job = self._jobs.pop(module, None)
            if self.report is not None:
                self.report.record_hit(name)
            return self._ready(lowered, known, module, profile, None if job is None else job.dump)
        if profile is not None:
            decision = profile.asks(module, self.options) if module not in self._jobs else Decision.allow()
            if not decision:
                final = self.options.always_defer_compilation or profile.megamorphic
                return NotYet(decision.reason, profile, final=final)
            if self.options.async_compilation:
                job = self._jobs.get(module)
                if job is None or job.pid != os.getpid():
                    self._start(node, lowered, text, module, profile)
                elif job.done:
                    # Its code was there, and had to go for want of room; or it failed.
                    del self._jobs[module]
                    if job.error is not None:
                        raise job.error
                    self._start(node, lowered, text, module, profile)
                return NotYet("a thread is compiling it", profile, job=module)
        stages = self._stages(node, lowered)
        why = self._why(node, lowered)
        graph = node.subgraph.text
        keep = profile is not None or alone
        executable = self._make(lowered, text, module, started, why, stages, graph, node.device, keep=keep)
        if profile is not None:
            profile.compiled(module)
        return self._ready(lowered, executable, module, profile, None if stages is None else stages.dump)

    def _stages(self, node: Node, lowered: LoweredCluster) -> Stages | None:
        return stages_for(lowered.module, int(node.params["num_constant_args"]), self.dumper, self.pictures)

    @property
    def _inside(self) -> bool:
        """Whether somebody looks at the numbers that clusters read and give."""
        o = self.options
        return bool(o.check_cluster_input_numerics or o.check_cluster_output_numerics or o.print_cluster_outputs)

    @cached_property
    def _dynamic(self) -> bool:
        """Whether clusters are compiled for all sizes of a dimension. Who looks inside wants to see numbers."""
        o = self.options
        watched = self._inside or o.hlo_profile or self.dumper is not None or self.pictures is not None
        return o.dynamic_shapes and not o.async_compilation and not o.always_defer_compilation and not watched

    def _for_all_sizes(self, node: Node, name: str, profile: ClusterProfile | None) -> Ready | None:
        """Code that was compiled for all sizes of dimensions, or is now, the second time that these differ."""
        graph = node.subgraph
        assert graph is not None
        key = (node.must_compile, family_key(graph))
        family = self._families.pop(key, None) or Family()
        self._families[key] = family
        if len(self._families) > _MAX_PROFILES:
            self._families.popitem(last=False)
        for template in family.templates:
            executable = template.executable()
            sizes = template.sizes_in(graph) if executable is not None else None
            if executable is not None and sizes is not None:
                if self.report is not None:
                    self.report.record_hit(name)
                return self._ready(template.lowered, executable, "", profile, sizes=sizes)
        if family.refusal:
            return None
        for before in family.candidates():
            try:
                general = generalise(before, graph, family.most_symbols)
            except NotSymbolic as refusal:
                log(self.options, "xla_compiler", 2, "%s: compiled for its sizes only: %s", name, refusal)
                continue
            try:
                template, executable = self._compile_for_all_sizes(*general, node, name)
            except Exception as error:  # what can't be said of sizes that are symbols can be of numbers
                if len(general[2]) > 1:  # perhaps of one of them
                    family.most_symbols = 1
                    log(self.options, "xla_compiler", 1, "%s: no code for several symbols: %s", name, error)
                    continue
                family.refusal = f"{type(error).__name__}: {error}"
                log(self.options, "xla_compiler", 1, "%s: compiled for its sizes only: %s", name, family.refusal)
                break
            family.templates = [one for one in family.templates if one.executable() is not None]
            family.templates.append(template)
            family.remember(graph)
            if profile is not None:
                profile.compiled("")
            return self._ready(template.lowered, executable, "", profile, sizes=template.context.hints)
        family.remember(graph)
        return None

    def _compile_for_all_sizes(
        self, graph: Graph, context: SizeContext, places: tuple[Place, ...], node: Node, name: str
    ) -> tuple[Template, AnyExecutable]:
        started = time.perf_counter()
        with sizes_are_symbols(context):
            lowered = lower_cluster(graph, name, symbols=len(places))
            lowered.module.name = "cluster"
            text = print_module(lowered.module, metadata=False)
            lowered.module.name = name
            executable, kept = self._kept_or_generated(lowered, name, f"{text}\n{context.expressions}")
        milliseconds = (time.perf_counter() - started) * 1e3
        guards = ", ".join(f"{n} > 0 is {answer}" for n, answer in context.guards) or "none"
        here = ", ".join(map(str, context.hints))
        what = f"for all sizes {_symbols(len(places))}, here {here}{', loaded from disk' if kept else ''}"
        log(self.options, "xla_compiler", 1, "%s: ready in %.1f ms (%s; guards: %s)", name, milliseconds, what, guards)
        if self.report is not None:
            self.report.record_compile(name, milliseconds, what)
        self.executables.insert(module_id(f"{text} {context.hints}"), executable, keep=not node.must_compile)
        return Template(graph, context, places, lowered, ref(executable)), executable

    def _kept_or_generated(self, lowered: LoweredCluster, name: str, text: str) -> tuple[AnyExecutable, bool]:
        """Code for all sizes, and whether it is from disk, where there are several entries: each has its guards."""
        if self.disk is None:
            return self.generate(lowered, name), False
        for variant in range(_MOST_VARIANTS):
            key = key_of(module_id(f"{text}\nvariant {variant}"), self.options)
            kept = self.disk.load(key, name, self.options)
            if kept is not None:
                return kept, True
            if not self.disk.has(key):
                break
        executable = self.generate(lowered, name)
        self.disk.store(key, executable)
        return executable, False

    def _ready(
        self,
        lowered: LoweredCluster,
        executable: AnyExecutable,
        module: str,
        profile: ClusterProfile | None,
        dump: ModuleDump | None = None,
        sizes: Sizes = (),
    ) -> Ready:
        noted = getattr(_used, "executables", None)
        # Code that measures itself has addresses of this process in it: no pickle takes it along, nor code for cards.
        if noted is not None and not sizes and executable.counters is None and isinstance(executable, Executable):
            noted[module] = executable
        work = sum(value_of(s.nbytes, sizes) for s in (*executable.parameter_shapes, *executable.result_shapes))
        scratch = value_of(executable.scratch_bytes, sizes)
        return Ready(lowered, executable, scratch, work, sizes, profile, dump, "" if sizes else module)

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
        card = "" if device == "cpu" else f"{_target(device)}, {_driver()}"
        key = key_of(module, self.options, card) if self.disk is not None else ""
        # What is on disk has no stages to dump.
        kept = self.disk.load(key, name, self.options) if self.disk is not None and stages is None else None
        try:
            executable = kept or self.generate(lowered, name, stages, device=device, text=text)
        except Exception as error:
            self._describe(error, None if stages is None else stages.dump, graph())
            raise
        if self.disk is not None and kept is None:
            self.disk.store(key, executable)
        self.executables.insert(module, executable, keep=keep)
        milliseconds = (time.perf_counter() - started) * 1e3
        if kept is not None:
            why += ", loaded from disk"
        log(self.options, "xla_compiler", 1, "%s: ready in %.1f ms (%s)", name, milliseconds, why)
        if self.report is not None:
            self.report.record_compile(name, milliseconds, why)
        return executable

    def _profile(self, node: Node) -> ClusterProfile:
        assert node.subgraph is not None
        key = tuple((n.op, n.source) for n in node.subgraph if not n.is_argument)
        profile = self._profiles.get(key)
        if profile is None:
            profile = self._profiles[key] = ClusterProfile()
            if len(self._profiles) > _MAX_PROFILES:
                self._profiles.popitem(last=False)
        return profile

    # ---- compiling while the program goes on

    def _start(self, node: Node, lowered: LoweredCluster, text: str, module: str, profile: ClusterProfile) -> None:
        job = self._jobs[module] = _Job(os.getpid())
        profile.compiled(module)
        assert node.subgraph is not None
        why, stages, graph = self._why(node, lowered), self._stages(node, lowered), node.subgraph.text
        job.dump = None if stages is None else stages.dump

        def work() -> None:
            try:
                self._make(lowered, text, module, time.perf_counter(), why, stages, graph, node.device, keep=True)
            except Exception as error:  # raised where the plan is made, which falls back
                job.error = error
            job.done = True

        compile_later(work)

    def _finished(self, module: str) -> bool:
        job = self._jobs.get(module)
        return job is None or job.done or job.pid != os.getpid()

    def _describe(self, error: Exception, dump: ModuleDump | None, graph: str) -> None:
        """Write all that is known of a failure beside the module's other files, and add to it how to report it."""
        if dump is not None:
            dump.failure(f"{describe_failure(error, self.options)}\n{graph}")
        error.add_note(how_to_file(dump))

    def generate(
        self, lowered: LoweredCluster, name: str, stages: Stages | None = None, *, device: str = "cpu", text: str = ""
    ) -> AnyExecutable:
        """Run the passes and generate code, whatever was compiled before. `text` is the module's, if it has one."""
        # Imported here: eager programs and cached plans never load LLVM.
        from minitensor_jit.ir.verifier import VerificationError
        from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline

        if stages is not None:
            stages.before(lowered.module)
            if stages.dump is not None:
                stages.dump.repro(self.options.codegen.text())
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

        pipeline = PipelineOptions(
            verify=stages is not None,
            fold_constants=fold,
            fast_math=self.options.fast_math,
            reduce_precision=self.options.reduce_precision,
            gpu=device != "cpu",
            narrow_products=has_matrix_units(device),
            on_pass=on_pass if hooks else None,
        )
        try:
            module = run_pipeline(lowered.module, pipeline)
        except VerificationError:
            if not pipeline.verify and text and device == "cpu":
                # Once more, verified after every pass: that names the wrong one.
                from minitensor_jit.ir.parser import parse_module

                run_pipeline(parse_module(text), replace(pipeline, verify=True, on_pass=None))
            raise
        if loud:
            log(self.options, "xla_compiler", 2, "%s: after the passes\n%s", name, print_module(module))
        if stages is not None:
            stages.after(module)
        writers = [stages.code] if stages is not None and stages.dump is not None else []
        if talks(self.options, "codegen", 2):
            writers.append(self._log_buffers)

        def dump(kind: str, text: str) -> None:
            for write in writers:
                write(kind, text)

        compile_module = compiler_of(device, lowered.numbers)
        executable: AnyExecutable = compile_module(
            module,
            name=name,
            fast_math=self.options.fast_math,
            profile=self.options.hlo_profile,
            dump=dump if writers else None,
        )
        if talks(self.options, "codegen", 1):
            times = ", ".join(f"{stage} {1e3 * taken:.1f} ms" for stage, taken in executable.compile_seconds.items())
            what = "%s: kernels: %d, %d bytes of scratch memory, %d bytes of code; %s"
            scratch, code = executable.scratch_bytes, len(executable.object_code)
            log(self.options, "codegen", 1, what, name, executable.kernels, scratch, code, times)
        if executable.counters is not None:
            # Imported here: it measures the machine with tensors.
            from minitensor_jit.inspect.profile import register

            register(executable.counters)
        return executable

    def _log_buffers(self, kind: str, text: str) -> None:
        if kind == "buffer-assignment.txt":
            log(self.options, "codegen", 2, "%s", text.rstrip())

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
        shapes = tuple(str(node.subgraph.meta(value)) for value, _ in lowered.parameters if isinstance(value, tuple))
        before = self._seen.pop(key, None)
        self._seen[key] = shapes
        if len(self._seen) > _MAX_PROFILES:
            self._seen.popitem(last=False)
        if before is None:
            return "first use"
        for place, (old, new) in enumerate(zip(before, shapes, strict=False)):
            if old != new:
                return f"argument {place}: {old} became {new}"
        return "other results are used, or constants changed"
