"""The core's description of a trace as a graph to cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitensor.ops import ROWS
from minitensor_jit.clustering.graph import ARG, Graph, Node, Source, TensorMeta, Value
from minitensor_jit.clustering.scope_predicate import MAX_PREDICATES, NodeDef, decide
from minitensor_jit.ir.decision import Decision
from minitensor_jit.lowering.call import Operand, RecordedCall, can_fail, has_kernel, why_not_lowered
from minitensor_jit.lowering.lower import StridedArgument, lowers, number_dtype
from minitensor_jit.lowering.views import MAX_RANK

ValueRef = tuple[str, int, int]
"""("node" | "input" | "scalar", index, result), as the core writes it."""


@dataclass(frozen=True, slots=True)
class TraceInput:
    """A tensor that was there before the recording. `storage` is the index of the first input with the same memory."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    device: str = "cpu"

    @property
    def row_major(self) -> bool:
        """Whether its elements lie in order without gaps."""
        step = 1
        if 0 in self.sizes:
            return True
        for n, s in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if n != 1:
                if s != step:
                    return False
                step *= n
        return True


class RecordedTrace:
    """A trace: its graph, and the way back from the graph's values to the core's."""

    def __init__(self, nodes: Sequence[Any], inputs: Sequence[Any], scalars: Sequence[Any], name: str) -> None:
        self.inputs = [TraceInput(*input) for input in inputs]
        self._scalars = scalars
        self._nodes = nodes
        self._first_input = len(nodes)
        self._first_scalar = len(nodes) + len(inputs)
        # Written results: (node, result) -> the input whose memory the result goes to, -1 for new memory.
        self.live: dict[Value, int] = {}
        self.graph = Graph(name=name)
        self._ordered: tuple[int, ...] = ()  # the last node whose row says that it runs in its place
        self._build()

    def _build(self) -> None:
        wanted = self._reachable()
        used: dict[int, None] = {}
        for index in wanted:
            for kind, i, _ in self._nodes[index][1]:
                if kind in ("input", "scalar"):
                    used[self._id(kind, i)] = None
        for id in sorted(used):
            self._add_argument(id)
        for index in wanted:
            self._add_node(index)
        # What may fail is asked for, though nobody reads it.
        self.graph.fetches = [*self.live, *((n, 0) for n in self._dead_ends(wanted))]

    def _reachable(self) -> list[int]:
        """The nodes that anything living or an error depends on, in order; the rest is never computed."""
        needed = [can_fail(ROWS[op], compute) for op, _, _, _, compute, *_ in self._nodes]
        for index, node in enumerate(self._nodes):
            for result, (_, _, live, home) in enumerate(node[3]):
                if live:
                    needed[index] = True
                    self.live[index, result] = home
        for index in range(len(self._nodes) - 1, -1, -1):
            if needed[index]:
                for kind, i, _ in self._nodes[index][1]:
                    if kind == "node":
                        needed[i] = True
        return [index for index, need in enumerate(needed) if need]

    def _dead_ends(self, wanted: list[int]) -> list[int]:
        """The nodes among them that are there for their errors only."""
        read = {i for index in wanted for kind, i, _ in self._nodes[index][1] if kind == "node"}
        read.update(node for node, _ in self.live)
        return [index for index in wanted if index not in read]

    def _id(self, kind: str, index: int) -> int:
        return index + {"node": 0, "input": self._first_input, "scalar": self._first_scalar}[kind]

    def value_ref(self, value: Value) -> ValueRef:
        """The core's name for a value of the recorded graph."""
        id, result = value
        if id >= self._first_scalar:
            return ("scalar", id - self._first_scalar, 0)
        if id >= self._first_input:
            return ("input", id - self._first_input, 0)
        return ("node", id, result)

    def _add_argument(self, id: int) -> None:
        if id >= self._first_scalar:
            number, baked = self._scalars[id - self._first_scalar]
            dtype = number_dtype(number)
            meta = TensorMeta(dtype, ())
            if baked:
                self.graph.add(Node(id, "_Const", outputs=(meta,), params={"value": number}, kind="constant"))
            else:
                self.graph.add_argument(id, meta)
            return
        input = self.inputs[id - self._first_input]
        strided = None if input.row_major else StridedArgument(input.sizes, input.strides)
        self.graph.add_argument(id, TensorMeta(input.dtype, input.sizes), payload=strided, device=input.device)

    def _add_node(self, index: int) -> None:
        op, operands, params, results, compute, (compile, must, scope), source, device, *carried = self._nodes[index]
        row = ROWS[op]
        call = RecordedCall(
            row=row,
            operands=[self._operand(*operand) for operand in operands],
            params=params,
            results=[(dtype, shape) for dtype, shape, _, _ in results],
            compute=compute,
            node=index,
            dtypes=frozenset({compute, *self._dtypes(operands, results)}),
            shapes=[self._shape(kind, i, result) for kind, i, result in operands],
            default_dtype=carried[0],
            rounds_products=carried[1],
        )
        after = self._ordered if row.ordered else ()
        self._ordered = (index,) if row.ordered else self._ordered
        by_kernel = not lowers(call, device)
        params_by_name = {n: value for n, value in zip(row.parameters, params, strict=True) if value is not None}
        asks = scope >> 16 & MAX_PREDICATES
        if compile == 1 and asks:
            attr = {"dtype": results[0][0], "shape": results[0][1], **params_by_name} if results else params_by_name
            compile = decide(asks, NodeDef(f"{op}_{index}", op, row.kind, device, attr))
        self.graph.add(
            Node(
                index,
                op,
                inputs=tuple((self._id(kind, i), result) for kind, i, result in operands if kind != "none"),
                outputs=tuple(TensorMeta(dtype, shape) for dtype, shape, _, _ in results),
                params=params_by_name,
                kind=row.kind,
                device=device,
                mt_compile=None if compile < 0 else bool(compile),
                scope=scope & 0xFFFF,
                must_compile=bool(must),
                source=None if source is None else Source(*source),
                compilable=_compilable(call, self._ranks(operands, results), by_kernel, device != "cpu" and not must),
                by_kernel=by_kernel,
                control_inputs=after,
                payload=call,
            )
        )

    def _ranks(self, operands: Any, results: Any) -> int:
        """The most dimensions of anything that a node reads or gives."""
        read = [
            len(self.inputs[i].sizes) if kind == "input" else len(self._nodes[i][3][result][1])
            for kind, i, result in operands
            if kind in ("input", "node")
        ]
        return max((*read, *(len(shape) for _, shape, _, _ in results)), default=0)

    def _shape(self, kind: str, index: int, result: int) -> tuple[int, ...] | None:
        if kind == "input":
            return self.inputs[index].sizes
        return tuple(self._nodes[index][3][result][1]) if kind == "node" else None

    def _dtypes(self, operands: Any, results: Any) -> set[str]:
        """The types of everything that a node reads or gives."""
        read = {
            self.inputs[i].dtype if kind == "input" else self._nodes[i][3][result][0]
            for kind, i, result in operands
            if kind in ("input", "node")
        }
        return read | {dtype for dtype, *_ in results}

    def _operand(self, kind: str, index: int, result: int) -> Operand:
        if kind != "scalar":
            return Operand(kind, index, result)
        number, baked = self._scalars[index]
        return Operand(kind, index, result, number, baked)


def _compilable(call: RecordedCall, ranks: int, by_kernel: bool, on_gpu: bool) -> Decision:
    if ranks > MAX_RANK:
        return Decision.refuse(f"it has {ranks} dimensions, and compiled code has at most {MAX_RANK}")
    if by_kernel and on_gpu:
        # A cluster would wait for the host in its middle.
        return Decision.refuse(f"on GPUs it runs on the host, over copies: {why_not_lowered(call)}")
    return Decision.when(not by_kernel or has_kernel(call), why_not_lowered(call) or "")


__all__ = ["ARG", "RecordedTrace", "TraceInput", "ValueRef"]
