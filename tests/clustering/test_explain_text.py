"""The account of what was compiled: the figures add up, and the text reads well."""

import json
from textwrap import dedent

import pytest
from clustering_graphs import Build, Source, random_graph

from minitensor_jit.clustering.pipeline import cluster
from minitensor_jit.clustering.state import ClusteringState
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.report import Report

ON = JitOptions(auto_jit=1, cpu_global_jit=True)


def training_step():
    build = Build(arguments=2)
    product = build.op("matmul", build.arg(0), build.arg(1), kind="contraction", source=Source("/home/me/train.py", 31))
    both = build.op("add", product, product, source=Source("/home/me/train.py", 31))
    loss = build.chain(both, 2, source=Source("/home/me/train.py", 33))
    found = build.opaque(loss, source=Source("/home/me/train.py", 40))
    lonely = build.op("add", found, loss, source=Source("/elsewhere/lib.py", 7))
    return build.done(lonely, loss)


def record(report, graph, options=ON, state=None):
    return report.record_trace(graph, cluster(graph, options, state or ClusteringState()))


def test_text():
    report = Report()
    trace = record(report, training_step())
    report.record_hit(trace, 299)
    report.record_compile("cluster_0", 38.24)
    report.record_compile("cluster_0", 12.0, "argument 0: f32[100,64] became f32[97,64]")
    report.record_compile("cluster_0", 13.0, "argument 0: f32[100,64] became f32[97,64]")
    for _ in range(300):
        report.record_flush("item()", Source("/home/me/train.py", 50))
    report.record_flush("end of scope", None)
    assert report.text(root="/home/me") == dedent(
        """\
        1,800 ops in 300 runs of 1 trace: 66.7 % compiled (1,200), 33.3 % eager (600)

        Clusters
          cluster_0: 4 ops, 300 runs, 3 compiles (63.2 ms), 299 cache hits
            predicted 0.5 us and 96 bytes of memory traffic, against 1.6 us and 320 bytes op by op
            train.py:31  add, matmul
            train.py:33  tanh x2

        Left eager
          300 ops: it can't be compiled: its output's shape depends on the data
            train.py:40  nonzero x300
            fix: keep it out of hot loops, since ops before and after it are clustered separately; where the shape of \
its result depends on data, compute on all elements instead, as where(mask, x, 0) does
          300 ops: nonzero at /home/me/train.py:40 stands between it and the ops that it could be compiled with
            /elsewhere/lib.py:7  add x300
            fix: move that op before or after both, or make it compilable

        Flushes (301)
          300  item()        train.py:50
          1    end of scope  (unknown place)

        Compiles (3, 63.2 ms)
          cluster_0  38.2 ms  first use
          cluster_0  25.0 ms  argument 0: f32[100,64] became f32[97,64] (x2)
        """
    )


def test_a_loop_of_new_traces_stays_short():
    report = Report()
    state = ClusteringState()
    for step in range(300):
        record(report, training_step(), state=state)
        report.record_compile(f"cluster_{step}", 1.0, f"argument 0: f32[{step}] became f32[{step + 1}]")
        report.record_flush("item()", Source("/home/me/train.py", 50))
    text = report.text()
    assert "cluster_0 and 299 more from the same lines: 4 ops, 300 runs, 300 compiles (300.0 ms)" in text
    assert "... and 276 more" in text
    assert len(text.splitlines()) < 60


def test_a_cluster_that_failed_to_compile_is_accounted_as_eager():
    report = Report()
    record(report, training_step())
    report.record_fallback("cluster_0", "LLVM is out of registers")
    account = report.account()
    assert account.compiled == 0
    assert account.left_eager == 6
    assert "4 ops: compiling its cluster failed: LLVM is out of registers" in report.text()
    assert "--dump_to" in report.text()


