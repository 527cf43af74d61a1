"""The benchmark suite's own machinery: what it times, and when a goal is met."""

import contextlib
import json
import os

import pytest

from benchmarks import gpu_report, report, run
from benchmarks.case import OURS, Case, Goal, Queued, Script, Snippet, at_least, at_most, load_cases, within
from benchmarks.compiled import __main__ as compiled
from benchmarks.core_distance import CoreDistance

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def test_snippet_runs_as_often_as_asked():
    log = []
    snippet = Snippet("log.append(x)", setup="x = 1", log=log)
    assert snippet.seconds(5) > 0
    assert log == [1] * 5


def test_snippet_in_batches():
    log = []

    @contextlib.contextmanager
    def around():
        log.append("(")
        yield
        log.append(")")

    Snippet("log.append('.')", around=around, batch=2, log=log).seconds(5)
    assert "".join(log) == "(..)(..)(.)"


def test_script_prints_its_own_time():
    assert Script("print(0.25)").seconds(2) == 0.5


def test_goals():
    medians = {OURS: 1.0, "peer": 4.0}
    assert at_most(0.25, "peer").met(medians)
    assert not at_most(0.2, "peer").met(medians)
    assert at_least(4.0, "peer").met(medians)
    assert not at_least(4.1, "peer").met(medians)
    assert within(1.0).met(medians)
    assert not within(0.5).met(medians)
    # What can't be told is neither met nor missed.
    assert at_most(1.0, "peer").met({OURS: 1.0}) is None
    assert within(1.0).met({"peer": 1.0}) is None
    assert Goal(peer="peer").met(medians) is None


def test_every_case_has_ours_and_its_goals_name_contenders():
    cases = load_cases()
    assert len(cases) > 10
    for case in cases.values():
        assert OURS in case.contenders
        assert all(goal.peer is None or goal.peer in case.contenders for goal in case.goals)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s"), (0.0234, "23.4 ms"), (1e-6, "1 us"), (2.5e-7, "250 ns"), (3e-9, "3 ns"), (1234.0, "1234 s")],
)
def test_durations(seconds, text):
    assert report.duration(seconds) == text


def test_run_writes_only_on_request(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cpus: None)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(run, "CoreDistance", lambda first, second: lambda: 3e-6 * (second - first))
    for name in (*run.THREAD_VARIABLES, *run.OTHER_VARIABLES, run.UNWANTED_VARIABLE):
        monkeypatch.setenv(name, "2")  # undone at the end, whatever run sets
    path = tmp_path / "figures.json"
    status = run.main(["--filter", "^eager_add$", "--rounds", "2", "--min-time", "0.01", "--json", str(path)])
    assert status in (0, 1)  # a goal may be missed on a busy machine
    text = capsys.readouterr().out
    assert "machine:" in text
    assert "cores:     16 kB from one to another and back in 3 us\n" in text
    assert text.endswith("cores:     16 kB from one to another and back in 3 us, 3 us at the end\n")
    assert "eager_add: a + b on one element" in text
    (result,) = json.loads(path.read_text())["results"]
    assert len(result["seconds"]["numpy"]) == 2
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(CPUS < 2, reason="there is one CPU only, or threads can't be told where to run")
def test_the_distance_of_two_cores():
    allowed = os.sched_getaffinity(0)
    first, second = sorted(allowed)[:2]
    assert 0 < CoreDistance(first, second)() < 0.1
    assert os.sched_getaffinity(0) == allowed


def test_no_such_case(capsys):
    assert run.main(["--filter", "nothing"]) == 2
    assert "eager_add" in capsys.readouterr().out
    assert run.main(["--list"]) == 0


def test_the_page_of_a_gpu_has_every_contender_and_says_what_failed():
    goals = (at_least(0.5, "copy"), within(2.0))
    measured = Case("x", "a case", goals, {OURS: None, "copy": None, "torch": None}, device="cuda")
    about = {"date": "today", "GPU": "none"}
    text = gpu_report.page(about, [(measured, {OURS: 1.0, "copy": 0.4}, {"torch": "not installed: torch"})])
    assert "- Date: today\n- GPU: none\n" in text
    assert "| a case | minitensor | 1 s |  | 2 s | yes |\n" in text
    assert "|  | copy | 400 ms | 2.500 | 2 | **no** |\n" in text
    assert "|  | torch | not installed: torch |  |  |  |\n" in text


def test_without_a_gpu_nothing_is_measured_and_nothing_written(capsys, monkeypatch):
    monkeypatch.setattr(gpu_report, "why_not", lambda: "there is no driver")
    monkeypatch.setattr(gpu_report, "write", lambda *_: pytest.fail("written"))
    assert run.main(["--device", "cuda"]) == 2
    assert "there is no driver" in capsys.readouterr().err


def test_queued_work_is_waited_for():
    log = []
    queued = Queued("log.append('work')", lambda: log.append("wait"), log=log)
    assert queued.seconds(2) > 0
    assert log == ["wait", "work", "work", "wait"]


def test_compiled_programs_are_listed_by_their_ratio(capsys):
    assert compiled.main(["--filter", "^(rms_norm|queries)$", "--rounds", "1", "--seconds", "0", "--above", "0"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    ratios = [float(line.split()[0]) for line in lines]
    assert ratios == sorted(ratios, reverse=True)
    labels = {line[8:].split("  ")[0] for line in lines}
    assert labels == {"rms_norm", "rms_norm, gradient", "queries", "queries, gradient"}
    assert last.startswith("4 programs, compiled in ")
    with pytest.raises(SystemExit):
        compiled.main(["--filter", "nothing of the kind"])
