"""Phase 3: make each cluster one node with a graph inside.

Contract: returns an equivalent graph in which the nodes of each cluster are replaced by one node, whose op is the
cluster's name and whose `subgraph` has the members, under their own ids and in their order, behind `_Arg` nodes for
what they read from outside. Its outputs are the members' values that are used outside, in topological order. It has
the attributes `_MtCompiledKernel` and `_MtNumConstantArgs`: that many of its inputs, the first ones, are arguments
with the param `constant`, whose value has to be known for compiling.

A constant that members read is not an input: the subgraph gets a copy of it, so that the compiler knows its value.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from minitensor_jit.clustering.graph import (
    ARG,
    CLUSTER_ATTRIBUTE,
    COMPILED_KERNEL_ATTRIBUTE,
    CONSTANT_ARGS_ATTRIBUTE,
    Graph,
    Node,
    Value,
)
from minitensor_jit.clustering.mark_for_compilation import Cluster


def encapsulate_subgraphs(graph: Graph, clusters: list[Cluster]) -> Graph:
    """Return the graph with one node a cluster."""
    if not clusters:
        return graph
    next_id = graph.free_id()
    first_free = next_id + len(clusters)
    home: dict[int, int] = {}  # from a member's id to its cluster's
    for cluster in clusters:
        home.update(dict.fromkeys(cluster.members, next_id))
        next_id += 1
    used_outside = _used_outside(graph, home)

    replaced: dict[Value, Value] = {}
    nodes: dict[int, Node] = {}
    for cluster in clusters:
        id = home[cluster.members[0]]
        node, results = _encapsulate(graph, cluster, id, first_free, home, used_outside)
        nodes[id] = node
        for index, value in enumerate(results):
            replaced[value] = (id, index)

    for node in graph:
        if node.id not in home:
            nodes[node.id] = node
    for node in list(nodes.values()):
        inputs = tuple(replaced.get(value, value) for value in node.inputs)
        control = tuple(dict.fromkeys(home.get(id, id) for id in node.control_inputs if home.get(id, id) != node.id))
        if inputs != node.inputs or control != node.control_inputs:
            nodes[node.id] = node.copy(inputs=inputs, control_inputs=control)
    fetches = [replaced.get(value, value) for value in graph.fetches]
    order = {id: place for place, id in reversed([(place, home.get(n.id, n.id)) for place, n in enumerate(graph)])}
    return Graph(_sorted(_live(nodes, fetches), order), fetches, graph.name)


def _used_outside(graph: Graph, home: dict[int, int]) -> set[Value]:
    """Return the members' values that are fetched or read outside their cluster."""
    used = set(graph.fetches)
    for node in graph:
        there = home.get(node.id)
        for value in node.inputs:
            if home.get(value[0]) != there:
                used.add(value)
    return used


def _encapsulate(
    graph: Graph, cluster: Cluster, id: int, next_id: int, home: dict[int, int], used_outside: set[Value]
) -> tuple[Node, list[Value]]:
    """Return the cluster's node and the members' values that are its outputs."""
    members = [graph.node(member) for member in cluster.members]
    inputs: dict[Value, None] = {}
    constants: dict[int, Node] = {}
    control: dict[int, None] = {}
    for node in members:
        for value in node.inputs:
            source = graph.node(value[0])
            if home.get(source.id) == id:
                continue
            if source.is_constant:
                constants[source.id] = source
            else:
                inputs[value] = None
        control.update(dict.fromkeys(source for source in node.control_inputs if home.get(source) != id))
    # Those whose value the compiler has to know come first.
    ordered = sorted(inputs, key=lambda value: not graph.node(value[0]).params.get("constant", False))
    constant_args = sum(bool(graph.node(source).params.get("constant", False)) for source, _ in ordered)
    results = [
        (node.id, index) for node in members for index in range(len(node.outputs)) if (node.id, index) in used_outside
    ]

    inner = Graph(name=cluster.name)
    renamed: dict[Value, Value] = {}
    for index, value in enumerate(ordered):
        params = {"index": index}
        source = graph.node(value[0])
        inner.add(
            Node(
                next_id,
                ARG,
                outputs=(graph.meta(value),),
                params=params,
                kind="argument",
                device=cluster.device,
                # What the recorder knows of an argument, such as its strides, holds inside too.
                payload=source.payload if source.is_argument else None,
            )
        )
        renamed[value] = (next_id, 0)
        next_id += 1
    for constant in constants.values():
        inner.add(constant)
    for node in members:
        inner.add(
            node.copy(
                inputs=tuple(renamed.get(value, value) for value in node.inputs),
                control_inputs=tuple(source for source in node.control_inputs if home.get(source) == id),
            )
        )
    inner.fetches = list(results)
    node = Node(
        id,
        cluster.name,
        inputs=tuple(ordered),
        outputs=tuple(graph.meta(value) for value in results),
        kind="cluster",
        device=cluster.device,
        must_compile=cluster.must_compile,
        source=members[0].source,
        control_inputs=tuple(control),
        attributes={
            CLUSTER_ATTRIBUTE: cluster.name,
            COMPILED_KERNEL_ATTRIBUTE: True,
            CONSTANT_ARGS_ATTRIBUTE: constant_args,
        },
        subgraph=inner,
    )
    return node, results


def _live(nodes: dict[int, Node], fetches: list[Value]) -> dict[int, Node]:
    """Drop constants that only clusters read: they have their own copies."""
    used = {source for node in nodes.values() for source, _ in node.inputs} | {source for source, _ in fetches}
    used.update(source for node in nodes.values() for source in node.control_inputs)
    return {id: node for id, node in nodes.items() if id in used or not node.is_constant}


def _sorted(nodes: dict[int, Node], order: dict[int, int]) -> list[Node]:
    """Return the nodes in topological order: each as early as it stood, as far as that can be."""
    waiting: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    for node in nodes.values():
        sources = {source for source, _ in node.inputs} | set(node.control_inputs)
        waiting[node.id] = len(sources)
        for source in sources:
            users.setdefault(source, []).append(node.id)
    ready = [(order[id], id) for id, count in waiting.items() if count == 0]
    heapify(ready)
    result: list[Node] = []
    while ready:
        _, id = heappop(ready)
        result.append(nodes[id])
        for user in users.get(id, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                heappush(ready, (order[user], user))
    if len(result) != len(nodes):
        raise ValueError("the clusters make a cycle: " + ", ".join(nodes[id].op for id, n in waiting.items() if n > 0))
    return result
