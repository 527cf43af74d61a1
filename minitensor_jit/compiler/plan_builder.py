"""Builds one launch plan of a clustered graph: its steps, where results go, what is checked before it runs."""

from __future__ import annotations

import logging
from functools import partial
from typing import Protocol

from minitensor import _C
from minitensor_jit.clustering.graph import CLONE_ATTRIBUTE, COMPILE, LAUNCH, RUN, Graph, Node, Value
from minitensor_jit.clustering.pipeline import ClusteringResult
from minitensor_jit.clustering.unclustered_reason import Reason, Verdict
from minitensor_jit.compiler.backend import backend_of
from minitensor_jit.compiler.compiled_cluster import Ready
from minitensor_jit.compiler.plan_steps import LaunchStep, Step
from minitensor_jit.compiler.trace_to_graph import RecordedTrace, ValueRef
from minitensor_jit.errors import CompileError, CudaError, InvalidArgumentError, JitError
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.numerics.launch_observer import Observer, observer_for, together
from minitensor_jit.inspect.refusal_row import RefusalRow
from minitensor_jit.inspect.report import Report
from minitensor_jit.inspect.run_record import recording
from minitensor_jit.ir.decision import Decision
from minitensor_jit.ir.opcode import Trait, opcodes_with
from minitensor_jit.ir.refusal import Refused
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.size import value_of
from minitensor_jit.lowering.lower import LoweredCluster, SizeArgument, StreamPosition
from minitensor_jit.runtime.executable import AnyExecutable, Executable

__all__ = ["PlanBuilder"]

logger = logging.getLogger("minitensor_jit")

_FALLIBLE = opcodes_with(Trait.FALLIBLE)


class Compiles(Protocol):
    """What compiles clusters."""

    def compile(self, node: Node, *, alone: bool = False) -> Ready:
        """Code for the graph inside a cluster's node, or of an op `alone`."""
        ...

    def generate(self, lowered: LoweredCluster, name: str, *, device: str = "cpu") -> AnyExecutable:
        """Code for a module, whatever was compiled before."""
        ...


