import logging

import pytest
from clustering_graphs import VECTOR, Build

from minitensor_jit.clustering.mark_for_compilation import mark_for_compilation
from minitensor_jit.clustering.state import ClusteringState
from minitensor_jit.clustering.unclustered_reason import Reason, Verdict
from minitensor_jit.errors import InvalidArgumentError
from minitensor_jit.flags import JitOptions

ON = JitOptions(auto_jit=1, cpu_global_jit=True)


def mark(graph, options=ON, **more):
    return mark_for_compilation(graph, options.replace(**more), ClusteringState())


def reasons(marking):
    return {id: verdict.reason for id, verdict in marking.verdicts.items() if verdict.reason is not Reason.ARGUMENT}


def test_a_chain_is_one_cluster():
    build = Build()
    marking = mark(build.done(build.chain(build.arg(0), 4)))
    assert [(cluster.name, cluster.members) for cluster in marking.clusters] == [("cluster_0", (1, 2, 3, 4))]
    assert marking.verdicts[0].reason is Reason.ARGUMENT
    assert marking.verdicts[3] == Verdict(cluster="cluster_0")
    assert [node.cluster for node in build.graph] == [None, *["cluster_0"] * 4]


def test_clusters_form_on_both_sides_of_what_cannot_be_compiled():
    build = Build()
    before = build.chain(build.arg(0), 4)
    between = build.opaque(before)
    marking = mark(build.done(build.chain(between, 4)))
    assert [cluster.members for cluster in marking.clusters] == [(1, 2, 3, 4), (6, 7, 8, 9)]
    assert marking.verdicts[5].reason is Reason.NOT_COMPILABLE
    assert "shape depends on the data" in marking.verdicts[5].text


def test_an_edge_around_an_opaque_op_would_make_a_cycle():
    # a -> opaque -> b, and a -> b: a and b in one cluster would have to run before and after the opaque op.
    build = Build()
    a = build.chain(build.arg(0), 4)
    b = build.op("add", a, build.opaque(a))
    marking = mark(build.done(b))
    assert [cluster.members for cluster in marking.clusters] == [(1, 2, 3, 4)]
    assert marking.verdicts[b[0]].reason is Reason.CYCLE
    assert marking.verdicts[b[0]].text.startswith("nonzero at train.py:6 stands between")


def test_a_cycle_through_several_nodes_and_another_cluster():
    build = Build()
    a = build.chain(build.arg(0), 4)
    middle = build.chain(build.op("mul", a, device="cuda:0"), 4, device="cuda:0")
    b = build.op("add", a, middle)
    end = build.chain(b, 3)
    marking = mark(build.done(end))
    assert [cluster.members for cluster in marking.clusters] == [(1, 2, 3, 4), (5, 6, 7, 8, 9), (10, 11, 12, 13)]


def test_a_branch_that_joins_later_is_merged_without_a_cycle():
    build = Build(arguments=2)
    left = build.op("exp", build.arg(0))
    blocked = build.opaque(left)
    right = build.chain(build.arg(1), 2)
    joined = build.op("mul", right, left)
    marking = mark(build.done(build.op("add", joined, right), blocked))
    assert [cluster.members for cluster in marking.clusters] == [(2, 4, 5, 6, 7)]


def test_control_edges_are_edges():
    build = Build()
    a = build.chain(build.arg(0), 4)
    barrier = build.opaque(build.arg(0), control_inputs=(a[0],))
    b = build.op("neg", a, control_inputs=(barrier[0],))
    marking = mark(build.done(b))
    assert marking.verdicts[b[0]].reason is Reason.CYCLE


def test_small_clusters_stay_eager():
    build = Build()
    graph = build.done(build.chain(build.arg(0), 3))
    assert set(reasons(mark(graph)).values()) == {Reason.TOO_SMALL}
    assert mark(graph).verdicts[1].text == "its cluster would have 3 ops, and the least is 4"
    assert len(mark(graph, min_cluster_size=3).clusters) == 1


def test_views_and_constants_do_not_count():
    build = Build()
    value = build.view(build.op("tanh", build.view(build.arg(0))))
    value = build.op("add", value, build.op("full", kind="creation"))
    value = build.op("mul", value, build.op("constant", kind="constant"))
    marking = mark(build.done(value))
    assert marking.clusters == []
    assert marking.verdicts[value[0]].text == "its cluster would have 3 ops, and the least is 4"


def test_views_alone_are_not_worth_a_launch():
    build = Build()
    marking = mark(build.done(build.view(build.view(build.arg(0)))), min_cluster_size=1)
    assert set(reasons(marking).values()) == {Reason.TRIVIAL}


def test_largest_cluster():
    build = Build()
    marking = mark(build.done(build.chain(build.arg(0), 10)), max_cluster_size=4)
    assert [cluster.members for cluster in marking.clusters] == [(1, 2, 3, 4), (5, 6, 7, 8)]
    assert marking.verdicts[9].reason is Reason.SIZE_LIMIT


def test_level_and_device_rule(caplog):
    build = Build()
    graph = build.done(build.chain(build.arg(0), 4))
    assert set(reasons(mark(graph, JitOptions())).values()) == {Reason.CLUSTERING_OFF}
    state = ClusteringState()
    with caplog.at_level(logging.WARNING, logger="minitensor_jit"):
        for _ in range(2):
            marking = mark_for_compilation(graph, JitOptions(auto_jit=1), state)
            assert set(reasons(marking).values()) == {Reason.DEVICE_RULE}
    assert "--cpu_global_jit" in marking.verdicts[1].fix
    notes = [record.getMessage() for record in caplog.records]
    assert len(notes) == 1, "the note is said once"
    assert "4 ops on the CPU" in notes[0]
    assert "--cpu_global_jit" in notes[0]


