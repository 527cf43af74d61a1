"""Random graphs: whatever is clustered, nothing makes a cycle, each op has one verdict, and results are the same."""

import sys

from clustering_graphs import random_graph, run
from hypothesis import given, settings
from hypothesis import strategies as st

from minitensor_jit.clustering.acyclic_groups import ContractedGraph
from minitensor_jit.clustering.mark_for_compilation import mark_for_compilation
from minitensor_jit.clustering.pipeline import cluster
from minitensor_jit.clustering.state import ClusteringState
from minitensor_jit.clustering.unclustered_reason import Reason
from minitensor_jit.flags import JitOptions

OPTIONS = st.builds(
    JitOptions,
    auto_jit=st.sampled_from([0, 1, 2]),
    cpu_global_jit=st.booleans(),
    min_cluster_size=st.integers(1, 4),
    max_cluster_size=st.sampled_from([None, 4, 9]),
    clustering_fuel=st.sampled_from([None, None, 10]),
)


@settings(max_examples=300)
@given(seed=st.integers(0, 10**9), options=OPTIONS)
def test_clustering_keeps_what_a_graph_computes(seed, options):
    graph = random_graph(seed)
    arguments = [hash(("argument", index)) for index in range(len(graph.arguments))]
    expected = run(graph, arguments)
    result = cluster(graph, options, ClusteringState())
    graph.verify()
    result.graph.verify()
    log = []
    assert run(result.graph, arguments, log) == expected

    # Each op has one verdict, and the clusters are what the verdicts say.
    assert {node.id for node in graph} <= set(result.verdicts)
    for entry in result.clusters:
        assert list(entry.members) == [n.id for n in graph if result.verdicts[n.id].cluster == entry.name]
        members = [graph.node(id) for id in entry.members]
        assert {node.device for node in members} == {entry.device}
        assert all(node.compilable and node.mt_compile is not False for node in members)
        assert len(members) <= (options.max_cluster_size or len(graph))
        # What asked for compiling may be a view that left again.
        left = [node for node in graph if result.verdicts[node.id].reason is Reason.DECLUSTERED]
        asked = any(node.mt_compile for node in (*members, *left))
        assert sum(not node.is_trivial for node in members) >= (1 if asked else options.min_cluster_size)
    clustered = sum(verdict.clustered for id, verdict in result.verdicts.items() if id in graph)
    assert clustered == sum(len(entry.members) for entry in result.clusters)

    # Every op still runs; control edges still order what they ordered.
    place = {id: index for index, id in reversed(list(enumerate(log)))}  # of a constant's copies, the first
    for node in graph:
        if node.is_op:
            assert node.id in place
            for source in node.control_inputs:
                if source in place and not graph.node(source).is_argument:
                    assert place[source] < place[node.id]


@settings(max_examples=150)
@given(seed=st.integers(0, 10**9))
def test_clusters_of_level_1_are_connected(seed):
    graph = random_graph(seed)
    marking = mark_for_compilation(graph, JitOptions(auto_jit=1, cpu_global_jit=True), ClusteringState())
    for entry in marking.clusters:
        members = set(entry.members)
        seen, stack = set(), [entry.members[0]]
        while stack:
            id = stack.pop()
            if id not in seen:
                seen.add(id)
                stack += [n for n in (*graph.predecessors(id), *graph.successors(id)) if n in members]
        assert seen == members


def reference_contraction(predecessors, keys):
    """Contract edges one at a time, looking for cycles by brute force, until no edge can be contracted."""
    count = len(keys)
    group = list(range(count))

    def reaches_around(source, target):
        stack = [group[n] for n in range(count) if any(group[p] == source for p in predecessors[n])]
        stack = [g for g in stack if g not in (source, target)]
        seen = set()
        while stack:
            g = stack.pop()
            if g == target:
                return True
            if g not in seen and g != source:
                seen.add(g)
                stack += [group[n] for n in range(count) if any(group[p] == g for p in predecessors[n])]
        return False

    changed = True
    while changed:
        changed = False
        for node in range(count):
            for source in predecessors[node]:
                a, b = group[source], group[node]
                if a != b and keys[a] == keys[b] and keys[a] is not None and not reaches_around(a, b):
                    group = [a if g == b else g for g in group]
                    changed = True
    return group


@settings(max_examples=150)
@given(st.data())
def test_contraction_leaves_no_edge_that_could_be_contracted(data):
    count = data.draw(st.integers(1, 24))
    predecessors = [
        sorted(data.draw(st.sets(st.integers(0, node - 1), max_size=3))) if node else [] for node in range(count)
    ]
    keys = [data.draw(st.sampled_from(["a", "a", "b", None])) for _ in range(count)]
    contracted = ContractedGraph(predecessors, keys)
    contracted.contract()
    groups = [contracted.find(node) for node in range(count)]
    for node in range(count):
        assert keys[groups[node]] == keys[node]
        for source in predecessors[node]:
            if groups[source] != groups[node]:
                assert contracted.rank(source) < contracted.rank(node), "the order of the groups is topological"
    # Going on from here by brute force finds nothing.
    quotient = [set() for _ in range(count)]
    for node in range(count):
        quotient[groups[node]] |= {groups[source] for source in predecessors[node]} - {groups[node]}
    assert reference_contraction([sorted(sources) for sources in quotient], keys) == list(range(count))


def test_the_work_of_clustering_grows_with_the_graph():
    work = [min(_calls(random_graph(seed, size)) for seed in range(3)) / size for size in (250, 2000)]
    assert work[1] < 2 * work[0]  # of each node
    assert work[1] < WORK


WORK = 100
"""The calls of Python for a node of a large graph, of which there are about half as many."""


def _calls(graph):
    count = 0

    def called(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        mark_for_compilation(graph, JitOptions(auto_jit=1, cpu_global_jit=True), ClusteringState())
    finally:
        sys.setprofile(before)
    return count
