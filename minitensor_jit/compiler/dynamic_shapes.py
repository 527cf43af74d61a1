"""Clusters whose shapes differ in the sizes of dimensions, compiled once for all sizes of them.

Of graphs that are equal but for some numbers `generalise` makes one with `Size`s in their places: dimensions of
arguments are the symbols, and every other number that differs must be a multiple of one, and something, or a product
of such. A `Template` is such a graph with its code; `sizes_in` says which sizes a graph has, if it is one of those that
the code is for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias
from weakref import ref

from minitensor_jit.clustering.graph import Graph, Node, TensorMeta
from minitensor_jit.ir.size import LEAST, NotSymbolic, Size, SizeContext, Sizes, active, value_of
from minitensor_jit.lowering.call import RecordedCall
from minitensor_jit.lowering.lower import LoweredCluster, StridedArgument
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["Family", "Template", "family_key", "generalise", "sizes_are_symbols"]

_REMEMBERED = 6
"""Graphs that the next one is compared with. The more, the fewer relations are seen between sizes that have none."""

_MOST_SYMBOLS = 4
"""Dimensions that vary by themselves, in one cluster."""

_WINDOW = 16
"""A dimension is a multiple of the symbol; a convolution, say, takes less than that many times as much off it."""

_MEASURES = frozenset(
    {"bins", "classes", "col", "counts", "end", "index", "input_size", "k", "m", "n", "num_weights", "offset"}
    | {"output_size", "pad", "row", "shifts", "size", "sizes", "start", "steps", "storage_offset", "stride"}
    | {"weight_size"}
)
"""Parameters that count or measure elements, and may follow a size. Others choose: dimensions, modes, groups."""


Place: TypeAlias = tuple[int, int]
"""Where in a graph a symbol is: the number of a node, and a dimension of its result."""


@dataclass
class Template:
    """Code for all sizes of dimensions."""

    graph: Graph
    context: SizeContext
    places: tuple[Place, ...]
    """Where the symbols are."""
    lowered: LoweredCluster
    executable: ref[AnyExecutable]

    def sizes_in(self, graph: Graph) -> Sizes | None:
        """The sizes that the symbols are in a graph; None if the graph is another one."""
        sizes = tuple(graph.nodes[node].outputs[0].shape[dim] for node, dim in self.places)
        if not self.context.holds(sizes):
            return None
        for general, special in zip(self.graph, graph, strict=True):
            if not _is(_layout(general), _layout(special), sizes):
                return None
        return sizes


@dataclass
class Family:
    """Graphs of one structure."""

    graphs: list[Graph] = field(default_factory=list)
    """Some that were met, the last one first."""
    templates: list[Template] = field(default_factory=list)
    most_symbols: int = _MOST_SYMBOLS
    refusal: str = ""
    """Why it is compiled for each size."""
    hits: int = 0
    """How often a template fitted that was there."""
    made: int = 0
    """How many templates were made, those that are gone included."""

    def remember(self, graph: Graph) -> None:
        """Enter a graph that code was compiled for."""
        shapes = _shapes(graph)
        if all(_shapes(known) != shapes for known in self.graphs):
            self.graphs = [graph, *self.graphs[: _REMEMBERED - 1]]

    def candidates(self) -> Iterator[list[Graph]]:
        """Graphs to find the next one's relatives among: all together, then each by itself."""
        if len(self.graphs) > 1:
            yield self.graphs
        yield from ([graph] for graph in self.graphs)


def family_key(graph: Graph) -> Hashable:
    """What graphs that differ in sizes only have in common."""
    nodes = tuple((n.id, n.op, n.kind, n.inputs, n.source) for n in graph)
    ranks = tuple(tuple((meta.dtype, len(meta.shape)) for meta in n.outputs) for n in graph)
    return nodes, ranks, tuple(graph.fetches)


def _shapes(graph: Graph) -> Hashable:
    return tuple(tuple(tuple(meta.shape) for meta in node.outputs) for node in graph)


def generalise(
    before: Sequence[Graph], now: Graph, most_symbols: int = _MOST_SYMBOLS
) -> tuple[Graph, SizeContext, tuple[Place, ...]]:
    """The graph that all are instances of, with the sizes in `now` as the hints; NotSymbolic if there is none."""
    graphs = [*before, now]
    unify = _Unifier(graphs, most_symbols)
    nodes = []
    for instances in zip(*graphs, strict=True):
        outputs, payload, constant = zip(*map(_layout, instances), strict=True)
        layout = unify.of(outputs, dim=True), unify.of(payload), unify.of(constant)
        nodes.append(_generalised(instances[-1], layout))
    return Graph(nodes, list(now.fetches), now.name), unify.context, tuple(unify.places)


Instances: TypeAlias = tuple[int, ...]
"""A number as it is in each of the graphs."""


