"""What is in the report of a run: as the account, the profile and the compiler have it."""

import json
from types import SimpleNamespace

import pytest

import minitensor as mt
from minitensor_jit.clustering.graph import Graph, Node, Source, TensorMeta
from minitensor_jit.errors import DumpError
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect import run_record
from minitensor_jit.inspect.report_page.data import _timeline, data_of
from minitensor_jit.inspect.report_page.packing import NotAReportError, module_text, read_report
from minitensor_jit.inspect.report_page.table import Table
from minitensor_jit.inspect.run_events import RunEvents
from minitensor_jit.inspect.run_record import RunRecord, recording
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.tools import report, run_hlo_module


@pytest.fixture(scope="module")
def read(made):
    return read_report(made()[0])


def line_of(data, mark):
    (source,) = data["sources"].values()
    return next(n for n, text in enumerate(source, 1) if text.endswith(f"# {mark}"))


def test_lines_have_the_share_of_their_ops_that_was_compiled_and_their_time(read):
    data, _ = read
    lines = {line["line"]: line for line in data["lines"]}
    compiled, eager = lines[line_of(data, "compiled")], lines[line_of(data, "stays eager")]
    assert compiled["eager"] == 0
    assert compiled["compiled"] == 6 * 3 == sum(counts[0] for counts in compiled["ops"].values())
    assert compiled["compiled_seconds"] > 0 == compiled["eager_seconds"]
    assert eager["eager"] >= 1
    assert eager["eager_seconds"] > 0
    assert sum(line["compiled"] for line in data["lines"]) == data["account"]["ops"]["compiled"]


def test_every_op_that_stays_eager_has_a_reason_and_a_fix(read):
    data, _ = read
    line = next(line for line in data["lines"] if line["line"] == line_of(data, "stays eager"))
    reasons = [data["account"]["eager"][k] for k in line["reasons"]]
    assert "not-compilable" in {one["code"] for one in reasons}
    assert all(one["fix"] for one in reasons)


def test_recompilations_name_the_value_that_differed_and_the_callers_stack(read):
    data, _ = read
    assert data["compiles"][0]["why"] == "first use"
    again = next(one for one in data["compiles"] if "became" in one["why"])
    before, _, after = again["why"].partition("became")
    assert "8" in before
    assert "9" in after
    file, line, function = again["stack"][0]
    assert data["files"][file].endswith("program.py")
    assert line == line_of(data, "the end of what is recorded")
    assert function == "<module>"


def test_modules_have_every_stage_with_the_rules_that_were_applied(read):
    data, parts = read
    about = data["modules"][0]
    module = parts[about["part"] - 1]
    assert module["stages"][0]["name"] == "as lowered"
    assert [sum(len(c[3]) for c in stage["computations"]) for stage in module["stages"]] == about["instructions"]
    changed = [name for name, changed, _ in module["passes"] if changed]
    assert [stage["name"] for stage in module["stages"][1:]] == changed
    rules = [stage["rules"] for stage in module["stages"] if stage["name"] == "algsimp"]
    assert any(rules)
    assert all(n > 0 for one in rules for n in one.values())
    drawn = [module["layouts"][c[4]] for stage in module["stages"] for c in stage["computations"] if c[1]]
    assert all(drawn), "the entry is drawn at each stage"


def test_graphs_have_every_phase_and_lead_to_modules(read):
    data, parts = read
    graph = parts[data["graphs"][0]["part"] - 1]
    assert [phase["name"] for phase in graph["phases"]] == [
        "recorded",
        "mark_for_compilation",
        "partially_decluster",
        "encapsulate_subgraphs",
        "build_launch_ops",
    ]
    before, *took = [phase["seconds"] for phase in graph["phases"]]
    assert before == 0.0, "what came before the first phase isn't one"
    assert all(seconds > 0 for seconds in took)
    (cluster,) = graph["clusters"]
    assert cluster in data["module_of"]
    ids = {row[0] for row in graph["rows"]}
    assert ids.issuperset(graph["clusters"][cluster])


