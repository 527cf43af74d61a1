"""The graph after each phase, as text."""

from dataclasses import replace
from textwrap import dedent

import pytest
from clustering_graphs import VECTOR, Build

from minitensor_jit.clustering.build_launch_ops import build_launch_ops
from minitensor_jit.clustering.encapsulate_subgraphs import encapsulate_subgraphs
from minitensor_jit.clustering.graph import Graph, Node
from minitensor_jit.clustering.mark_for_compilation import Cluster, mark_for_compilation
from minitensor_jit.clustering.partially_decluster import partially_decluster
from minitensor_jit.clustering.pipeline import cluster
from minitensor_jit.clustering.state import ClusteringState
from minitensor_jit.clustering.unclustered_reason import Reason
from minitensor_jit.flags import JitOptions

ON = JitOptions(auto_jit=1, cpu_global_jit=True, enable_lazy_compilation=False, dump_to="/not/written/to")


def texts(graph, options=ON):
    return cluster(graph, options, ClusteringState()).texts


def text(expected):
    return dedent(expected).lstrip()


def test_each_phase():
    build = Build(arguments=2)
    product = build.op("matmul", build.arg(0), build.arg(1), kind="contraction")
    total = build.op("sum", build.chain(product, 2), params={"dim": 1}, kind="reduction")
    found = build.opaque(total)
    graph = build.done(build.op("neg", found), product)
    results = texts(graph)
    assert list(results) == [
        "mark_for_compilation",
        "partially_decluster",
        "encapsulate_subgraphs",
        "build_launch_ops",
    ]
    assert results["mark_for_compilation"] == text(
        """
        graph step {
          %0 = _Arg[index=0]() : f32[8]
          %1 = _Arg[index=1]() : f32[8]
          %2 = matmul(%0, %1) : f32[8]  {_MtCluster=cluster_0}  # train.py:3
          %3 = tanh(%2) : f32[8]  {_MtCluster=cluster_0}  # train.py:4
          %4 = tanh(%3) : f32[8]  {_MtCluster=cluster_0}  # train.py:5
          %5 = sum[dim=1](%4) : f32[8]  {_MtCluster=cluster_0}  # train.py:6
          %6 = nonzero(%5) : f32[8]  # train.py:7
          %7 = neg(%6) : f32[8]  # train.py:8
          return %7, %2
        }
        """
    )
    assert results["partially_decluster"] == results["mark_for_compilation"]
    inner = text(
        """

        graph cluster_0 {
          %9 = _Arg[index=0]() : f32[8]
          %10 = _Arg[index=1]() : f32[8]
          %2 = matmul(%9, %10) : f32[8]  {_MtCluster=cluster_0}  # train.py:3
          %3 = tanh(%2) : f32[8]  {_MtCluster=cluster_0}  # train.py:4
          %4 = tanh(%3) : f32[8]  {_MtCluster=cluster_0}  # train.py:5
          %5 = sum[dim=1](%4) : f32[8]  {_MtCluster=cluster_0}  # train.py:6
          return %2, %5
        }
        """
    )
    attributes = "{_MtCluster=cluster_0, _MtCompiledKernel=true, _MtNumConstantArgs=0}"
    assert (
        results["encapsulate_subgraphs"]
        == text(
            f"""
        graph step {{
          %0 = _Arg[index=0]() : f32[8]
          %1 = _Arg[index=1]() : f32[8]
          %8 = cluster_0(%0, %1) : f32[8], f32[8]  {attributes}  # train.py:3
          %6 = nonzero(%8:1) : f32[8]  # train.py:7
          %7 = neg(%6) : f32[8]  # train.py:8
          return %7, %8
        }}
        """
        )
        + "\n"
        + inner
    )
    launch = "_JitLaunch[function=cluster_0, num_constant_args=0, must_compile=false]"
    assert results["build_launch_ops"] == results["encapsulate_subgraphs"].replace("%8 = cluster_0(", f"%8 = {launch}(")