@pytest.mark.parametrize("seed", range(20))
def test_every_op_is_accounted_for_once(seed):
    report = Report()
    state = ClusteringState()
    expected = 0
    for number in range(3):
        graph = random_graph(100 * seed + number)
        trace = record(report, graph, ON.replace(auto_jit=seed % 3), state)
        report.record_hit(trace, number)
        expected += (number + 1) * sum(node.is_op for node in graph)
    account = report.account()
    eager = sum(ops.total() for ops in account.eager.values())
    clustered = sum(entry.ops.total() * entry.runs for entry in account.clusters)
    assert account.total == expected
    assert eager == account.left_eager
    if all(len(entry.names) == 1 for entry in account.clusters):
        assert clustered == account.compiled
    data = json.loads(json.dumps(report.to_json()))
    assert data["ops"]["total"] == data["ops"]["compiled"] + data["ops"]["eager"] == expected
    assert sum(row["count"] for group in data["eager"] for row in group["ops"]) == data["ops"]["eager"]
    for group in data["eager"]:
        assert group["reason"]
        assert group["code"]


def test_ops_that_ran_at_once_are_in_the_account():
    report = Report()
    record(report, training_step())
    for _ in range(3):
        report.record_eager("unique", "the shape of its result depends on the data", Source("train.py", 8))
    account = report.account()
    assert (account.total, account.compiled, account.left_eager) == (9, 4, 5)
    text = report.text()
    assert "3 ops: it can't be compiled: the shape of its result depends on the data\n    train.py:8  unique x3" in text


def test_json():
    report = Report()
    record(report, training_step())
    report.record_compile("cluster_0", 2.5)
    report.record_flush("numpy()", Source("train.py", 9))
    data = report.to_json()
    assert data["clusters"] == [
        {
            "names": ["cluster_0"],
            "percent": pytest.approx(100 * 4 / 6),
            "ops": [
                {"op": "add", "count": 1, "file": "/home/me/train.py", "line": 31},
                {"op": "matmul", "count": 1, "file": "/home/me/train.py", "line": 31},
                {"op": "tanh", "count": 2, "file": "/home/me/train.py", "line": 33},
            ],
            "runs": 1,
            "compiles": 1,
            "compile_milliseconds": 2.5,
            "cache_hits": 0,
            "prediction": "predicted 0.5 us and 96 bytes of memory traffic, against 1.6 us and 320 bytes op by op",
            "refusals": [],
        }
    ]
    assert data["flushes"] == [{"reason": "numpy()", "count": 1, "file": "train.py", "line": 9}]
    assert data["compiles"] == [{"cluster": "cluster_0", "why": "first use", "count": 1, "milliseconds": 2.5}]


def test_nearly_all_is_not_all():
    build = Build()
    report = Report()
    record(report, build.done(build.opaque(build.chain(build.arg(0), 5000))))
    assert "99.9 % compiled (5,000), 0.1 % eager (1)" in report.text()


def test_nothing_was_recorded():
    report = Report()
    assert report.text().startswith("No ops were recorded")
    record(report, training_step())
    report.clear()
    assert report.text() == Report().text()


def test_copies_of_shared_memory_are_summed_up_by_line():
    report = Report()
    trace = record(report, training_step())
    report.record_hit(trace, 2)
    for _ in range(3):
        report.record_copy(4_000_000, Source("/home/me/train.py", 31))
    report.record_copy(16)
    text = report.text(root="/home/me").split("\n\n")
    (section,) = [part for part in text if part.startswith("Copies of shared memory")]
    title, first, second, fix = section.splitlines()
    assert title.startswith("Copies of shared memory (4, 12,000,016 bytes): NumPy ")
    assert first == "  3  12,000,000 bytes  train.py:31"
    assert second == "  1  16 bytes          (unknown place)"
    assert "`.clone()`" in fix
    (one, other) = json.loads(json.dumps(report.to_json()["copies"]))
    assert (one["count"], one["bytes"], one["file"], one["line"]) == (3, 12_000_000, "/home/me/train.py", 31)
    assert (other["count"], other["bytes"], other["file"], other["line"]) == (1, 16, None, None)
    report.clear()
    assert report.to_json()["copies"] == []