def test_code_says_which_instruction_each_line_is_for(read):
    data, parts = read
    module = parts[data["modules"][0]["part"] - 1]
    names = {row[0] for row in module["rows"]}
    for kind, mark in (("ir-no-opt.ll", "  ; "), ("s", "\t# ")):
        noted = {line.rpartition(mark)[2] for line in module["texts"][kind].splitlines() if mark in line}
        assert len(noted & names) > 5
        assert noted <= names | {""}, "every note is an instruction of some stage"
    assert ".loc" not in module["texts"]["s"]
    assert ".debug" not in module["texts"]["s"]


def test_kernels_memory_and_timeline_are_measured(read):
    data, _ = read
    kernels = [kernel for cluster in data["profile"]["clusters"] for kernel in cluster["kernels"]]
    assert kernels
    assert all(kernel["runs"] and kernel["fastest_seconds"] > 0 for kernel in kernels)
    assert data["memory"]["peak"] > 0
    times = [sample[0] for sample in data["memory"]["samples"]]
    assert times == sorted(times)
    launched = {name for name, _, _ in data["memory"]["launches"]}
    assert launched == set(data["launches"]) == set(data["memory"]["predicted"])
    assert sum(runs for runs, _ in data["launches"].values()) == 6
    kinds = [event[1] for event in data["timeline"]["first"]]
    assert kinds.count(1) == 6
    assert 0 in kinds
    assert data["timeline"]["count"] == len(kinds)


def test_compile_time_is_divided_among_phases_passes_and_code_generation(read):
    data, _ = read
    names = {span[0] for span in data["spans"]}
    assert {"mark_for_compilation", "lowering", "pass fusion", "emit", "llvm", "load"} <= names
    assert all(took >= 0 and depth >= 0 for _, _, took, depth, _ in data["spans"])


def test_modules_run_from_the_report_alone(made, capsys):
    path = made()[0]
    data, _ = read_report(path)
    name = f"{path}#{data['modules'][0]['name']}"
    text = module_text(name)
    module = parse_module(text)
    check(module)
    marked = [line.split()[1] for line in text.splitlines() if line.startswith(("  ROOT ", "ENTRY "))]
    assert marked == [c.root.name for c in module.computations[:-1]] + [module.entry.name, module.entry.root.name]
    assert run_hlo_module.main([name]) == 0
    assert "agree" in capsys.readouterr().out
    with pytest.raises(NotAReportError, match="it has cluster_"):
        module_text(f"{path}#nothing")


@pytest.mark.parametrize(("how", "status"), [("raise", 1), ("exit", 7)])
def test_it_is_written_however_the_program_ends(made, how, status):
    path, got, _ = made(how)
    assert got == status
    end = read_report(path)[0]["end"]
    assert end["status"] == status
    if how == "raise":
        assert end["kind"] == "exception"
        assert end["type"] == "ValueError"
        assert end["message"] == "</script> & <b>wrong</b>"
        assert "program.py" in end["traceback"]


def test_a_program_that_ends_without_python_is_told(made):
    path, status, said = made("vanish")
    assert status == 5
    assert not path.exists()
    assert "no report was written" in said


