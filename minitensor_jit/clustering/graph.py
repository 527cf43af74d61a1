"""The recorded graph: ops as nodes in the order in which the program called them.

A `Node` is one call; a *value* is a pair `(node id, output index)`. The list of nodes is always in topological order,
with control edges counted as edges. Arguments are nodes with the op `_Arg`; what the program still holds at the flush
are the graph's `fetches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from minitensor_jit.ir.decision import Decision

Value: TypeAlias = tuple[int, int]
"""A node's id and the index of one of its outputs."""

ARG = "_Arg"
LAUNCH = "_JitLaunch"
COMPILE = "_JitCompile"
RUN = "_JitRun"

CLUSTER_ATTRIBUTE = "_MtCluster"
COMPILED_KERNEL_ATTRIBUTE = "_MtCompiledKernel"
CONSTANT_ARGS_ATTRIBUTE = "_MtNumConstantArgs"
CLONE_ATTRIBUTE = "_MtCloneOf"

TRIVIAL_KINDS = frozenset({"argument", "constant", "creation", "movement", "view"})
"""Kinds of op that compute nothing: a cluster of them alone only adds a launch. A view does not even move bytes."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the user's program a call stands."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """An output's element type, by its HLO name (`f32`, `s64`, `pred`), and its shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(slots=True, eq=False)
class Node:
    """One recorded call."""

    id: int
    op: str
    inputs: tuple[Value, ...] = ()
    outputs: tuple[TensorMeta, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    kind: str = "elementwise"
    """The kind of the op's row: elementwise, reduction, view, movement, contraction, random, creation, opaque...;
    `argument`, `constant` and `cluster` for the nodes that are not calls."""
    device: str = "cpu"
    mt_compile: bool | None = None
    """What an enclosing `jit_scope` says: compile, don't, or nothing."""
    scope: int = 0
    """The number of the enclosing `jit_scope`; 0 for none."""
    must_compile: bool = False
    """In a function with `jit_compile=True`: compile, or raise."""
    source: Source | None = None
    compilable: Decision = field(default_factory=Decision.allow)
    by_kernel: bool = False
    """Compiled code would call the op's eager kernel: a cluster takes it in, but gains nothing from it alone."""
    control_inputs: tuple[int, ...] = ()
    """Ids of nodes that have to run before this one, though it reads none of their outputs."""
    payload: Any = None
    """Belongs to whoever records and lowers the graph; the clustering carries it along."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """What the clustering writes: `_MtCluster`, `_MtCompiledKernel`, `_MtNumConstantArgs`."""
    subgraph: Graph | None = None
    """The inner graph of a cluster's node."""

    @property
    def is_argument(self) -> bool:
        """Whether it stands for a value that the graph is given."""
        return self.op == ARG

    @property
    def is_constant(self) -> bool:
        """Whether it stands for a number that every compilation may know."""
        return self.kind == "constant" and not self.inputs and not self.control_inputs

    @property
    def is_op(self) -> bool:
        """Whether it is something that the program called."""
        return not self.is_argument and not self.is_constant

    @property
    def is_trivial(self) -> bool:
        """Whether it computes nothing: an argument, a constant, a view or a copy."""
        return self.kind in TRIVIAL_KINDS

    @property
    def cluster(self) -> str | None:
        """The name of the cluster that it was marked for."""
        name = self.attributes.get(CLUSTER_ATTRIBUTE)
        return None if name is None else str(name)

    def copy(self, **changes: Any) -> Node:
        """Return a copy that shares no mutable part which the clustering writes."""
        changes.setdefault("attributes", dict(self.attributes))
        return replace(self, **changes)

    def text(self) -> str:
        """Return the line that stands for this node in `Graph.text`."""
        params = ", ".join(f"{key}={_short(value)}" for key, value in self.params.items())
        operands = ", ".join(value_text(value) for value in self.inputs)
        outputs = ", ".join(map(str, self.outputs))
        parts = [f"%{self.id} = {self.op}{f'[{params}]' if params else ''}({operands}) : {outputs or '()'}"]
        parts += [f"after {', '.join(f'%{i}' for i in self.control_inputs)}"] if self.control_inputs else []
        parts += [f"@{self.device}"] if self.device != "cpu" else []
        if self.attributes:
            parts.append("{" + ", ".join(f"{k}={_short(v)}" for k, v in sorted(self.attributes.items())) + "}")
        parts += [f"# {self.source}"] if self.source is not None else []
        return "  ".join(parts)


def _short(value: object, limit: int = 48) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def value_text(value: Value) -> str:
    """Return `%3` for a node's first output and `%3:1` for its second."""
    return f"%{value[0]}" if value[1] == 0 else f"%{value[0]}:{value[1]}"


class Graph:
    """Nodes in topological order, and the values that are wanted of them."""

    def __init__(self, nodes: Iterable[Node] = (), fetches: Iterable[Value] = (), name: str = "graph") -> None:
        self.name = name
        self.nodes: list[Node] = list(nodes)
        self.fetches: list[Value] = list(fetches)
        self._by_id = {node.id: node for node in self.nodes}
        self._users: dict[int, tuple[int, ...]] | None = None
        self._argument_count = sum(node.is_argument for node in self.nodes)

    def add(self, node: Node) -> Node:
        """Append a node; its inputs have to be there already."""
        if node.id in self._by_id:
            raise ValueError(f"node %{node.id} is in graph {self.name} already")
        self._by_id[node.id] = node
        self.nodes.append(node)
        self._users = None
        self._argument_count += node.is_argument
        return node

    def add_argument(self, id: int, meta: TensorMeta, **more: Any) -> Node:
        """Append the node of the next argument."""
        node = Node(id, ARG, outputs=(meta,), params={"index": self._argument_count}, kind="argument", **more)
        return self.add(node)

    def node(self, id: int) -> Node:
        """Return the node with that id."""
        return self._by_id[id]

    def __contains__(self, id: int) -> bool:
        return id in self._by_id

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def arguments(self) -> list[Node]:
        """The `_Arg` nodes, in order."""
        return [node for node in self.nodes if node.is_argument]

    def free_id(self) -> int:
        """Return an id that no node has; every larger one is free too."""
        return max(self._by_id, default=-1) + 1

    def meta(self, value: Value) -> TensorMeta:
        """Return a value's dtype and shape."""
        return self._by_id[value[0]].outputs[value[1]]

    def predecessors(self, id: int) -> tuple[int, ...]:
        """Return the nodes that this one waits for, by data or control edges: each once, in the order of use."""
        node = self._by_id[id]
        return tuple(dict.fromkeys([*(source for source, _ in node.inputs), *node.control_inputs]))

    def successors(self, id: int) -> tuple[int, ...]:
        """Return the nodes that wait for this one, each once, in topological order."""
        if self._users is None:
            users: dict[int, list[int]] = {node.id: [] for node in self.nodes}
            for node in self.nodes:
                for source in self.predecessors(node.id):
                    users[source].append(node.id)
            self._users = {key: tuple(ids) for key, ids in users.items()}
        return self._users[id]

    def verify(self) -> None:
        """Raise ValueError unless ids are unique, order is topological and every value that is used exists."""
        seen: dict[int, Node] = {}
        for node in self.nodes:
            if node.id in seen:
                raise ValueError(f"graph {self.name}: two nodes have the id %{node.id}")
            for value in node.inputs:
                self._verify_value(value, seen, f"an input of %{node.id} = {node.op}")
            for source in node.control_inputs:
                if source not in seen:
                    raise ValueError(
                        f"graph {self.name}: %{node.id} = {node.op} has to run after %{source}, which is not before it"
                    )
            seen[node.id] = node
            if node.subgraph is not None:
                node.subgraph.verify()
        for value in self.fetches:
            self._verify_value(value, seen, "a fetch")

    def _verify_value(self, value: Value, seen: dict[int, Node], what: str) -> None:
        source = seen.get(value[0])
        if source is None or not 0 <= value[1] < len(source.outputs):
            raise ValueError(f"graph {self.name}: {what} is {value_text(value)}, which no earlier node gives")

    def text(self) -> str:
        """Return the graph for people to read, one line a node; the graphs of clusters follow."""
        lines = [f"graph {self.name} {{"]
        lines += [f"  {node.text()}" for node in self.nodes]
        lines += [f"  return {', '.join(map(value_text, self.fetches))}".rstrip(), "}"]
        inner = [node.subgraph.text() for node in self.nodes if node.subgraph is not None]
        return "\n".join(lines) + "\n" + "".join("\n" + text for text in inner)

    def dot(self, notes: Mapping[int, str] | None = None) -> str:
        """Return the graph in Graphviz's language: a box a cluster, control edges dashed; `notes` go into the nodes."""
        lines = [f"digraph {_quote(self.name)} {{", "  node [shape=box, fontname=monospace];"]
        clusters: dict[str | None, list[Node]] = {}
        for node in self.nodes:
            clusters.setdefault(node.cluster, []).append(node)
        for name, members in clusters.items():
            boxed = name is not None
            lines += [f"  subgraph {_quote(f'cluster_{name}')} {{ label={_quote(str(name))};"] if boxed else []
            for node in members:
                label = "\n".join(
                    [node.op, ", ".join(map(str, node.outputs)), *([str(node.source)] if node.source else [])]
                    + ([notes[node.id]] if notes and node.id in notes else [])
                )
                lines.append(f"  {'  ' if boxed else ''}n{node.id} [label={_quote(label)}];")
            lines += ["  }"] if boxed else []
        for node in self.nodes:
            lines += [f"  n{source} -> n{node.id};" for source, _ in node.inputs]
            lines += [f"  n{source} -> n{node.id} [style=dashed];" for source in node.control_inputs]
        for index, value in enumerate(self.fetches):
            lines += [f"  r{index} [label={_quote(f'fetch {index}')}, shape=ellipse];", f"  n{value[0]} -> r{index};"]
        return "\n".join([*lines, "}"]) + "\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