class PlanBuilder:
    """Builds one plan."""

    def __init__(
        self,
        trace: RecordedTrace,
        result: ClusteringResult,
        options: JitOptions,
        report: Report | None,
        compiler: Compiles,
    ) -> None:
        self.trace = trace
        self.graph = result.graph
        self.options = options
        self.report = report
        self.compiler = compiler
        self.steps: list[Step] = []
        self.reads: list[list[int]] = []  # per step, the leaves it reads
        self.writes: list[list[Value]] = []
        self.in_place: list[set[tuple[Value, int]]] = []  # per step: (result, input) that may share memory
        self.calling: set[int] = set()  # steps whose code may fail in the middle
        self.checks: list[tuple[int, int, int, int]] = []
        self.names: dict[Value, Value] = {}  # outputs of launches -> values of the recorded graph
        self.may_lose = False  # whether ops may run in the place of some launch
        self.waiting: dict[str, Verdict] = {}  # clusters that are not to be compiled, with the reason
        # The ids of the modules that the launches run, for a plan to be kept on disk; None for one that can't be.
        self.modules: list[str] | None = []

    def build(self) -> tuple[list[Step], list[ValueRef], list[tuple[int, int, int, int]]]:
        """(steps, deferred results, bounds checks), as the core reads them."""
        _C._compiler_point()
        for node in self.graph:
            if node.is_argument or node.kind == "constant" or node.op == COMPILE:
                continue
            if node.op in (LAUNCH, RUN):
                self.cluster(node)
            else:
                index = node.attributes.get(CLONE_ATTRIBUTE, node.id)
                refs = [self.trace.value_ref(self.original(value)) for value in node.inputs]
                self.op(node, index, [i for kind, i, _ in refs if kind == "input"])
        return self.steps, self.deferred(), self.checks

    def original(self, value: Value) -> Value:
        """The value of the recorded graph that a value of the clustered one is."""
        value = self.names.get(value, value)
        if value[0] in self.graph:
            clone_of = self.graph.node(value[0]).attributes.get(CLONE_ATTRIBUTE)
            if clone_of is not None:
                return (clone_of, value[1])
        return value

    def op(self, node: Node, index: int, reads: list[int]) -> None:
        """A step that runs the op of a recorded node by its kernel: on a GPU, that is its lowering compiled alone."""
        if node.device != "cpu" and self.alone(index):
            return
        self.steps.append(index)
        self.reads.append(reads)
        results = [(index, result) for result in range(len(node.outputs))]
        self.writes.append(results)
        whole = self.trace.inputs
        self.in_place.append(
            {
                (results[0], input)
                for input in reads
                if node.kind == "elementwise"
                and whole[input].offset == 0
                and whole[input].sizes == node.outputs[0].shape
                and whole[input].row_major
            }
        )

    def alone(self, index: int) -> bool:
        """A launch of one op on a GPU; False if the GPU has no code for it, and it runs on the host."""
        graph = self.trace.graph
        node = graph.node(index)
        if node.by_kernel or not node.compilable:
            return False
        inner = Graph(name=node.op)
        free = graph.free_id()
        inputs: dict[Value, Value] = {}
        for value in dict.fromkeys(node.inputs):
            source = graph.node(value[0])
            if source.is_constant:
                inner.add(source)
                continue
            argument = (free + len(inputs), 0)
            inputs[value] = argument
            payload = source.payload if source.is_argument else None
            inner.add_argument(argument[0], graph.meta(value), payload=payload, device=node.device)
        inner.add(node.copy(inputs=tuple(inputs.get(value, value) for value in node.inputs)))
        inner.fetches = [(index, result) for result in range(len(node.outputs))]
        launch = Node(
            free + len(inputs),
            LAUNCH,
            inputs=tuple(inputs),
            outputs=node.outputs,
            params={"function": node.op, "num_constant_args": 0},
            kind="cluster",
            device=node.device,
            source=node.source,
            subgraph=inner,
        )
        try:
            ready = self.compiler.compile(launch, alone=True)
        except CompileError as error:
            if self.report is not None:
                self.report.record_fallback(node.op, f"it runs on the host, over copies: {error}")
            logger.info("%s on %s runs on the host, over copies: %s", node.op, node.device, error)
            return False
        except CudaError:
            raise
        except Exception as error:
            self._warn(node.op, error, "it runs on the host")
            return False
        self.launch(launch, node.op, ready)
        return True

    def cluster(self, node: Node) -> None:
        """The steps of a cluster: its launch, or its ops."""
        assert node.subgraph is not None
        name = str(node.params["function"])
        fetches = node.subgraph.fetches
        self.names.update(((node.id, place), value) for place, value in enumerate(fetches))
        if self.options.always_defer_compilation and not node.must_compile:
            self.waiting[name] = Verdict(reason=Reason.WAITING, detail="--always_defer_compilation is set")
            self.ops_of(node)
            return
        try:
            ready = self.compiler.compile(node)
        except (InvalidArgumentError, CudaError):
            raise
        except Exception as error:  # a defect must not stop the user's program: its ops run eagerly instead
            self.failed(node, name, error)
            return
        self.launch(node, name, ready)

    def launch(self, node: Node, name: str, ready: Ready) -> None:
        """A step that runs compiled code."""
        assert node.subgraph is not None
        lowered, executable = ready.lowered, ready.executable
        fetches = node.subgraph.fetches
        outer = {(arg.id, 0): value for arg, value in zip(node.subgraph.arguments, node.inputs, strict=True)}
        refs: list[tuple[tuple[str, int, int], str]] = [
            (
                ("random", value.node, 0)
                if isinstance(value, StreamPosition)
                else ("size", ready.sizes[value.number], 0)
                if isinstance(value, SizeArgument)
                else self.trace.value_ref(self.original(outer[value])),
                dtype,
            )
            for value, dtype in lowered.parameters
        ]
        outputs = [self.trace.value_ref(value) for value in fetches]
        inside = [n.payload for n in node.subgraph if n.payload is not None and n.kind != "argument"]
        observer = self.observer(name, node.subgraph, ready, node.device)
        gpu = int(node.device.partition(":")[2]) if node.device != "cpu" else -1
        may_lose = not node.must_compile and observer is None and gpu < 0
        self.may_lose |= may_lose
        program = None if isinstance(executable, Executable) else executable.on(gpu).bound(self.host_inputs(refs))
        self.steps.append(
            LaunchStep(
                entry=executable.entry_address,
                inputs=refs,
                outputs=outputs,
                scratch_bytes=ready.scratch_bytes,
                work_bytes=ready.work_bytes,
                executable=executable,
                name=name,
                inside=[call.node for call in inside],
                reports_errors=lowered.reports_errors,
                guarded=lowered.fallible,
                observer=observer,
                may_lose=may_lose,
                program=program,
                gpu=gpu,
            )
        )
        # A lowering of the user's may be another one next time.
        ours = "minitensor."
        known = all(str(getattr(call.row.lower, "__module__", ours)).startswith(ours) for call in inside)
        if not ready.module or not known or observer is not None or gpu >= 0:
            self.modules = None
        if self.modules is not None:
            self.modules.append(ready.module)
        if not _FALLIBLE.isdisjoint(executable.instructions):
            self.calling.add(len(self.steps) - 1)
        inputs = [ref[1] if ref[0] == "input" else -1 for ref, _ in refs]
        self.reads.append([input for input in inputs if input >= 0])
        self.writes.append(list(fetches))
        # The executable's last result may say whether an op failed: it is no value of the graph.
        self.in_place.append(
            {
                (fetches[result], inputs[parameter])
                for result, parameter in executable.aliases
                if result < len(fetches)
                and inputs[parameter] >= 0
                # What isn't row-major is a parameter over its memory, in its order.
                and self.trace.inputs[inputs[parameter]].offset == 0
            }
            | {
                (fetches[result], inputs[parameter])
                for result, parameter in executable.read_before
                if result < len(fetches) and inputs[parameter] >= 0
            }
        )
        for check in lowered.checks:
            operand = next(
                n.payload
                for n in node.subgraph
                if n.payload is not None and n.kind != "argument" and n.payload.node == check.node
            ).operands[check.operand]
            low, high = value_of(check.low, ready.sizes), value_of(check.high, ready.sizes)
            self.checks.append((operand.index, low, high, low if check.ignored is None else check.ignored))

    def host_inputs(self, refs: list[tuple[ValueRef, str]]) -> list[int]:
        """The inputs of a launch on a GPU that the host knows: numbers, sizes, places in streams, what the CPU has."""
        found = []
        for place, ((kind, index, _), _) in enumerate(refs):
            there = (kind == "input" and self.trace.inputs[index].device != "cpu") or (
                kind == "node" and self.trace.graph.node(index).device != "cpu"
            )
            if not there:
                found.append(place)
        return found

    def observer(self, name: str, graph: Graph, ready: Ready, device: str) -> Observer | None:
        """Who observes the runs of a launch."""
        lowered, executable, dump = ready.lowered, ready.executable, ready.dump
        found: list[Observer | None] = [observer_for(self.options, name, graph, lowered, executable, dump)]
        if self.options.verify:
            # Imported here: it knows tensors and kernels, which the launcher does not need.
            from minitensor_jit.inspect.numerics.verify import Verifier

            generate = partial(self.compiler.generate, device=device)
            found.append(Verifier(self.options, name, graph, lowered, executable, generate, dump, ready.sizes))
        if (record := recording()) is not None and backend_of(device).records:
            found.append(record.probe(name))
        return together(observer for observer in found if observer is not None)

    def failed(self, node: Node, name: str, error: Exception) -> None:
        """A cluster that the compiler has no code for, by a defect of it."""
        if node.must_compile:
            if isinstance(error, JitError):
                raise InvalidArgumentError(name, str(error), node.source) from error
            raise error
        self._warn(name, error, "its ops run eagerly")
        self.ops_of(node)

    def _warn(self, name: str, error: Exception, instead: str) -> None:
        advice = "".join(f". {note}" for note in getattr(error, "__notes__", ())[-1:])
        logger.warning("compiling %s failed (%s: %s); %s%s", name, type(error).__name__, error, instead, advice)
        logger.debug("the failure", exc_info=error)
        if self.report is not None:
            self.report.record_fallback(name, f"{type(error).__name__}: {error}")

    def ops_of(self, node: Node) -> None:
        """The ops of a cluster, one by one."""
        assert node.subgraph is not None
        for inner in node.subgraph:
            if inner.is_argument or inner.kind == "constant":
                continue
            call = inner.payload
            reads = [operand.index for operand in call.operands if operand.kind == "input"]
            self.op(inner, call.node, reads)

    def deferred(self) -> list[ValueRef]:
        """Results that go to memory which is still read afterwards, or otherwise than element by element."""
        late: list[ValueRef] = []
        # If an op inside a launch fails, all run again from what the trace reads, which must still be there.
        whole = any(isinstance(step, LaunchStep) and step.guarded for step in self.steps)
        for value, home in self.trace.live.items():
            if home < 0:
                continue
            if whole:
                late.append(self.trace.value_ref(value))
                why = "an op beside it may raise an error, and then what it replaces is needed"
                self.not_in_place(value, Refused.MAY_FAIL.because(why))
                continue
            writer = next(step for step, values in enumerate(self.writes) if value in values)
            if writer in self.calling:
                late.append(self.trace.value_ref(value))
                why = "its cluster calls what may lack memory, and then what it replaces is needed"
                self.not_in_place(value, Refused.MAY_FAIL.because(why))
                continue
            memory = self.trace.inputs[home].storage
            sharing = {i for i, input in enumerate(self.trace.inputs) if input.storage == memory}
            read_later = any(sharing.intersection(reads) for reads in self.reads[writer + 1 :])
            here = sharing.intersection(self.reads[writer])
            if read_later or not all((value, input) in self.in_place[writer] for input in here):
                late.append(self.trace.value_ref(value))
                if read_later:
                    decision = Refused.READ_LATER.because("a later step of the program reads what it replaces")
                else:
                    why = "its cluster reads what it replaces elsewhere than where it writes, or afterwards"
                    decision = Refused.OTHER_PLACE.because(why)
                self.not_in_place(value, decision)
        return late

    def not_in_place(self, value: Value, decision: Decision) -> None:
        """Enter that a cluster's result is computed elsewhere, and copied to its place."""
        step = next(step for step, values in zip(self.steps, self.writes, strict=True) if value in values)
        if self.report is None or not isinstance(step, LaunchStep):
            return
        node = self.trace.graph.node(value[0])
        meta = node.outputs[value[1]]
        assert decision.why is not None
        nbytes = 2 * Shape(meta.dtype, meta.shape).nbytes
        name = f"{node.op}_{node.id}"
        row = RefusalRow(
            "buffer-assignment", decision.why, decision.reason, name, node.op, node.source, "", "", None, nbytes, 0
        )
        self.report.record_refusal(step.name, row)