def test_a_gpu_needs_only_the_level():
    build = Build()
    marking = mark(build.done(build.chain(build.arg(0), 4, device="cuda:1")), JitOptions(auto_jit=1))
    assert marking.clusters[0].device == "cuda:1"


def test_a_device_without_a_code_generator():
    build = Build()
    marking = mark(build.done(build.chain(build.arg(0), 4, device="tpu:0")))
    assert set(reasons(marking).values()) == {Reason.UNKNOWN_DEVICE}


def test_devices_are_not_mixed():
    build = Build()
    value = build.chain(build.chain(build.arg(0), 4), 4, device="cuda:0")
    marking = mark(build.done(value))
    assert [cluster.device for cluster in marking.clusters] == ["cpu", "cuda:0"]


def test_scopes_compile_at_any_size_and_level():
    build = Build()
    one = build.op("tanh", build.arg(0), mt_compile=True, scope=1)
    two = build.op("tanh", one, mt_compile=True, scope=2)
    out = build.op("tanh", two)
    marking = mark(build.done(out), JitOptions())
    assert [cluster.members for cluster in marking.clusters] == [(1,), (2,)]
    assert marking.verdicts[3].reason is Reason.CLUSTERING_OFF


def test_where_clustering_is_global_a_scope_is_no_border():
    build = Build()
    value = build.op("tanh", build.arg(0), mt_compile=True, scope=1)
    marking = mark(build.done(build.chain(value, 2)))
    assert [cluster.members for cluster in marking.clusters] == [(1, 2, 3)]


def test_a_scope_can_exclude():
    build = Build()
    a = build.chain(build.arg(0), 4)
    excluded = build.op("tanh", a, mt_compile=False, scope=1)
    marking = mark(build.done(build.chain(excluded, 4)))
    assert marking.verdicts[excluded[0]].reason is Reason.SCOPE_EXCLUDES
    assert len(marking.clusters) == 2


def test_what_must_be_compiled_is_one_cluster_whatever_the_options():
    build = Build(arguments=2)
    a = build.op("tanh", build.arg(0), must_compile=True)
    b = build.op("exp", build.arg(1), must_compile=True, mt_compile=False, scope=3)
    v = build.view(build.arg(1), must_compile=True)
    marking = mark(build.done(a, b, v), JitOptions(clustering_fuel=0))
    assert [(cluster.members, cluster.must_compile) for cluster in marking.clusters] == [((2, 3, 4), True)]


def test_what_must_be_compiled_and_cannot_be_is_an_error():
    build = Build()
    graph = build.done(build.opaque(build.op("tanh", build.arg(0), must_compile=True), must_compile=True))
    with pytest.raises(
        InvalidArgumentError, match=r"nonzero can't be compiled: its output's shape depends .*train.py"
    ) as info:
        mark(graph)
    assert info.value.op == "nonzero"
    assert info.value.source.line == 3


def test_level_2_joins_what_nothing_connects():
    build = Build(arguments=3)
    updates = [build.op("sub", build.arg(i), build.op("mul", build.arg(i))) for i in range(3)]
    graph = build.done(*updates)
    assert mark(graph).clusters == []
    assert [cluster.members for cluster in mark(graph, auto_jit=2).clusters] == [(3, 4, 5, 6, 7, 8)]


def test_level_2_does_not_join_across_what_cannot_be_compiled():
    build = Build(arguments=2)
    a = build.chain(build.arg(0), 4)
    other = build.chain(build.arg(1), 4)
    b = build.chain(build.opaque(a), 4)
    marking = mark(build.done(b, other), auto_jit=2)
    assert [cluster.members for cluster in marking.clusters] == [(2, 3, 4, 5, 6, 7, 8, 9), (11, 12, 13, 14)]


def test_fuel_is_for_the_process():
    build = Build()
    graph = build.done(build.chain(build.arg(0), 6))
    state = ClusteringState()
    options = ON.replace(clustering_fuel=10, min_cluster_size=1)
    assert [c.members for c in mark_for_compilation(graph, options, state).clusters] == [(1, 2, 3, 4, 5, 6)]
    marking = mark_for_compilation(graph, options, state)
    assert [c.members for c in marking.clusters] == [(1, 2, 3, 4)]
    assert marking.verdicts[5].reason is Reason.FUEL


def test_names_are_counted_or_made_from_the_graph():
    def graph(length):
        build = Build()
        return build.done(build.chain(build.arg(0), length))

    state = ClusteringState()
    names = [mark_for_compilation(graph(4), ON, state).clusters[0].name for _ in range(2)]
    assert names == ["cluster_0", "cluster_1"]
    options = ON.replace(deterministic_cluster_names=True)
    first, again, other = (mark_for_compilation(graph(n), options, state).clusters[0].name for n in (4, 4, 5))
    assert first == again != other
    assert first.startswith("cluster_")


def test_marking_again_forgets_the_last_time():
    build = Build()
    graph = build.done(build.chain(build.arg(0), 4))
    mark(graph)
    mark(graph, JitOptions())
    assert all(node.cluster is None for node in graph)


def test_every_reason_reads_well():
    for reason in Reason:
        verdict = Verdict(reason=reason, detail="DETAIL")
        assert ("DETAIL" in verdict.text) == ("{}" in reason.sentence)
        assert not verdict.text.endswith(".")
    assert len({reason.code for reason in Reason}) == len(Reason)


def test_outputs_of_several_values_are_one_node():
    build = Build()
    pair = build.op("split", build.arg(0), outputs=(VECTOR, VECTOR))
    a = build.op("tanh", pair)
    b = build.op("exp", (pair[0], 1))
    marking = mark(build.done(build.op("add", a, b)))
    assert [cluster.members for cluster in marking.clusters] == [(1, 2, 3, 4)]
