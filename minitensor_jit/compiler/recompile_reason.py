"""Why a cluster is compiled: for the first time, or since something differs from the last one of the same ops."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, TypeAlias

from minitensor_jit.clustering.graph import Graph
from minitensor_jit.lowering.lower import LoweredCluster

__all__ = ["CompileReasons"]

_Fact: TypeAlias = tuple[str, str]
"""What it is about, and its value in words."""


class CompileReasons:
    """Remembers the clusters that were compiled last: at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: OrderedDict[tuple[Any, ...], tuple[list[str], list[_Fact]]] = OrderedDict()

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()

    def why(self, graph: Graph, lowered: LoweredCluster, *, in_detail: bool) -> str:
        """What is new about a cluster, compared with the last one of the same ops at the same lines.

        `in_detail` also compares what is no argument; it is for who asks, since it takes memory.
        """
        key = tuple((n.op, n.source) for n in graph if not n.is_argument)
        shapes = [str(graph.meta(value)) for value, _ in lowered.parameters if isinstance(value, tuple)]
        facts = _facts_of(graph) if in_detail else []
        before, facts_before = self._seen.pop(key, (None, []))
        self._seen[key] = shapes, facts
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        if before is None:
            return "first use"
        for place, (old, new) in enumerate(zip(before, shapes, strict=False)):
            if old != new:
                return f"argument {place}: {old} became {new}"
        for (about, was), (_, now) in zip(facts_before, facts, strict=False):
            if was != now:
                return f"{about}: {was} became {now}"
        return "other results are used, or constants changed"


def _facts_of(graph: Graph) -> list[_Fact]:
    """All that is part of a cluster's code beside its ops and its arguments: parameters, results, numbers."""
    readers = {id: node for node in graph for id, _ in node.inputs}
    params, numbers = [], []
    for node in graph:
        if node.is_argument:
            continue
        about = readers.get(node.id, node) if node.is_constant else node
        where = f"{about.op} ({about.source})" if about.source is not None else about.op
        value = ", ".join(f"{key}={value}" for key, value in node.params.items())
        if node.is_constant:
            numbers.append((f"a number of {where}", value))
        else:
            params.append((f"parameters of {where}", value))
    fetched = [graph.node(id) for id, _ in graph.fetches]
    kept = ", ".join(f"{node.op} ({node.source})" if node.source is not None else node.op for node in fetched)
    # Numbers last: most of them are given to the code at run time, and are others without having it compiled again.
    return [*params, ("what the program keeps of it", kept), *numbers]
