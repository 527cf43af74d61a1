"""The programs that are timed as whole processes: each runs, and clustering changes none of its results."""

import math
import time

import pytest

import minitensor as mt
from benchmarks import run
from benchmarks.programs import __main__ as runner
from benchmarks.programs import case, limits, one

PROGRAMS = case.load_all()


def test_there_are_programs_of_all_kinds():
    assert len(PROGRAMS) >= 40
    assert {name.partition(".")[0] for name in PROGRAMS} == set(case.KINDS)
    assert sum(p.pays for p in PROGRAMS.values()) >= 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_clustered_programs_find_the_same(name):
    chosen = PROGRAMS[name]
    expected = repr(case.plain(chosen.run(chosen.few)))
    assert "tensor" not in expected
    for level in (1, 2):
        with mt.jit.options(auto_jit=level, cpu_global_jit=True):
            assert repr(case.plain(chosen.run(chosen.few))) == expected


def test_a_program_prints_its_result_last(capsys):
    one.main(["branches.newton", "2"])
    assert capsys.readouterr().out == f"{case.plain(PROGRAMS['branches.newton'].run(2))}\n"


def test_limits():
    assert limits.missed({"eager": 0.1, "level 1": 0.15, "level 2": 0.25, "level 2 again": 0.12}) == []
    assert limits.missed({"eager": 0.1, "level 1": 0.151, "level 1 again": 0.119}) == ["level 1"]
    assert limits.missed({"eager": 10.0, "level 1": 10.5, "level 2": 11.01, "level 2 again": 10.21}) == [
        "level 2",
        "level 2 again",
    ]


def test_winners():
    medians = {"a": {"eager": 1.0, "level 2 again": 0.9}, "b": {"eager": 1.0, "level 2 again": 0.4}}
    assert limits.winners_met(medians, {"a", "b"})  # 0.6
    assert not limits.winners_met(medians, {"a"})
    assert limits.winners_met(medians, set())
    assert math.isnan(limits.geometric_mean([]))
    (line,) = limits.summary(medians, {"a", "b"})
    assert "2 of 2 within max(1.02x, +20 ms)" in line
    assert "win 0.600" in line


def test_what_a_run_leaves_behind_is_waited_for(monkeypatch, tmp_path):
    script = tmp_path / "program"
    script.write_text('#!/bin/sh\n(exec >/dev/null 2>&1; sleep 0.3; touch "$0.done") &\necho "$MT_JIT_FLAGS $4"\n')
    script.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(script))
    monkeypatch.setenv("MT_JIT_FLAGS", "--of-this-process")
    seconds, printed = runner.timed("branches.newton", 7, "--flags", time.perf_counter)
    assert printed == "--flags 7\n"
    assert seconds > 0
    assert (tmp_path / "program.done").exists()
    assert runner.timed("branches.newton", 7, None, time.perf_counter)[1] == " 7\n"
    script.write_text("#!/bin/sh\necho wrong >&2; exit 3\n")
    with pytest.raises(RuntimeError, match="ended with 3:\nwrong"):
        runner.timed("branches.newton", 7, None, time.perf_counter)


def test_the_runner_names_what_is_printed_otherwise(monkeypatch, capsys):
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cpus: None)
    for name in (*run.THREAD_VARIABLES, *run.OTHER_VARIABLES, run.UNWANTED_VARIABLE):
        monkeypatch.setenv(name, "2")  # undone at the end, whatever it sets
    seen = []

    def timed(name, iterations, flags, clock):
        seen.append((iterations, flags))
        return (1.0, "1\n") if flags is None else (0.5, "2\n" if len(seen) == 3 else "1\n")

    monkeypatch.setattr(runner, "timed", timed)
    assert runner.main(["--filter", "newton", "--rounds", "2", "--level", "2", "--iterations", "0.1"]) == 1
    (result,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("branches.newton ")]
    assert result.endswith("PRINTED SOMETHING ELSE: level 2 again")
    assert [iterations for iterations, _ in seen] == [45] * 6
    assert [bool(flags) for _, flags in seen] == [False, True, True] * 2
    folders = [flags.partition("--persistent_cache_directory=")[2] for _, flags in seen if flags]
    assert folders[0] == folders[1] != folders[2] == folders[3]
    monkeypatch.setattr(runner, "timed", lambda name, iterations, flags, clock: (1.0, ""))
    assert runner.main(["--filter", "newton", "--rounds", "1"]) == 0
    assert runner.main(["--filter", "no such program"]) == 2
