"""What programs under the flags keep for their next process, and the helper that compiles while they go on."""

import os
import pickle
import struct
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path

import forks
import pytest
from sanitizers import TSAN
from test_policy import SECOND, Clock, program

import minitensor as mt
from minitensor import _C
from minitensor._jit import background_process, kept_plans, programs
from minitensor_jit.compiler import background_worker

ROOT = str(Path(mt.__file__).parent.parent)
FLAGS = "--auto_jit=2 --cpu_global_jit"


def run(script, cache, flags=FLAGS, **variables):
    """The lines that a program prints whose cache directory is `cache`."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith("MT_") and k not in programs._CI}
    environment = keep | {"PYTHONPATH": ROOT, "XDG_CACHE_HOME": str(cache), "MT_JIT_FLAGS": flags} | variables
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def script(tmp_path):
    """A program whose steps take 5 ms by its clock, recorded 1; it goes on until it is compiled, or for so many."""
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent(
            """
            import os, sys, time
            import minitensor as mt

            now = time.monotonic_ns()
            mt._C.set_policy_clock(lambda: now)
            most = int(os.environ.get("STEPS", "1000000"))
            x = mt.full((1000,), 0.375)
            recorded = []
            begun = time.monotonic()
            while len(recorded) < most and time.monotonic() < begun + 120:
                y = x * 1.5 + 0.25
                for _ in range(6):
                    y = mt.tanh(y * 0.75) - 0.125 * y
                recorded.append(y._is_pending)
                now += 1_000_000 if y._is_pending else 5_000_000
                if len(recorded) > 20 and not y._is_pending:
                    time.sleep(0.005)  # for the helper
                last = y[0].item()
                if len(recorded) > 40 and all(recorded[-20:]):
                    break
            print(last)
            print("".join(".R"[one] for one in recorded[:12]))
            print(all(recorded[-20:]))
            print(sorted({"llvmlite", "numpy", "minitensor_jit.compiler.launcher"} & set(sys.modules)))
            """
        )
    )
    return path


@pytest.mark.skipif(TSAN, reason="the helper is begun by a shell, where ThreadSanitizer crashes")
def test_a_helper_compiles_and_the_next_process_starts_compiled(script, tmp_path):
    cache = tmp_path / "cache"
    value, begins, compiled, modules = run(script, cache)
    assert compiled == "True"
    assert "." in begins  # while the helper compiled
    assert modules == "[]"  # which is the helper's business
    folder = cache / "minitensor"
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = {path.suffix for path in folder.iterdir() if not path.name.startswith(".")}
    assert kept == {".mto", ".mtr", ".mtd"}
    again, begins, compiled, modules = run(script, cache, STEPS="60")
    # The first step begins where x is made.
    assert (again, begins[1:], compiled, modules) == (value, "R" * 11, "True", "[]")
    eagerly = run(script, cache, flags="", STEPS="1")
    assert eagerly[0] == value


@pytest.fixture
def once(tmp_path):
    """A program that computes one thing: in 50 ms by its clock, recorded in SLOW, and 1 an op."""
    path = tmp_path / "once.py"
    path.write_text(
        textwrap.dedent(
            """
            import itertools, os, time
            import minitensor as mt
            from minitensor._jit import programs

            millisecond = 1_000_000
            ticks = itertools.count(time.monotonic_ns(), millisecond)
            took = 0
            mt._C.set_policy_clock(lambda: next(ticks) + took)
            x = mt.full((1000,), 0.375)
            for _ in range(5):
                x = mt.tanh(x * 0.75) - 0.125 * x
            recorded = x._is_pending
            took += (int(os.environ["SLOW"]) if recorded else 50) * millisecond
            print(x[0].item(), ".R"[recorded], programs.begun.recalled)
            """
        )
    )
    return path


def processes(once, cache, level, slow, count):
    """What so many processes of the program did, one after the other; each with what the last one asked for."""
    flags = f"--auto_jit={level} --cpu_global_jit"
    done, values = [], set()
    for _ in range(count):
        (line,) = run(once, cache, flags, SLOW=str(slow))
        value, recorded, recalled = line.split()
        values.add(value)
        done.append((recorded, int(recalled)))
        until = time.monotonic() + 120
        while list((cache / "minitensor").glob(".*job.tmp")) and time.monotonic() < until:
            time.sleep(0.05)
    assert len(values) == 1
    return done


@pytest.mark.sampled(3)
@pytest.mark.skipif(TSAN, reason="the helper is begun by a shell, where ThreadSanitizer crashes")
@pytest.mark.parametrize("slow", [10, 90], ids=["faster", "slower"])
def test_what_comes_once_in_a_process_is_compiled_for_later_ones(once, tmp_path, slow):
    """At the second request, which is the second process; then there is a contest, in which each process has a turn."""
    done = processes(once, tmp_path / "cache", 2, slow, 8)
    assert done[:2] == [("R", 0), ("R", 0)]  # op by op
    assert done[2:6] == [("R", 1), (".", 0), ("R", 1), (".", 0)]
    assert done[6:] == [("R", 1) if slow < 50 else (".", 0)] * 2


@pytest.mark.skipif(TSAN, reason="the helper is begun by a shell, where ThreadSanitizer crashes")
def test_level_1_counts_the_time_of_all_processes(once, tmp_path):
    """What is expected to take 300 ms to compile is compiled when its ops have taken as long, and not before."""
    done = processes(once, tmp_path / "cache", 1, 10, 12)
    asked = done.index(("R", 0), 1)
    assert 5 <= asked <= 9
    assert done[1:asked] == [(".", 0)] * (asked - 1)
    assert done[asked + 1] == ("R", 1)


def test_nothing_is_kept_in_ci_or_by_flag(script, tmp_path):
    for number, (flags, variables) in enumerate(
        [(FLAGS, {"CI": "true"}), (FLAGS, {"GITHUB_ACTIONS": "1"}), (f"{FLAGS} --program_cache=false", {})]
    ):
        cache = tmp_path / str(number)
        run(script, cache, flags, STEPS="8", **variables)
        assert not cache.exists()


def test_a_folder_that_others_can_write_to_is_left_alone(script, tmp_path):
    folder = tmp_path / "cache" / "minitensor"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    run(script, tmp_path / "cache", STEPS="8")
    assert list(folder.iterdir()) == []


def test_damaged_files_are_ignored(script, tmp_path):
    cache = tmp_path / "cache"
    run(script, cache, STEPS="2")
    (path,) = (cache / "minitensor").glob("*.mtr")
    good = path.read_bytes()
    flipped = good[:20] + bytes([good[20] ^ 1]) + good[21:]
    for bad in (b"", good[:-1], good + b"x", flipped, good.replace(b"runs 3", b"runs 0")):
        path.write_bytes(bad)
        lines = run(script, cache, STEPS="2")
        assert lines[1] == "RR"
        assert path.read_bytes() == good


def test_the_flags_of_a_plain_program(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    for name in programs._CI:
        monkeypatch.delenv(name, raising=False)
    here = "/caches/minitensor"
    for text, expected in {
        "--auto_jit=2 --cpu_global_jit": (2, here),
        "--cpu_global_jit=true  --auto_jit=1": (1, here),
        "--auto_jit=1 --auto_jit=2 --cpu_global_jit": (2, here),
        "--auto_jit=2 --cpu_global_jit --program_cache": (2, here),
        "--auto_jit=2 --cpu_global_jit --program_cache=false": (2, None),
        "--auto_jit=2 --cpu_global_jit --persistent_cache_directory=/x/y": (2, "/x/y"),
        "--auto_jit=2": None,
        "--cpu_global_jit": None,
        "--auto_jit=0 --cpu_global_jit": None,
        "--auto_jit=2 --cpu_global_jit=false": None,
        "--auto_jit=2 --cpu_global_jit --explain": None,
        "--auto_jit=2 --cpu_global_jit --dump_to='/a b'": None,
        "--auto_jit=2 --cpu_global_jit --auto_jit": None,
        "": None,
    }.items():
        assert programs.plain(text) == expected, text
        if expected is not None:  # what it leaves to the parser is what the parser says
            options = mt.jit.current_options().replace()
            from minitensor_jit.flags import parse_flags

            options = parse_flags(text)
            assert options.auto_jit == expected[0]
            from minitensor_jit.api import _bits_of

            assert 8 | _bits_of(options) == programs.FIRST | (programs.CAREFUL if expected[0] == 1 else 0)


def test_where_programs_keep_what_they_learn(monkeypatch):
    for name in programs._CI:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert programs.default_folder() in ("/home/me/.cache/minitensor", "/home/me/Library/Caches/minitensor")
    monkeypatch.setenv("CI", "false")
    assert programs.default_folder() is not None
    monkeypatch.setenv("CI", "1")
    assert programs.default_folder() is None


# ---- the policy and a helper that the test plays


@contextmanager
def with_helper(clock, *expects_put_off):
    """A program that has run for long, the jobs that it hands out, and how to answer them.

    Which of the first jobs are put off until the program ends; the others aren't.
    """
    expects_put_off = list(expects_put_off)
    jobs = []
    replies, ours = os.pipe()

    def submit(number, signature, described, put_off):
        assert put_off == expects_put_off.pop(0) if expects_put_off else not put_off
        jobs.append((number, signature, described))
        return True

    def answer(number, done):
        os.write(ours, struct.pack("=QQ", number, done))
        clock.now += SECOND // 100  # it isn't asked at every turn

    with program(clock, enable_lazy_compilation=True):
        clock.now += 1000 * SECOND
        _C.set_submit_callback(submit)
        _C.set_reply_pipe(replies)
        try:
            yield jobs, answer, lambda: os.close(ours)
        finally:
            _C.set_submit_callback(None)
            _C.set_reply_pipe(-1)
            os.close(replies)


def steps(clock, count):
    x, modes = mt.ones(5), []
    for _ in range(count):
        x.sum().item()
        x = mt.tanh(x * 1.5 + 0.5) - 0.25
        modes.append(clock.sees(x))
    return modes


def test_it_runs_eagerly_while_the_helper_compiles():
    clock = Clock(recorded=10_000_000, eager=10_000_000)
    with with_helper(clock) as (jobs, answer, _):
        modes = steps(clock, 40)
        assert modes[0]
        assert not any(modes[4:])
        assert len(jobs) == 1
        number, signature, described = jobs[0]
        assert [len(part) for part in described] == [6, 1, 4] or len(described[0]) > 3
        assert len(signature) % 8 == 0
        # What it says that it has compiled isn't there: as if it had said that it can't be.
        answer(number, 1)
        assert sum(steps(clock, 100)[10:]) < 10
        assert len(jobs) == 1


def test_what_the_helper_can_not_compile_is_demoted():
    clock = Clock(recorded=10_000_000, eager=10_000_000)
    with with_helper(clock) as (jobs, answer, _):
        steps(clock, 20)
        answer(jobs[0][0], 0)
        assert not any(steps(clock, 60)[2:])
        assert len(jobs) == 1


def test_a_helper_that_has_gone_is_not_waited_for():
    clock = Clock(recorded=10_000_000, eager=10_000_000)
    with with_helper(clock) as (jobs, _, close):
        steps(clock, 20)
        assert len(jobs) == 1
        close()
        clock.now += SECOND // 100
        assert not any(steps(clock, 60)[2:])


def test_what_may_come_once_in_a_process_is_compiled_when_that_ends():
    """A run that an earlier process saw: this one compiles it at once when it comes again."""

    def run():
        clock.now += SECOND // 100  # where a helper may be asked
        x = mt.full((6,), 0.5)
        for _ in range(5):
            x = mt.tanh(x * 1.5 + 0.5) - 0.25
        recorded = clock.sees(x)
        x.sum().item()
        return recorded

    clock = Clock(recorded=10_000_000, eager=10_000_000, tick=1_000_000)  # each op takes some
    try:
        with program(clock, enable_lazy_compilation=True):
            assert run()
            known = _C.known_runs()
        assert known
        assert _C.learn_of_runs(known)
        with with_helper(clock, True, False) as (jobs, _, close):
            assert run()
            assert len(jobs) == 1
            assert run()
            assert [number for number, *_ in jobs] == [jobs[0][0]] * 2
            assert not run()  # the helper is at it
            assert len(jobs) == 2
            close()
    finally:
        assert _C.learn_of_runs(None)


def test_what_is_known_of_runs_goes_to_the_next_process():
    clock = Clock(recorded=200_000, eager=100_000)
    with program(clock):
        modes = steps(clock, 60)
        assert modes[0]
        assert not modes[-1]
        known = _C.known_runs()
    assert len(known) % 64 == 0
    assert known
    try:
        assert _C.learn_of_runs(known)
        with program(clock, enable_lazy_compilation=True):
            assert _C.known_runs() == known
            clock.now += 1000 * SECOND
            assert not any(steps(clock, 30)[1:])
        for bad in (known[:-1], known[:56] + b"\x09" + known[57:], known[:57] + b"\x02" + known[58:]):
            assert not _C.learn_of_runs(bad)
    finally:
        assert _C.learn_of_runs(None)


@pytest.mark.parametrize("marked", ["before", "later"])
def test_what_an_earlier_process_asked_for_is_taken_when_it_is_there(tmp_path, marked):
    """Large ops whose program ended before they were compiled: its helper goes on, and says so by a file."""
    clock = Clock(recorded=10_000_000, eager=10_000_000, tick=100_000)
    with with_helper(clock) as (jobs, _, _close):
        steps(clock, 20)
        known = _C.known_runs()
    assert len(jobs) == 1
    recalls = []
    try:
        assert _C.learn_of_runs(known, str(tmp_path))
        if marked == "before":
            Path(kept_plans.path_of(str(tmp_path), jobs[0][0])).touch()
        with with_helper(clock) as (jobs_again, _, _close), compiler_that(recalls.append):
            modes = steps(clock, 10)
            if marked == "later":
                assert recalls == []
                assert not any(modes[1:])
                Path(kept_plans.path_of(str(tmp_path), jobs[0][0])).touch()
                clock.now += SECOND
                steps(clock, 10)
            steps(clock, 10)
        assert recalls == [jobs[0][1]]
        # It is there, but of no use: this process asks for it once.
        assert [job[:2] for job in jobs_again] == [jobs[0][:2]]
    finally:
        assert _C.learn_of_runs(None)


@pytest.mark.parametrize("made", [[], [0]], ids=["nothing", "its first value"])
def test_a_recalled_plan_that_leaves_out_a_value_is_no_plan(tmp_path, made):
    def values(count):
        x, last = mt.ones(5), []
        for _ in range(count):
            last.append(x.sum().item())
            x = mt.tanh(x * 1.5 + 0.5) - 0.25
            clock.sees(x)
        return last

    clock = Clock(recorded=10_000_000, eager=10_000_000, tick=100_000)
    wanted = values(30)
    with with_helper(clock) as (jobs, _, _close):
        steps(clock, 20)
        known = _C.known_runs()
    kept = _C.plan_bytes([1] * len(made), 0, 0, (made, [], [], None, False, None))
    asked = []

    def recalled(signature):
        asked.append(signature)
        return kept, [], "kept"

    try:
        assert _C.learn_of_runs(known, str(tmp_path))
        Path(kept_plans.path_of(str(tmp_path), jobs[0][0])).touch()
        with with_helper(clock) as (_, _, _close), compiler_that(recalled):
            steps(clock, 3)
            assert values(30) == wanted
        assert asked
    finally:
        assert _C.learn_of_runs(None)


@contextmanager
def compiler_that(recalls):
    """The compiler gives what is said of the signatures of plans that are to be recalled."""
    from minitensor_jit import api

    def recall(signature):
        return recalls(signature)

    _C.set_compile_callback(api._plan, recall)
    try:
        yield
    finally:
        _C.set_compile_callback(api._plan, api._recall)


# ---- what it leaves


def test_a_kept_plan_is_for_its_origin_alone(tmp_path, monkeypatch):
    """Nothing is taken from a file that was cut short, changed or renamed, or is for anything else."""
    path = tmp_path / "0.mtd"
    loop = ("mt.elementwise.erfinv.f32", "erfinv", "f32")
    good = kept_plans.encode("flags", "processor", b"signature", b"plan", [(b"code", [loop])])

    def load(data=good, flags="flags", processor="processor", signature=b"signature"):
        path.write_bytes(data)
        path.chmod(0o600)
        return kept_plans.load(str(path), flags, processor, signature)

    plan, ((code, addresses),) = load()
    assert (plan, code, list(addresses)) == (b"plan", b"code", ["mt.elementwise.erfinv.f32"])
    assert addresses["mt.elementwise.erfinv.f32"] == _C.elementwise_loop("erfinv", "f32")[0]
    for bad in (b"", good[:-1], good + b"x", good[:60] + bytes([good[60] ^ 1]) + good[61:]):
        assert load(bad) is None
    assert load(flags="others") is None
    assert load(processor="another") is None
    assert load(signature=b"another") is None
    with monkeypatch.context() as patch:
        patch.setattr(kept_plans, "compiler_fingerprint", lambda: "another compiler")
        assert load() is None
    assert load() is not None
    path.chmod(0o666)
    assert kept_plans.load(str(path), "flags", "processor", b"signature") is None
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(good)
    assert kept_plans.load(str(path), "flags", "processor", b"signature") is None


@pytest.mark.skipif(TSAN, reason="the helper is begun by a shell, where ThreadSanitizer crashes")
def test_a_kept_plan_that_is_of_no_use_is_learnt_anew(script, tmp_path):
    cache = tmp_path / "cache"
    value, *_ = run(script, cache)
    kept = list((cache / "minitensor").glob("*.mtd"))
    assert kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])
    again, _, compiled, modules = run(script, cache)
    assert (again, compiled, modules) == (value, "True", "[]")


# ---- the helper


def test_the_helper_survives_what_is_no_job(tmp_path):
    bad = [b"", b"garbage", pickle.dumps(("--no_such_flag", str(tmp_path), b"", ([], [], [])))]
    for text in bad:
        path = tmp_path / "job"
        path.write_bytes(text)
        path.chmod(0o600)
        assert background_worker._do(1, str(path)) is False
        assert not path.exists()
    assert background_worker._do(1, str(tmp_path / "missing")) is False


def test_plan_bytes_checks_what_it_is_given():
    plan = ([0], [], [], None, False, None)
    assert isinstance(_C.plan_bytes([1], 0, 0, plan), bytes)
    with pytest.raises(ValueError, match="node 0 of 0"):
        _C.plan_bytes([], 0, 0, plan)
    with pytest.raises(ValueError, match="99 results"):
        _C.plan_bytes([99], 0, 0, plan)
    with pytest.raises(ValueError, match="how many inputs"):
        _C.plan_bytes([1], -1, 0, plan)


def test_pipes_keep_clear_of_the_numbers_that_the_helper_uses():
    held = []
    try:
        while not held or held[-1] < background_process.JOBS - 1:
            held.append(os.open(os.devnull, os.O_RDONLY))
        reads, writes = background_process._pipe()
        held += [reads, writes]
        assert min(reads, writes) > background_process.REPLIES
        assert not os.get_inheritable(reads)
        assert not os.get_inheritable(writes)
        os.write(writes, b"1 job")
        assert os.read(reads, 10) == b"1 job"
    finally:
        for end in held:
            os.close(end)


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """Jobs of this process, as if it had begun under its options: what a pipe that no helper reads gets."""
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    monkeypatch.setattr(programs, "begun", programs.Begun(_C.options_id(), str(tmp_path)))
    monkeypatch.setattr(background_process, "_jobs", writes)
    monkeypatch.setattr(background_process, "_pid", os.getpid())
    monkeypatch.setattr(background_process, "forget", lambda: None)

    def lines():
        try:
            return os.read(reads, 1 << 12).decode().splitlines()
        except BlockingIOError:
            return []

    lines.close = lambda: os.close(reads)
    yield lines
    os.close(writes)


def test_a_job_is_a_file_that_the_helper_is_told(sent, tmp_path):
    assert background_process.submit(7, b"signature", ("described",)) is True
    (line,) = sent()
    number, path = line.split(" ", 1)
    assert number == "7"
    assert Path(path).parent == tmp_path
    assert Path(path).stat().st_mode & 0o777 == 0o600
    flags = programs.begun.flags
    assert pickle.loads(Path(path).read_bytes()) == (flags, str(tmp_path), b"signature", ("described",))
    assert background_process.submit(8, b"signature", ()) is True
    assert sent()[0] != path  # each has its own
    sent.close()


def test_a_job_that_is_put_off_is_sent_when_the_program_ends(sent, tmp_path):
    assert background_process.submit(7, b"signature", ("described",), True) is True
    assert background_process.submit(8, b"signature", ("described",), True) is True
    assert not sent()
    first, second = background_process._put_off[7], background_process._put_off[8]
    # One of them is wanted now, and is no longer among those that wait.
    assert background_process.submit(7, b"signature", ("described",)) is True
    (line,) = sent()
    assert line.startswith("7 ")
    assert line != f"7 {first}"
    assert not Path(first).exists()
    background_process.send_put_off()
    assert sent() == [f"8 {second}"]
    assert Path(second).exists()
    background_process.send_put_off()
    assert not sent()
    sent.close()


def test_so_many_are_put_off_as_a_pipe_takes_lines(sent, monkeypatch):
    monkeypatch.setattr(background_process, "_MOST_PUT_OFF", 2)
    for number in (1, 2, 3):
        assert background_process.submit(number, b"", (), True) is True
    assert [line.split()[0] for line in sent()] == ["3"]
    background_process.send_put_off()
    assert sorted(line.split()[0] for line in sent()) == ["1", "2"]
    sent.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_what_is_put_off_is_not_the_childs(sent):
    background_process.submit(7, b"", (), True)

    def child():
        assert not background_process._put_off

    forks.ends_well(child)
    background_process.send_put_off()
    assert len(sent()) == 1
    sent.close()


def test_jobs_that_are_put_off_leave_no_files_where_no_helper_starts(sent, tmp_path, monkeypatch):
    monkeypatch.setattr(background_process, "_start", lambda: None)
    for number in (1, 2):
        background_process.submit(number, b"", (), True)
    assert len(list(tmp_path.iterdir())) == 2
    sent.close()
    background_process.send_put_off()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "unfit",
    [
        lambda patch, _: patch.setattr(programs, "begun", None),
        lambda patch, _: patch.setattr(programs.begun, "folder", None),
        lambda patch, _: patch.setattr(programs.begun, "number", _C.options_id() + 1),
        lambda patch, _: patch.delattr(os, "posix_spawn"),
        lambda patch, _: patch.setattr(sys, "executable", ""),
        lambda _, folder: folder.chmod(0o777),
        lambda patch, folder: patch.setattr(programs.begun, "folder", str(folder / "file")),
    ],
    ids=["no program", "no folder", "other options", "no spawn", "no python", "not private", "no directory"],
)
def test_no_helper_is_asked_where_none_can_answer(sent, tmp_path, monkeypatch, unfit):
    (tmp_path / "file").touch()
    with monkeypatch.context() as patch:
        unfit(patch, tmp_path)
        assert background_process.submit(7, b"signature", ()) is False
    assert not sent()
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    sent.close()


def test_a_job_that_nobody_takes_leaves_no_file(sent, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(background_process, "_start", lambda: started.append(1))
    sent.close()  # the helper has gone: each write is an error
    assert background_process.submit(7, b"signature", ()) is False
    assert list(tmp_path.iterdir()) == []
