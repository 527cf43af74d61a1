"""Phase 2: take views out of clusters where only the outside wants them.

Contract: returns an equivalent graph, and writes into the marking; the graph that it is given stays as it is. A view of
a value from outside the cluster, taken directly or through other such views, costs nothing out there. Were it a result
of the cluster, its elements would be copied. So the outside gets it from outside:

- nobody in the cluster uses it: it leaves the cluster, with the verdict "declustered";
- the cluster uses it too: it stays, and a clone of it serves the outside (`_MtCloneOf`).

What must be compiled stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

from minitensor_jit.clustering.graph import CLONE_ATTRIBUTE, CLUSTER_ATTRIBUTE, Graph, Node
from minitensor_jit.clustering.mark_for_compilation import Cluster, Marking
from minitensor_jit.clustering.unclustered_reason import Reason, Verdict


def partially_decluster(graph: Graph, marking: Marking) -> Graph:
    """Return the graph with views outside the clusters that don't need them."""
    views = _views_of_inputs(graph)
    if not views:
        return graph
    inside, outside = _uses(graph)
    clones: dict[int, Node] = {}  # by the original's id
    leaving: set[int] = set()
    next_id = graph.free_id()
    for node in reversed(graph.nodes):
        # From users to producers: a view that leaves takes the view that it is taken of along.
        if node.id not in views or node.id not in outside:
            continue
        stays = any(user not in leaving for user in inside.get(node.id, ()))
        if stays:
            attributes = {CLONE_ATTRIBUTE: node.id}
            clones[node.id] = node.copy(id=next_id, attributes=attributes, scope=0, mt_compile=None)
            next_id += 1
        else:
            leaving.add(node.id)
        outside.update(source for source, _ in node.inputs)
    if not clones and not leaving:
        return graph

    verdict = Verdict(reason=Reason.DECLUSTERED)
    nodes: list[Node] = []
    for node in graph:
        if node.id in leaving:
            node = node.copy()
            del node.attributes[CLUSTER_ATTRIBUTE]
            marking.verdicts[node.id] = verdict
        copies = [node, clones[node.id]] if node.id in clones else [node]
        for copy in copies:
            inputs = tuple(
                (clones[id].id, index) if id in clones and graph.node(id).cluster != copy.cluster else (id, index)
                for id, index in copy.inputs
            )
            nodes.append(copy if inputs == copy.inputs else copy.copy(inputs=inputs))
        if len(copies) == 2:
            marking.verdicts[copies[1].id] = verdict
    marking.clusters = [kept for cluster in marking.clusters if (kept := _without(cluster, leaving)).members]
    fetches = [(clones[id].id, index) if id in clones else (id, index) for id, index in graph.fetches]
    return Graph(nodes, fetches, graph.name)


def _views_of_inputs(graph: Graph) -> set[int]:
    """Return the clustered views that lead back to a value from outside their cluster through such ops only."""
    views: set[int] = set()
    for node in graph:
        if node.kind != "view" or node.cluster is None or node.must_compile or len(node.inputs) != 1:
            continue
        source = graph.node(node.inputs[0][0])
        if not node.control_inputs and (source.cluster != node.cluster or source.id in views):
            views.add(node.id)
    return views


def _uses(graph: Graph) -> tuple[dict[int, list[int]], set[int]]:
    """Return for each clustered node its users in the same cluster, and the set of nodes that are used elsewhere."""
    inside: dict[int, list[int]] = {}
    outside = {source for source, _ in graph.fetches}
    for node in graph:
        for source in graph.predecessors(node.id):
            if graph.node(source).cluster == node.cluster:
                inside.setdefault(source, []).append(node.id)
            else:
                outside.add(source)
    return inside, outside


def _without(cluster: Cluster, leaving: set[int]) -> Cluster:
    if leaving.isdisjoint(cluster.members):
        return cluster
    members = tuple(id for id in cluster.members if id not in leaving)
    return replace(cluster, members=members)
