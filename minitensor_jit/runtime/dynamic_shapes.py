"""Clusters whose shapes differ in the size of a dimension, compiled once for all sizes of it.

Of two graphs that are equal but for some numbers `generalise` makes one with `Size`s in their places: the dimension is
the symbol, and every other number that differs must be a multiple of it, and something. A `Template` is such a
graph with its code; `size_in` says which size a graph has, if it is one of those that the code is for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from weakref import ref

from minitensor_jit.clustering.graph import Graph, Node, TensorMeta
from minitensor_jit.ir.size import LEAST, NotSymbolic, Size, SizeContext, active, value_of
from minitensor_jit.lowering.call import RecordedCall
from minitensor_jit.lowering.lower import LoweredCluster, StridedArgument
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["Family", "Template", "family_key", "generalise", "sizes_are_symbols"]

_REMEMBERED = 4
"""Graphs that the next one is compared with."""

_WINDOW = 16
"""A dimension is a multiple of the symbol; a convolution, say, takes less than that many times as much off it."""

_MEASURES = frozenset(
    {"bins", "classes", "col", "counts", "end", "index", "input_size", "k", "m", "n", "num_weights", "offset"}
    | {"output_size", "pad", "row", "shifts", "size", "sizes", "start", "steps", "storage_offset", "stride"}
    | {"weight_size"}
)
"""Parameters that count or measure elements, and may follow a size. Others choose: dimensions, modes, groups."""


@dataclass
class Template:
    """Code for all sizes of a dimension."""

    graph: Graph
    context: SizeContext
    place: tuple[int, int]
    """Where in the graph the symbol is: the number of a node, and a dimension of its result."""
    lowered: LoweredCluster
    executable: ref[AnyExecutable]

    def size_in(self, graph: Graph) -> int | None:
        """The size that the symbol is in a graph; None if the graph is another one."""
        node, dim = self.place
        size = graph.nodes[node].outputs[0].shape[dim]
        if size < LEAST or not self.context.holds(size):
            return None
        for general, special in zip(self.graph, graph, strict=True):
            if not _is(_layout(general), _layout(special), size):
                return None
        return size


@dataclass
class Family:
    """Graphs of one structure."""

    graphs: list[Graph] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    refusal: str = ""
    """Why it is compiled for each size."""

    def remember(self, graph: Graph) -> None:
        """Enter a graph that was compiled for its own sizes."""
        shapes = _shapes(graph)
        if all(_shapes(known) != shapes for known in self.graphs):
            self.graphs = [graph, *self.graphs[: _REMEMBERED - 1]]


def family_key(graph: Graph) -> Hashable:
    """What graphs that differ in sizes only have in common."""
    nodes = tuple((n.id, n.op, n.kind, n.inputs, n.source) for n in graph)
    ranks = tuple(tuple((meta.dtype, len(meta.shape)) for meta in n.outputs) for n in graph)
    return nodes, ranks, tuple(graph.fetches)


def _shapes(graph: Graph) -> Hashable:
    return tuple(tuple(tuple(meta.shape) for meta in node.outputs) for node in graph)


def generalise(before: Graph, now: Graph) -> tuple[Graph, SizeContext, tuple[int, int]]:
    """The graph that both are instances of, with the size in `now` as the hint; NotSymbolic if there is none."""
    place, old, new = _symbol(before, now)
    context = SizeContext(new)
    unify = _Unifier(context, old, new)
    nodes = [_generalised(n, unify.of(_layout(m), _layout(n))) for m, n in zip(before, now, strict=True)]
    for dim in (dim for node in nodes for meta in node.outputs for dim in meta.shape):
        if isinstance(dim, Size) and not unify.follows(dim):
            raise NotSymbolic(f"{dim} has a size of its own")
    return Graph(nodes, list(now.fetches), now.name), context, place


def _symbol(before: Graph, now: Graph) -> tuple[tuple[int, int], int, int]:
    """Where the smallest size of an argument that differs is, or of a result if there is none; what it was and is."""
    found: list[tuple[bool, int, int, tuple[int, int]]] = []
    for k, (m, n) in enumerate(zip(before, now, strict=True)):
        if n.outputs:
            for d, (a, b) in enumerate(zip(m.outputs[0].shape, n.outputs[0].shape, strict=True)):
                if a != b:
                    found.append((not n.is_argument, b, a, (k, d)))
    if not found:
        raise NotSymbolic("no dimension differs")
    _, new, old, place = min(found)
    if min(new, old) < LEAST:
        raise NotSymbolic(f"sizes below {LEAST} are compiled by themselves")
    return place, old, new


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A parameter that is no size: it is the same in all instances."""

    value: Any


