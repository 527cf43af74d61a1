"""What a recorded graph is before and after each phase of the clustering, kept for a report."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from minitensor_jit.clustering.graph import Graph, Node, Source, value_text
from minitensor_jit.clustering.unclustered_reason import Verdict

__all__ = ["GraphRecord", "NodeRow"]

NodeRow: TypeAlias = tuple[int, str, str, str, str, str, Source | None, tuple[int, ...]]
"""Id, op, parameters, operands, results, cluster, place, and the ids that it waits for."""


@dataclass
class GraphRecord:
    """One graph on its way through the clustering: `after` is told of it after each phase."""

    name: str
    phases: list[tuple[str, list[NodeRow], float]] = field(default_factory=list)
    """The name of a phase, the nodes after it, and its seconds; first the graph as it was recorded."""
    clusters: dict[str, list[int]] = field(default_factory=dict)
    """The recorded nodes of each cluster, by its name."""
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    alike: int = 0
    """How many other traces are the same."""
    _since: float = 0.0

    def after(self, phase: str, graph: Graph) -> None:
        """Note the graph after a phase."""
        seconds = time.perf_counter() - self._since
        self.phases.append((phase, [_row(node) for node in graph], seconds if self._since else 0.0))
        self._since = time.perf_counter()

    def decided(self, verdicts: dict[int, Verdict]) -> None:
        """Note what became of each node."""
        self.verdicts = verdicts
        for id, verdict in verdicts.items():
            if verdict.cluster is not None:
                self.clusters.setdefault(verdict.cluster, []).append(id)

    @property
    def key(self) -> Hashable:
        """What graphs have in common that are the same: all but the names of clusters."""
        return tuple((row[:5], row[6:]) for row in self.phases[0][1])

    def take(self, other: GraphRecord) -> None:
        """Stand for another graph that is the same."""
        self.alike += 1
        for name, members in other.clusters.items():
            self.clusters.setdefault(name, members)

    @property
    def size(self) -> int:
        """How many nodes all phases have."""
        return sum(len(rows) for _, rows, _ in self.phases)


def _row(node: Node) -> NodeRow:
    params = ", ".join(f"{key}={_short(value)}" for key, value in node.params.items())
    cluster = node.cluster or ""
    if node.subgraph is not None:
        cluster = str(node.params.get("function", node.op))
    waits = tuple(dict.fromkeys([*(id for id, _ in node.inputs), *node.control_inputs]))
    return (
        node.id,
        node.op,
        params,
        ", ".join(map(value_text, node.inputs)),
        ", ".join(map(str, node.outputs)),
        cluster,
        node.source,
        waits,
    )


def _short(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= 80 else text[:77] + "..."