def _differing(graphs: Sequence[Graph]) -> dict[Instances, Place]:
    """The sizes that differ of what is computed from nothing, or of results if there are none: small ones first."""
    found: list[tuple[bool, int, Place, Instances]] = []
    for k, nodes in enumerate(zip(*graphs, strict=True)):
        if nodes[-1].outputs:
            for d, sizes in enumerate(zip(*(node.outputs[0].shape for node in nodes), strict=True)):
                if any(size != sizes[-1] for size in sizes):
                    found.append((bool(nodes[-1].inputs), sizes[-1], (k, d), sizes))
    if not found:
        raise NotSymbolic("no dimension differs")
    found.sort()
    places: dict[Instances, Place] = {}
    for _, _, place, sizes in [one for one in found if not one[0]] or found[:1]:
        places.setdefault(sizes, place)
    return places


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A parameter that is no size: it is the same in all instances."""

    value: Any


class _Unifier:
    """Finds what instances have in common. The symbols are sizes that nothing else explains."""

    def __init__(self, graphs: Sequence[Graph], most_symbols: int) -> None:
        self.places: list[Place] = []
        self._symbols: list[Instances] = []
        self._known: dict[Instances, Any] = {}
        self._dims: dict[Instances, Any] = {}
        places = _differing(graphs)
        # The context has a hint for each symbol, and there are symbols to be found yet.
        self.context = SizeContext(())
        for sizes, place in places.items():
            if self._expression(sizes, dim=True) is not None:
                continue
            if min(sizes) < LEAST:
                raise NotSymbolic(f"sizes below {LEAST} are compiled by themselves")
            if len(self.places) == most_symbols:
                raise NotSymbolic(f"more than {most_symbols} dimensions vary")
            symbol = self.context.symbol(len(self.places))
            self.context.hints = (*self.context.hints, sizes[-1])
            self.places.append(place)
            self._symbols.append(sizes)
            self._dims[sizes] = symbol
            self._known.clear()
        # Small ones first: products are taken apart by them.
        for sizes in places:
            self._dims[sizes] = self._expression(sizes, dim=True)

    def of(self, instances: tuple[Any, ...], dim: bool = False) -> Any:
        """What all are instances of; the numbers of a `dim` are the sizes of a result."""
        now = instances[-1]
        if isinstance(now, _Chosen):
            if other := next((one for one in instances if one != now), None):
                raise NotSymbolic(f"{getattr(other, 'value', other)!r} became {now.value!r}")
            return now
        if any(type(one) is not type(now) for one in instances):
            raise NotSymbolic(f"{instances[0]!r} became {now!r}")
        if isinstance(now, tuple):
            if any(len(one) != len(now) for one in instances):
                raise NotSymbolic(f"{instances[0]!r} became {now!r}")
            return tuple(self.of(each, dim) for each in zip(*instances, strict=True))
        if all(one == now for one in instances):
            return now
        found = self._expression(instances, dim=dim) if type(now) is int else None
        if found is None:
            raise NotSymbolic(f"{instances[0]!r} became {now!r}")
        return found

    def _expression(self, instances: Instances, *, dim: bool) -> Any:
        """A polynomial that has these values; None if none is found."""
        if all(n == instances[0] for n in instances):
            return instances[0]
        if instances not in self._known:
            self._known[instances] = self._found(instances)
        found = self._known[instances]
        if found is None and not dim:
            # Offsets and the like may lie on any line.
            for number, sizes in enumerate(self._symbols):
                if (line := _line(sizes, instances)) is not None:
                    return self.context.symbol(number) * line[0] + line[1]
        return found

    def _found(self, instances: Instances) -> Any:
        for number, sizes in enumerate(self._symbols):
            # A size that follows another one does so closely: any two pairs of sizes lie on some line.
            line = _line(sizes, instances)
            if line is not None and line[0] > 0 and -_WINDOW * line[0] < line[1]:
                return self.context.symbol(number) * line[0] + line[1]
        for sizes, known in self._dims.items():
            if sizes != instances and all(n and m % n == 0 for m, n in zip(instances, sizes, strict=True)):
                quotient = tuple(m // n for m, n in zip(instances, sizes, strict=True))
                if (rest := self._expression(quotient, dim=True)) is not None:
                    return known * rest
        for number, sizes in enumerate(self._symbols):
            # As of two arrays that are put together.
            left = tuple(m - n for m, n in zip(instances, sizes, strict=True))
            for second in range(number + 1, len(self._symbols)):
                line = _line(self._symbols[second], left)
                if line is not None and line[0] > 0:
                    return self.context.symbol(number) + self.context.symbol(second) * line[0] + line[1]
        return None


def _line(sizes: Instances, values: Instances) -> tuple[int, int] | None:
    """(factor, rest) of the line through all pairs of a size and a value; None if they lie on none."""
    first = next((k for k, n in enumerate(sizes) if n != sizes[-1]), None)
    if first is None:
        return None
    factor, rest = divmod(values[-1] - values[first], sizes[-1] - sizes[first])
    if rest:
        return None
    rest = values[-1] - factor * sizes[-1]
    return (factor, rest) if all(factor * n + rest == m for n, m in zip(sizes, values, strict=True)) else None


def _is(general: Any, special: Any, sizes: Sizes) -> bool:
    """Whether `special` is the instance for those sizes."""
    if isinstance(general, Size):
        return type(special) is int and value_of(general, sizes) == special
    if type(general) is not type(special):
        return False
    if isinstance(general, tuple):
        return len(general) == len(special) and all(_is(g, s, sizes) for g, s in zip(general, special, strict=True))
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
        carried = payload.default_dtype, payload.rounds_products
        payload = (params, _tupled(payload.results), payload.compute, operands, payload.node, carried)
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
