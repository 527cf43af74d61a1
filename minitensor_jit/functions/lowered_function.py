"""A compiled function's stages, for `function(...).lower(*args)`: what it becomes on its way to machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minitensor import _C
from minitensor.random import default_generator
from minitensor_jit.api import current_compiler
from minitensor_jit.clustering.graph import LAUNCH, Graph, Node
from minitensor_jit.clustering.pipeline import ClusteringResult, cluster
from minitensor_jit.clustering.state import ClusteringState
from minitensor_jit.compiler.backend import backend_of
from minitensor_jit.compiler.compiled_cluster import Ready
from minitensor_jit.compiler.plan_builder import PlanBuilder
from minitensor_jit.compiler.trace_to_graph import RecordedTrace
from minitensor_jit.flags import JitOptions
from minitensor_jit.ir.analysis.cost_analysis import Cost, cost_of
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.text.graphviz import print_dot
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.lowering.lower import LoweredCluster, lower_cluster
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["Compiled", "Lowered", "MemoryAnalysis", "lower"]

STAGES = ("graph", "hlo", "dot", "optimized_hlo", "optimized_dot", "buffer-assignment", "llvm", "optimized_llvm", "asm")


@dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """Memory of one call, in bytes. Blocks are counted as the allocator rounds them."""

    argument_size_in_bytes: int
    """What the call reads: arguments, and captured tensors."""
    output_size_in_bytes: int
    """New memory for results."""
    alias_size_in_bytes: int
    """Results that go to memory which exists: of arguments and captured tensors that are written in place."""
    temp_size_in_bytes: int
    """Scratch memory, and copies of results that may not be written before everything has been read."""
    generated_code_size_in_bytes: int
    """Machine code, with its data."""

    @property
    def peak_memory_in_bytes(self) -> int:
        """What a call adds to the allocator's `allocated_bytes` at the most."""
        return self.output_size_in_bytes + self.temp_size_in_bytes


class Lowered:
    """A function, recorded for certain arguments and lowered to HLO; nothing has run."""

    def __init__(self, function: Any, trace: RecordedTrace, graph: Graph, node: Node | None) -> None:
        self._function = function
        self._trace = trace
        self._graph = graph
        self._node = node

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self._function, "__name__", "function"))

    def as_text(self, stage: str = "hlo") -> str:
        """The function at a stage; ValueError for an unknown one.

        `graph` of ops, `hlo` as lowered, `optimized_hlo`, `buffer-assignment`, `llvm` as generated, `optimized_llvm`,
        `asm`; or HLO drawn for graphviz, `dot` and `optimized_dot`.
        """
        if stage not in STAGES:
            raise ValueError(f"unknown stage {stage!r}; the stages are {', '.join(STAGES)}")
        if stage == "graph":
            return self._graph.text()
        if stage in ("hlo", "dot"):
            module = self._module().module
            return print_module(module) if stage == "hlo" else print_dot(module)
        return self.compile().as_text(stage)

    def compile(self) -> Compiled:
        """The same with machine code."""
        return Compiled(self)

    def cost_analysis(self) -> dict[str, float]:
        """The costs of the HLO as it was lowered; see `Compiled.cost_analysis`."""
        return _cost_table(cost_of(self._module().module))

    def _module(self) -> LoweredCluster:
        """The HLO, anew: passes change modules."""
        if self._node is None or self._node.subgraph is None:
            raise ValueError(f"{self.name} computes nothing: it has no HLO")
        return lower_cluster(self._node.subgraph, self.name)