def test_a_view_of_an_input_is_cloned_for_users_outside():
    build = Build()
    view = build.view(build.arg(0))
    used = build.chain(view, 4)
    both = build.op("add", build.opaque(view), view)
    result = cluster(build.done(both, used, view), ON, ClusteringState())
    assert result.texts["partially_decluster"] == text(
        """
        graph step {
          %0 = _Arg[index=0]() : f32[8]
          %1 = view(%0) : f32[8]  {_MtCluster=cluster_0}  # train.py:2
          %8 = view(%0) : f32[8]  {_MtCloneOf=1}  # train.py:2
          %2 = tanh(%1) : f32[8]  {_MtCluster=cluster_0}  # train.py:3
          %3 = tanh(%2) : f32[8]  {_MtCluster=cluster_0}  # train.py:4
          %4 = tanh(%3) : f32[8]  {_MtCluster=cluster_0}  # train.py:5
          %5 = tanh(%4) : f32[8]  {_MtCluster=cluster_0}  # train.py:6
          %6 = nonzero(%8) : f32[8]  # train.py:7
          %7 = add(%6, %8) : f32[8]  # train.py:8
          return %7, %5, %8
        }
        """
    )
    assert result.verdicts[1].cluster == "cluster_0"
    assert result.verdicts[8].reason is Reason.DECLUSTERED


def test_a_view_that_only_the_outside_uses_leaves_with_the_view_it_is_taken_of():
    build = Build()
    first = build.view(build.arg(0))
    second = build.view(first)
    third = build.view(second)
    used = build.chain(first, 4)
    graph = build.done(third, used)
    marking = mark_for_compilation(graph, ON, ClusteringState())
    after = partially_decluster(graph, marking)
    assert [marking.verdicts[id].reason for id in (second[0], third[0])] == [Reason.DECLUSTERED] * 2
    assert marking.clusters[0].members == (1, 4, 5, 6, 7)
    assert after.node(second[0]).inputs == ((8, 0),), "it reads the clone of the first view"
    assert after.node(4).inputs == ((1, 0),), "the cluster reads the original"
    assert graph.node(2).cluster == "cluster_0", "the recorded graph stays as it was"
    after.verify()


def test_a_view_of_a_result_stays():
    build = Build()
    view = build.view(build.chain(build.arg(0), 4))
    graph = build.done(view)
    assert partially_decluster(graph, mark_for_compilation(graph, ON, ClusteringState())) is graph


def test_what_must_be_compiled_is_not_declustered():
    build = Build()
    graph = build.done(build.view(build.arg(0), must_compile=True))
    result = cluster(graph, JitOptions(), ClusteringState())
    assert [node.op for node in result.graph] == ["_Arg", "_JitLaunch"]


def test_a_constant_is_copied_into_the_clusters_that_read_it():
    build = Build()
    constant = build.op("constant", kind="constant", params={"value": 2.0})
    first = build.chain(build.op("mul", build.arg(0), constant), 3)
    last = build.chain(build.op("mul", build.opaque(first), constant), 3)
    result = cluster(build.done(last), ON, ClusteringState())
    launches = [node for node in result.graph if node.op == "_JitLaunch"]
    assert [[node.op for node in launch.subgraph] for launch in launches] == [
        ["_Arg", "constant", "mul", "tanh", "tanh", "tanh"]
    ] * 2
    assert [len(launch.inputs) for launch in launches] == [1, 1]
    assert "constant" not in [node.op for node in result.graph], "nobody else reads it"


def test_a_constant_that_an_eager_op_reads_too_stays():
    build = Build()
    constant = build.op("constant", kind="constant", params={"value": 2.0})
    compiled = build.chain(build.op("mul", build.arg(0), constant), 3)
    eager = build.opaque(compiled, constant)
    result = cluster(build.done(eager, constant), ON, ClusteringState())
    assert result.verdicts[constant[0]].reason is Reason.CONSTANT
    launch = next(node for node in result.graph if node.op == "_JitLaunch")
    assert len(launch.outputs) == 1, "a constant is no result of a cluster"
    assert result.graph.node(eager[0]).inputs[1] == constant
    assert result.graph.fetches[1] == constant