def test_two_reports_are_compared(made, capsys):
    assert report.main(["--diff", str(made()[0]), str(made("raise")[0])]) == 0
    out = capsys.readouterr().out
    assert "ops compiled" in out
    assert "Kernels of both" in out
    assert "ValueError" in out
    assert report.main(["--json", str(made()[0])]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_what_is_no_report_is_an_error(tmp_path, capsys):
    page = tmp_path / "other.html"
    page.write_text("<p>something else")
    assert report.main(["--diff", str(page), str(page)]) == 2
    assert "no report" in capsys.readouterr().err
    assert report.main(["-o", str(tmp_path / "no" / "folder.html"), "program.py"]) == 2
    assert "can't write" in capsys.readouterr().err


def test_a_part_of_a_program_has_a_report_of_its_own(tmp_path):
    x = mt.rand(32)
    path = tmp_path / "part.html"

    def fails():
        assert recording() is not None
        with pytest.raises(RuntimeError, match="already"):
            mt.jit.report().__enter__()
        (x * 2 + 1).tanh().exp().sum().item()
        raise ZeroDivisionError("no")

    seen = mt.jit.report(path)
    with pytest.raises(ZeroDivisionError), seen:
        fails()
    assert recording() is None
    data, _ = read_report(path)
    assert data["end"]["type"] == "ZeroDivisionError"
    assert data["account"]["ops"]["compiled"] == 5
    assert len(data["modules"]) == 1
    assert seen.html == path.read_text()
    shown = seen._repr_html_()
    assert shown.startswith("<iframe sandbox=")
    assert "<script" not in shown
    with mt.jit.report() as again:
        (x * 2 + 1).tanh().exp().sum().item()
    again.save(tmp_path / "again.html")
    assert len(read_report(tmp_path / "again.html")[0]["modules"]) == 1, "it was compiled once more, to be seen"
    with pytest.raises(DumpError):
        mt.jit.report(tmp_path / "no" / "x.html")
    with pytest.raises(RuntimeError, match="at the end"):
        _ = mt.jit.report().html


def test_times_of_lines_are_sums():
    events = RunEvents()
    for name, op, start, end, line in [
        ("a", "add", 5, 7, 3), ("b", "mul", 7, 11, 3), ("c", "add", 20, 28, 3), ("c", "add", 30, 31, 4),
        ("d", "_JitLaunch", 40, 56, 4),
    ]:  # fmt: skip
        events.add([(name, op, start, end, 0, "f.py", line, None, [], 0)])
    assert events.eager["f.py", 3].ops == {"add": [2, 10], "mul": [1, 4]}
    found = {line: (entry.runs, entry.nanoseconds) for (_, line), entry in events.eager.items()}
    assert (found, events.launches) == ({3: (3, 14), 4: (1, 1)}, {"d": [1, 16]})


def test_an_event_without_a_place_in_the_program_has_no_line():
    events = RunEvents()
    events.add(
        [("add", "add", 1000, 3000, 7, None, None, 0, (), 64), ("mul", "mul", 3000, 4000, 7, "a.py", 12, 0, (), 8)]
    )
    files = Table()
    found = _timeline(SimpleNamespace(began=0.0, events=events), files)
    assert [row[5:8] for row in found["first"]] == [[-1, 0, 64], [0, 12, 8]]
    assert [row[2:4] for row in found["first"]] == [[1.0, 2.0], [3.0, 1.0]]
    assert files.values == ["a.py"]


def test_a_record_ends_once_and_notes_nothing_after(monkeypatch):
    """Its time is that from its beginning to its first end, and its memory is watched until then."""
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    record = RunRecord(began=clock.now)
    monkeypatch.setattr(run_record, "time", clock)
    assert record.ended == 0
    record.start()
    watching = record.memory._thread
    assert watching.is_alive()
    clock.now = 107.5
    record.stop()
    assert (record.began, record.ended) == (100.0, 107.5)
    assert not watching.is_alive()
    samples = len(record.memory.samples)
    clock.now = 120.0
    record.stop()
    assert record.ended == 107.5
    assert len(record.memory.samples) == samples
    assert data_of(record, "")[0]["seconds"] == 7.5


def some_graph(op="tanh", line=3, size=8, k=1, control=()):
    vector = TensorMeta("f32", (size,))
    graph = Graph(name="step")
    graph.add_argument(0, vector)
    graph.add(Node(1, "exp", ((0, 0),), (vector,), source=Source("a.py", 1)))
    graph.add(Node(2, op, ((0, 0),), (vector,), {"k": k}, source=Source("a.py", line), control_inputs=control))
    graph.fetches = [(1, 0), (2, 0)]
    return graph


def test_graphs_are_the_same_if_nothing_differs_but_the_names_of_clusters():
    record = RunRecord()
    options = JitOptions(auto_jit=2, cpu_global_jit=True, min_cluster_size=2)
    for _ in range(3):
        record.cluster(some_graph(), options)
    (graph,) = record.graphs
    assert graph.alike == 2
    assert len(graph.clusters) == 3
    assert all(members == [1, 2] for members in graph.clusters.values())
    for other in ({"op": "cos"}, {"line": 4}, {"size": 9}, {"k": 2}, {"control": (1,)}):
        record.cluster(some_graph(**other), options)
    assert len(record.graphs) == 6
    assert [graph.alike for graph in record.graphs] == [2, 0, 0, 0, 0, 0]
    record.cluster(some_graph(line=4), options)
    assert record.graphs[2].alike == 1