class _Unifier:
    def __init__(self, context: SizeContext, old: int, new: int) -> None:
        self.symbol = context.symbol()
        self.old, self.new = old, new

    def of(self, a: Any, b: Any) -> Any:
        """What both are instances of."""
        if isinstance(a, _Chosen) and a != b:
            raise NotSymbolic(f"{a.value!r} became {b.value!r}")
        if type(a) is not type(b):
            raise NotSymbolic(f"{a!r} became {b!r}")
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise NotSymbolic(f"{a!r} became {b!r}")
            return tuple(self.of(x, y) for x, y in zip(a, b, strict=True))
        if a == b:
            return b
        if type(a) is not int:
            raise NotSymbolic(f"{a!r} became {b!r}")
        factor, rest = divmod(b - a, self.new - self.old)
        if rest:
            raise NotSymbolic(f"{a} became {b} where {self.old} became {self.new}")
        return self.symbol * factor + (b - factor * self.new)

    def follows(self, dim: Size) -> bool:
        """Whether a dimension goes with the symbol. Any two pairs of sizes lie on some line."""
        rest = value_of(dim, 0)
        factor = value_of(dim, 1) - rest
        return factor > 0 and -_WINDOW * factor < rest


def _is(general: Any, special: Any, size: int) -> bool:
    """Whether `special` is the instance for that size."""
    if isinstance(general, Size):
        return type(special) is int and value_of(general, size) == special
    if type(general) is not type(special):
        return False
    if isinstance(general, tuple):
        return len(general) == len(special) and all(_is(g, s, size) for g, s in zip(general, special, strict=True))
    return bool(general == special)


def _layout(node: Node) -> tuple[Any, ...]:
    """What of a node may depend on sizes, and what decides how it is lowered."""
    payload: Any = node.payload
    if isinstance(payload, RecordedCall):
        operands = tuple(
            (o.kind, o.index, o.result, o.baked, repr(o.scalar) if o.baked else None) for o in payload.operands
        )
        params = tuple(
            _tupled(value) if measures else _Chosen(_tupled(value))
            for measures, value in zip(_measuring(payload.row), payload.params, strict=True)
        )
        payload = (params, _tupled(payload.results), payload.compute, operands, payload.node)
    elif isinstance(payload, StridedArgument):
        payload = (payload.size, payload.stride)
    elif payload is not None:
        raise NotSymbolic(f"{node.op} has a payload of its own")
    outputs = tuple((meta.dtype, tuple(meta.shape)) for meta in node.outputs)
    constant = repr(node.params.get("value")) if node.is_constant else None
    return outputs, payload, constant


@cache
def _measuring(row: Any) -> tuple[bool, ...]:
    """Which of a row's parameters may be sizes."""
    return tuple(name in _MEASURES for name in row.parameters)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, (tuple, list)) else value


def _generalised(node: Node, layout: Any) -> Node:
    outputs, payload, _ = layout
    if isinstance(node.payload, RecordedCall):
        params = tuple(p.value if isinstance(p, _Chosen) else p for p in payload[0])
        payload = replace(node.payload, params=params, results=payload[1])
    elif isinstance(node.payload, StridedArgument):
        payload = StridedArgument(*payload)
    metas = tuple(TensorMeta(dtype, shape) for dtype, shape in outputs)
    return node.copy(outputs=metas, payload=payload)


@contextmanager
def sizes_are_symbols(context: SizeContext) -> Iterator[None]:
    """Code that is generated inside computes sizes."""
    token = active.set(context)
    try:
        yield
    finally:
        active.reset(token)