class Compiled:
    """A function, compiled for certain arguments. Calls go to the function itself, which finds its program."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        options = current_compiler().options
        self._cluster = lowered._module()
        device = "cpu" if lowered._node is None else lowered._node.device
        backend = backend_of(device)
        pipeline = backend.pipeline_options(options, self._cluster.rounds_products, verify=True)
        self._module: Module = run_pipeline(self._cluster.module, pipeline)
        # Code generation changes modules too.
        self._optimized = print_module(self._module)
        self._dot = print_dot(self._module)
        self._cost = cost_of(self._module)
        self._texts: dict[str, str] = {}
        self._executable: AnyExecutable = backend.compile(
            self._module,
            self._cluster,
            name=lowered.name,
            fast_math=options.fast_math,
            dump=self._texts.__setitem__,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._lowered._function(*args, **kwargs)

    def as_text(self, stage: str = "optimized_hlo") -> str:
        """The function at a stage, as `Lowered.as_text` names them."""
        if stage in ("graph", "hlo", "dot") or stage not in STAGES:
            return self._lowered.as_text(stage)
        if stage == "optimized_hlo":
            return self._optimized
        if stage == "optimized_dot":
            return self._dot
        if stage == "buffer-assignment":
            return self._buffers()
        return self._texts[{"llvm": "ir-no-opt.ll", "optimized_llvm": "ir-with-opt.ll", "asm": "s"}.get(stage, stage)]

    def _buffers(self) -> str:
        """The arrays that the code gets the addresses of, in order."""
        executable = self._executable
        aliases = dict(sorted(executable.aliases))
        lines = [f"BufferAssignment of {self._lowered.name}:"]
        for number, shape in enumerate(executable.parameter_shapes):
            lines.append(f"  buffer {number}: parameter {number}, {shape}, {shape.nbytes:,} bytes")
        first = len(executable.parameter_shapes)
        for number, shape in enumerate(executable.result_shapes):
            place = f", may lie where parameter {aliases[number]} does" if number in aliases else ""
            lines.append(f"  buffer {first + number}: result {number}, {shape}, {shape.nbytes:,} bytes{place}")
        last = first + len(executable.result_shapes)
        lines.append(f"  buffer {last}: scratch memory of all temporaries, {executable.scratch_bytes:,} bytes")
        return "\n".join(lines) + "\n"

    def cost_analysis(self) -> dict[str, float]:
        """What one call costs, under XLA's names: `flops`, `transcendentals`, `bytes accessed` and its two parts."""
        return _cost_table(self._cost)

    def memory_analysis(self) -> MemoryAnalysis:
        """The memory that one call needs."""
        return self._memory

    @cached_property
    def _memory(self) -> MemoryAnalysis:
        executable, trace = self._executable, self._lowered._trace
        node = self._lowered._node
        assert node is not None
        assert node.subgraph is not None
        shapes = dict(zip(node.subgraph.fetches, executable.result_shapes, strict=False))
        fresh = aliased = copies = 0
        late = self._deferred()
        for value, shape in shapes.items():
            size = _C.rounded_size(shape.nbytes)
            if trace.live.get(value, -1) < 0:
                fresh += size
            else:
                aliased += shape.nbytes
                copies += size if value in late else 0
        scratch = _C.rounded_size(executable.scratch_bytes) if executable.scratch_bytes else 0
        return MemoryAnalysis(
            argument_size_in_bytes=sum(shape.nbytes for shape in executable.parameter_shapes),
            output_size_in_bytes=fresh,
            alias_size_in_bytes=aliased,
            temp_size_in_bytes=scratch + copies,
            generated_code_size_in_bytes=len(executable.object_code),
        )

    def _deferred(self) -> set[tuple[int, int]]:
        """Results that are computed elsewhere first."""
        ready = Ready(self._cluster, self._executable, self._executable.scratch_bytes, 0)
        result = ClusteringResult(self._lowered._graph, [], {})
        builder = PlanBuilder(self._lowered._trace, result, JitOptions(), None, _Known(ready))
        _, deferred, _ = builder.build()
        return {(index, result) for _, index, result in deferred}


class _Known:
    """A compiler that has the code of the one cluster there is."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready

    def compile(self, node: Node, *, alone: bool = False) -> Ready:
        """That code."""
        return self._ready

    def generate(self, lowered: LoweredCluster, name: str, *, device: str = "cpu") -> AnyExecutable:
        """The same: nothing is compiled again."""
        return self._ready.executable


def _cost_table(cost: Cost) -> dict[str, float]:
    return {
        "flops": float(cost.flops),
        "transcendentals": float(cost.transcendentals),
        "bytes accessed": float(cost.bytes_accessed),
        "bytes accessed operands": float(cost.bytes_read),
        "bytes accessed output": float(cost.bytes_written),
    }


_END = "the end of a lowered function"


def lower(function: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
    """Record `fn` on arguments, and forget again what it did to tensors, gradients and the random stream.

    InvalidArgumentError for what can't be compiled as a whole; RuntimeError in a function that is being recorded.
    """
    if _C.in_recorded_call():
        raise RuntimeError("lower() can't be called in a function that is being recorded")
    if _C.is_recording():
        _C.flush("a function is lowered")
    compiler = current_compiler()
    state = default_generator.get_state()

    def record() -> Any:
        try:
            _C.watch_gradients()
            result = fn(*args, **kwargs)
            nodes, inputs, scalars = _C.describe_recording()
            del result
            return nodes, inputs, scalars
        finally:
            _C.discard_recording()

    try:
        nodes, inputs, scalars = _C.call_recorded(record, (), {}, _END, (1, 1, 0), function.owner, False)
    finally:
        default_generator.set_state(state)
    trace = RecordedTrace(nodes, inputs, scalars, getattr(function, "__name__", "function"))
    clustered = cluster(trace.graph, compiler.options, ClusteringState())
    launches = [node for node in clustered.graph if node.op == LAUNCH]
    return Lowered(function, trace, clustered.graph, launches[0] if launches else None)
