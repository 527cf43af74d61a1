"""The phases of the clustering, in order, with the reason for the order.

1. `mark_for_compilation` decides. It goes first, since all others only carry out what it decided, and it sees the
   graph just as the program recorded it, so that a verdict is about an op that the user wrote.
2. `partially_decluster` corrects the decision where a cluster's border is in the wrong place. It needs to know the
   whole of a cluster, and has to come before a cluster's results are settled.
3. `encapsulate_subgraphs` settles the border: each cluster becomes one node, its inputs and results are known.
4. `build_launch_ops` makes the nodes something that can be run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from minitensor_jit.clustering.build_launch_ops import build_launch_ops
from minitensor_jit.clustering.encapsulate_subgraphs import encapsulate_subgraphs
from minitensor_jit.clustering.graph import Graph
from minitensor_jit.clustering.graph_dump import annotated, graph_dump
from minitensor_jit.clustering.mark_for_compilation import Cluster, mark_for_compilation
from minitensor_jit.clustering.partially_decluster import partially_decluster
from minitensor_jit.clustering.state import PROCESS_STATE, ClusteringState
from minitensor_jit.clustering.unclustered_reason import Verdict
from minitensor_jit.flags import JitOptions


@dataclass(slots=True)
class ClusteringResult:
    """The graph to run, and the account of how it came about."""

    graph: Graph
    """Equivalent to the recorded one; each cluster is a `_JitLaunch`, or a `_JitCompile` and a `_JitRun`."""
    clusters: list[Cluster]
    verdicts: dict[int, Verdict]
    """For each node of the recorded graph, by id, exactly one; and for the clones of views that were made."""
    texts: dict[str, str] = field(default_factory=dict)
    """The graph after each phase, by the phase's name. Empty unless debugging or dumping."""


def cluster(
    graph: Graph,
    options: JitOptions,
    state: ClusteringState = PROCESS_STATE,
    watch: Callable[[str, Graph], None] | None = None,
) -> ClusteringResult:
    """Cluster a recorded graph. Its nodes get their `_MtCluster` attributes; other than that it stays as it is.

    `watch` is called with `recorded` and the graph, and after each phase with its name.

    Raises InvalidArgumentError for an op that must be compiled and can't be.
    """
    texts: dict[str, str] = {}
    wants_texts = options.clustering_debug or options.dump_to is not None

    dump = graph_dump() if options.clustering_debug else None
    if dump is not None:
        dump.write("before_mark_for_compilation", graph.text(), graph.dot())

    if watch is not None:
        watch("recorded", graph)

    def after(phase: str, graph: Graph) -> None:
        if watch is not None:
            watch(phase, graph)
        if wants_texts:
            texts[phase] = graph.text()
        if dump is not None:
            dump.write(phase, texts[phase], graph.dot())
        elif options.clustering_debug:
            print(f"// after {phase}\n{texts[phase]}", file=sys.stderr)

    marking = mark_for_compilation(graph, options, state)
    after("mark_for_compilation", graph)
    if dump is not None:
        notes = {node.id: marking.verdicts[node.id].text for node in graph if node.is_op}
        dump.write("mark_for_compilation_annotated", annotated(graph, marking.verdicts), graph.dot(notes))
    graph = partially_decluster(graph, marking)
    after("partially_decluster", graph)
    graph = encapsulate_subgraphs(graph, marking.clusters)
    after("encapsulate_subgraphs", graph)
    graph = build_launch_ops(graph, lazy=options.enable_lazy_compilation)
    after("build_launch_ops", graph)
    return ClusteringResult(graph, marking.clusters, marking.verdicts, texts)