def test_arguments_known_at_compile_time_come_first():
    build = Build(arguments=2)
    build.graph.nodes[1].params["constant"] = True
    value = build.op("pad", build.arg(0), build.arg(1))
    result = cluster(build.done(build.chain(value, 3)), ON, ClusteringState())
    launch = next(node for node in result.graph if node.op == "_JitLaunch")
    assert launch.inputs == ((1, 0), (0, 0))
    assert launch.params["num_constant_args"] == 1


def test_order_and_control_edges_are_kept():
    build = Build()
    a = build.chain(build.arg(0), 4)
    side = build.opaque(build.arg(0), control_inputs=(a[0],))
    b = build.chain(build.op("tanh", build.arg(0), control_inputs=(side[0],)), 3)
    graph = build.done(b)
    result = cluster(graph, ON, ClusteringState())
    first, second = (node for node in result.graph if node.op == "_JitLaunch")
    assert result.graph.node(side[0]).control_inputs == (first.id,)
    assert second.control_inputs == (side[0],)
    assert first.outputs == (), "only the order is wanted of it"


def test_a_cluster_that_would_be_in_a_cycle_is_refused():
    build = Build()
    a = build.op("tanh", build.arg(0))
    graph = build.done(build.op("add", a, build.opaque(a)))
    with pytest.raises(ValueError, match="make a cycle"):
        encapsulate_subgraphs(graph, [Cluster("cluster_0", (1, 3), "cpu", False)])


def test_lazily_a_cluster_is_a_compilation_and_a_run():
    build = Build()
    a = build.chain(build.arg(0), 4)
    side = build.opaque(a, control_inputs=(a[0],))
    graph = build.done(a, side)
    result = cluster(graph, ON.replace(enable_lazy_compilation=True), ClusteringState())
    assert [node.op for node in result.graph] == ["_Arg", "_JitCompile", "_JitRun", graph.node(side[0]).op]
    _, compile, run, after = result.graph
    assert compile.inputs == run.inputs == ((0, 0),)
    assert compile.id in run.control_inputs
    assert run.params == {"function": "cluster_0", "num_constant_args": 0, "must_compile": False}
    assert compile.params == {"function": "cluster_0", "num_constant_args": 0}
    assert run.subgraph is not None
    assert after.control_inputs == (run.id,)
    must = build.done(build.op("tanh", a, must_compile=True))
    result = cluster(must, JitOptions(), ClusteringState())
    assert "_JitLaunch" in [node.op for node in result.graph]
    assert "_JitCompile" not in [node.op for node in result.graph]


def test_a_compiled_node_needs_a_subgraph():
    node = Node(0, "cluster_0", outputs=(VECTOR,), attributes={"_MtCompiledKernel": True})
    with pytest.raises(ValueError, match="no subgraph"):
        build_launch_ops(Graph([node]))


def test_debugging_prints_each_phase(capsys):
    build = Build()
    cluster(build.done(build.chain(build.arg(0), 4)), ON.replace(clustering_debug=True), ClusteringState())
    printed = capsys.readouterr().err
    assert printed.count("// after ") == 4
    assert "graph cluster_0 {" in printed


def test_texts_cost_nothing_when_nobody_wants_them():
    build = Build()
    assert texts(build.done(build.chain(build.arg(0), 4)), ON.replace(dump_to=None)) == {}


def test_a_cluster_that_views_leave_keeps_all_that_is_known_of_it():
    build = Build(arguments=1)
    view = build.op("view", build.arg(0), kind="view")
    graph = build.done(build.op("add", build.chain(build.arg(0), 4), build.opaque(view)))
    marking = mark_for_compilation(graph, ON, ClusteringState())
    (before,) = marking.clusters
    graph.node(view[0]).attributes["_MtCluster"] = before.name
    whole = replace(before, members=(view[0], *before.members), prediction="as predicted")
    marking.clusters = [whole]
    partially_decluster(graph, marking)
    assert marking.clusters == [replace(whole, members=before.members)]
