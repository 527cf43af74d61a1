"""Compiled code on disk: loaded again, never trusted more than its checksum and its folder's permissions."""

import contextlib
import importlib.machinery
import io
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import forks
import numpy as np
import pytest

import minitensor as mt
from minitensor import _C
from minitensor._jit import kept_plans, processor
from minitensor_jit.cache import disk_cache
from minitensor_jit.cache.plan_store import PlanStore
from minitensor_jit.clustering.pipeline import cluster
from minitensor_jit.errors import CacheDirectoryError

ROOT = str(Path(mt.__file__).parent.parent)


def program(x):
    return (x.sin() * 2 + x.erfinv()).softmax(-1)


ARGUMENT = mt.linspace(-0.9, 0.9, 12).reshape(3, 4)


class Cache:
    """A folder, and what a program that uses it adds to the counts."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, fn=program, x=ARGUMENT, **options):
        before = mt.jit.cache_info()
        mt.jit.cache_clear()  # as if in a new process
        with mt.jit.options(persistent_cache_directory=str(self.folder), **options):
            result = mt.function(fn, jit_compile=True)(x)
        assert np.array_equal(result.numpy(), fn(x).numpy())
        after = mt.jit.cache_info()
        return {name: after["disk_" + name] - before["disk_" + name] for name in ("hits", "misses", "rebuilt")}

    @property
    def entries(self):
        return sorted(self.folder.glob("*.mto"))

    @property
    def plans(self):
        return sorted(self.folder.glob("*.mtp"))

    @property
    def files(self):
        return self.entries + self.plans


HIT = {"hits": 1, "misses": 0, "rebuilt": 0}
MISS = {"hits": 0, "misses": 1, "rebuilt": 0}
REBUILT = {"hits": 0, "misses": 0, "rebuilt": 1}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "code")


def test_a_second_run_loads_and_the_bits_are_the_same(cache):
    assert cache.run() == MISS
    assert cache.run() == HIT
    assert len(cache.entries) == 1
    assert cache.run(fn=lambda x: x * 3) == MISS
    assert cache.run(x=ARGUMENT[:2]) == MISS
    assert cache.run() == HIT


def test_the_folder_is_made_private(cache):
    cache.run()
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.entries[0].stat().st_mode) == 0o600
    assert not list(cache.folder.glob(".*"))


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777, 0o722])
def test_a_folder_that_others_can_write_to_is_refused(cache, mode):
    cache.folder.mkdir()
    cache.folder.chmod(mode)
    with pytest.raises(CacheDirectoryError, match="others can write to it"):
        cache.run()
    assert cache.entries == []


def test_a_folder_in_a_folder_open_to_all_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(CacheDirectoryError, match="another one in its place"):
        Cache(tmp_path / "open" / "code").run()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "code").write_text("")
    with pytest.raises(CacheDirectoryError, match="not a folder"):
        Cache(tmp_path / "code").run()


def test_the_folder_of_somebody_else_is_refused(cache, monkeypatch):
    cache.folder.mkdir()
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(CacheDirectoryError, match=f"belongs to user {mine}"):
        cache.run()


@pytest.mark.parametrize("part", ["magic", "checksum", "header", "code", "last"])
def test_a_flipped_bit_rebuilds(cache, part):
    cache.run()
    (entry,) = cache.entries
    good = entry.read_bytes()
    at = {"magic": 3, "checksum": 30, "header": 90, "code": len(good) - 500, "last": len(good) - 1}[part]
    entry.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
    assert cache.run() == REBUILT
    assert entry.read_bytes()[:25] == good[:25]
    assert cache.run() == HIT


@pytest.mark.parametrize("length", [0, 10, 60, -1])
def test_an_entry_that_was_cut_short_rebuilds(cache, length):
    cache.run()
    (entry,) = cache.entries
    entry.write_bytes(entry.read_bytes()[:length])
    assert cache.run() == REBUILT
    assert cache.run() == HIT


def test_another_processors_entry_is_never_loaded(cache, monkeypatch):
    cache.run()
    (entry,) = cache.entries
    monkeypatch.setattr(disk_cache, "processor", lambda: "another processor")
    assert cache.run() == MISS
    (foreign,) = set(cache.entries) - {entry}
    # Even under the other's name.
    foreign.write_bytes(entry.read_bytes())
    assert cache.run() == REBUILT
    monkeypatch.undo()
    assert cache.run() == HIT


def test_another_versions_entry_is_never_loaded(cache, monkeypatch):
    cache.run()
    monkeypatch.setattr(disk_cache, "compiler_fingerprint", lambda: "another version")
    assert cache.run() == MISS


def test_the_key_names_the_processor_with_its_features_and_what_limits_them(monkeypatch, tmp_path):
    before = processor.processor()
    monkeypatch.setenv("MT_ISA", "avx2" if os.environ.get("MT_ISA") == "baseline" else "baseline")
    assert processor.processor() != before
    block = "processor\t: 0\nvendor_id\t: A\ncpu MHz\t: {}\nflags\t: sse {}\n\nprocessor\t: 1\nflags\t: other\n"
    told = []
    for mhz, feature in ((1, "avx2"), (2, "avx2"), (1, "avx512f")):
        (tmp_path / "cpuinfo").write_text(block.format(mhz, feature))
        told.append(processor._described(str(tmp_path / "cpuinfo")))
    assert told[0] == told[1] != told[2]
    assert "avx2" in told[0]
    assert "other" not in told[0]
    (tmp_path / "cpuinfo").write_text("nothing: known\n")
    assert processor._described(str(tmp_path / "cpuinfo")) == processor._described(str(tmp_path / "missing")) == ""


def test_code_from_disk_is_loaded_without_the_compiler(tmp_path):
    code = (
        "import sys, minitensor as mt\n"
        "f = mt.function(lambda x: (x * 3 + 1).exp().sum(), jit_compile=True)\n"
        "print(f(mt.arange(5.0)).item(), *(m in sys.modules for m in ('llvmlite', 'numpy', 'minitensor_jit.lowering')))"
    )
    environment = os.environ | {
        "PYTHONPATH": ROOT, "MT_JIT_FLAGS": f"--persistent_cache_directory={tmp_path / 'cache'}",
    }  # fmt: skip
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert [run.split()[1:] for run in runs] == [["True"] * 3, ["False"] * 3]
    assert runs[0].split()[0] == runs[1].split()[0]


def test_the_compilers_files_are_told_apart_by_name_size_and_time(tmp_path):
    def stamps():
        return _C.file_stamps(_C.read_file_stamps((str(tmp_path), str(tmp_path / "none")), (".py",)))

    inner = tmp_path / "inner"
    inner.mkdir()
    for path in (tmp_path / "a.py", inner / "b.py", tmp_path / "c.txt"):
        path.write_text("1")
        os.utime(path, ns=(5, 5))
    seen = [stamps()]
    assert seen[0].decode() == f"{tmp_path}/a.py 1 0 5\n{tmp_path}/inner/b.py 1 0 5\n"
    (tmp_path / "c.txt").write_text("12")
    assert stamps() == seen[0]
    os.utime(inner / "b.py", ns=(5, 6))
    seen.append(stamps())
    (inner / "b.py").write_text("12")
    os.utime(inner / "b.py", ns=(5, 6))
    seen.append(stamps())
    (inner / "b.py").rename(inner / "d.py")
    seen.append(stamps())
    assert len(set(seen)) == 4


def test_a_child_reads_the_stamps_that_its_parent_was_reading(tmp_path):
    (tmp_path / "a.py").write_text("1")
    reading = _C.read_file_stamps((str(tmp_path),), (".py",))

    def work():
        assert b"a.py 1 " in _C.file_stamps(reading)

    forks.ends_well(work)
    assert b"a.py 1 " in _C.file_stamps(reading)


def test_only_readings_have_stamps():
    with pytest.raises(ValueError, match="PyCapsule"):
        _C.file_stamps(object())
    with pytest.raises(TypeError):
        _C.read_file_stamps((1,), (".py",))


def test_options_that_change_code_are_part_of_the_key(cache):
    cache.run()
    assert cache.run(disable_constant_folding=True) == MISS
    assert cache.run(print_cluster_outputs=True) == HIT
    keys = {disk_cache.key_of("hlo", mt.jit.JitOptions(fast_math=fast)) for fast in (False, True)}
    assert len(keys) == 2


def test_links_and_entries_open_to_others_are_not_read(cache):
    cache.run()
    (entry,) = cache.entries
    entry.chmod(0o666)
    assert cache.run() == MISS
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600  # replaced
    entry.rename(cache.folder.parent / "elsewhere")
    entry.symlink_to(cache.folder.parent / "elsewhere")
    assert cache.run() == MISS
    assert not entry.is_symlink()


def test_the_least_recently_used_go_first(cache):
    for k in range(4):
        cache.run(fn=lambda x, k=k: x.sin() * k)
        time.sleep(0.01)
    sizes = sum(path.stat().st_size for path in cache.files)
    oldest = min(cache.entries, key=lambda path: path.stat().st_mtime_ns)
    assert cache.run(fn=lambda x: x.sin() * 0) == HIT  # used again, so the next one is the oldest now
    assert cache.run(fn=lambda x: x.sin() * 9, persistent_cache_bytes=sizes + 100) == MISS
    assert oldest in cache.entries
    assert len(cache.entries) == 4
    assert len(cache.files) == 8
    assert sum(path.stat().st_size for path in cache.files) <= sizes + 100


def test_what_is_larger_than_the_limit_is_not_kept(cache):
    assert cache.run(persistent_cache_bytes=100) == MISS
    assert cache.entries == []


def test_info_and_clearing(cache):
    cache.run()
    info = mt.jit.cache_info()
    assert info["disk_entries"] >= 1
    assert info["disk_bytes"] >= cache.entries[0].stat().st_size
    mt.jit.cache_clear()
    assert len(cache.entries) == 1
    mt.jit.cache_clear(disk=True)
    assert cache.entries == []


def test_a_folder_that_is_gone_is_made_again(cache):
    cache.run()
    for path in cache.files:
        path.unlink()
    cache.folder.rmdir()
    assert cache.run() == MISS
    assert cache.run() == HIT


def test_a_disk_that_fails_is_a_warning_once(cache, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert cache.run() == MISS
    assert cache.run(fn=lambda x: x * 5) == MISS
    warnings = [r.getMessage() for r in caplog.records if "No space left" in r.getMessage()]
    assert len(warnings) == 1


PROGRAM = """
import minitensor as mt
from minitensor import _C
x = mt.arange(5.0) / 10
for n in range(1, 7):
    def program(x):
        for _ in range(n):
            x = (x.sin() + 1).erf()
        return x.softmax(-1)
    assert mt.function(program, jit_compile=True)(x).tolist() == program(x).tolist()
info = mt.jit.cache_info()
print(info["disk_hits"], info["disk_misses"], info["disk_rebuilt"])
"""


def start(folder, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MT_")}
    environment |= {"PYTHONPATH": ROOT, "MT_JIT_FLAGS": f"--persistent_cache_directory={folder}"} | more
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def counts(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return [int(word) for word in out.split()]


def test_processes_share_a_folder(tmp_path):
    together = [counts(process) for process in [start(tmp_path / "code") for _ in range(3)]]
    assert all(hits + misses == 6 and rebuilt == 0 for hits, misses, rebuilt in together)
    assert counts(start(tmp_path / "code")) == [6, 0, 0]
    # The smaller instruction set has code of its own.
    assert counts(start(tmp_path / "code", MT_ISA="baseline")) == [0, 6, 0]
    assert len(list((tmp_path / "code").glob("*.mto"))) == len(list((tmp_path / "code").glob("*.mtp"))) == 12


@pytest.fixture
def compilations(monkeypatch):
    """How many times a trace was clustered."""
    from minitensor_jit.compiler import launcher

    calls = []
    monkeypatch.setattr(launcher, "cluster", lambda *args: calls.append(args) or cluster(*args))
    return calls


def drawn(x):
    return x + mt.rand(3, 4), (x * 2.5).softmax(-1)[mt.tensor([2, 0])]


def test_a_plan_on_disk_takes_the_place_of_the_compiler(cache, compilations):
    def run(fn, x=ARGUMENT):
        mt.jit.cache_clear()
        with mt.jit.options(persistent_cache_directory=str(cache.folder)):
            compiled = mt.function(fn, jit_compile=True)
            for _ in range(2):
                mt.manual_seed(3)
                got = compiled(x)
                mt.manual_seed(3)
                for one, other in zip(got, fn(x), strict=True):
                    assert np.array_equal(one.numpy(), other.numpy())
        return compiled

    run(drawn)
    assert len(compilations) == 1
    assert len(cache.plans) == 1
    run(drawn)
    assert len(compilations) == 1
    # Other values of the same form; other ops and dtypes.
    run(drawn, ARGUMENT * 2)
    assert len(compilations) == 1
    run(lambda x: (x.exp() * 2.5, x.sum()))
    assert len(compilations) == 2
    run(lambda x: (x.sin() * 2.5, x.sum()))
    assert len(compilations) == 3
    run(drawn, ARGUMENT.double())
    assert len(compilations) == 4


def test_errors_of_a_plan_from_disk_are_those_of_eager_code(cache, compilations):
    def fn(x, i):
        return (x * 2.5 + 1)[i].tanh()

    for turn in range(2):
        mt.jit.cache_clear()
        with mt.jit.options(persistent_cache_directory=str(cache.folder)):
            compiled = mt.function(fn, jit_compile=True)
            with pytest.raises(IndexError, match="index 7 is out of bounds") as error:
                compiled(ARGUMENT, mt.tensor([7]))
            assert any("test_disk_cache.py" in note for note in error.value.__notes__)
            assert np.array_equal(compiled(ARGUMENT, mt.tensor([1])).numpy(), fn(ARGUMENT, mt.tensor([1])).numpy())
        assert len(compilations) == 1, turn


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "code"])
def test_a_damaged_plan_is_made_anew(cache, compilations, damage):
    cache.run()
    (path,) = cache.entries if damage == "code" else cache.plans
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes({"cut": data[:-7], "empty": b""}.get(damage, bytes(data)))
    assert cache.run() == (REBUILT if damage == "code" else HIT)
    assert len(compilations) == 2
    assert cache.run() == HIT
    assert len(compilations) == 2


def test_what_is_watched_has_no_plan_on_disk(cache, compilations, tmp_path):
    cache.run()
    for number, options in enumerate(({"verify": 1.0}, {"print_cluster_outputs": True}), 2):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cache.run(**options)
        assert len(compilations) == number
    assert len(cache.plans) == 1


@pytest.mark.parametrize("plan", [lambda kept: kept[:-1], lambda kept: bytes(kept) + b"\0", lambda _: b"\xff" * 64])
def test_bytes_that_are_no_plan_for_the_trace_are_not_run(cache, compilations, monkeypatch, plan):
    cache.run()
    load = PlanStore.load

    def loaded(self, signature, name):
        kept, code = load(self, signature, name)
        return plan(kept), code

    monkeypatch.setattr(PlanStore, "load", loaded)
    cache.run()
    assert len(compilations) == 2


def test_profiles_of_a_plan_from_disk_name_its_ops(cache, compilations):
    def inside():
        mt.jit.cache_clear()
        with mt.jit.options(persistent_cache_directory=str(cache.folder)):
            _C.start_profile()
            try:
                mt.function(program, jit_compile=True)(ARGUMENT)
            finally:
                events = _C.stop_profile()
        return [event[7] for event in events if event[1] == "_JitLaunch"]

    compiled, kept = inside(), inside()
    assert len(compilations) == 1
    assert compiled == kept
    (names,) = kept
    assert [op for _, op, _, _ in names] == ["sin", "mul", "erfinv", "add", "softmax"]
    line = program.__code__.co_firstlineno + 1
    assert {(file, at) for _, _, file, at in names} == {(__file__, line)}


def test_a_plan_that_was_renamed_is_not_run(cache, compilations):
    """Both traces have one argument and one result of the same size: nothing else would tell them apart."""

    def other(x):
        return (x.cos() * 3 - x.erfinv()).softmax(-1)

    cache.run()
    (first,) = cache.plans
    cache.run(fn=other)
    (second,) = set(cache.plans) - {first}
    second.write_bytes(first.read_bytes())
    cache.run(fn=other)  # compares with eager code
    assert len(compilations) == 3


@pytest.mark.parametrize("kind", ["code", "plan"])
def test_a_pipe_in_the_place_of_an_entry_is_not_waited_for(cache, kind):
    cache.run()
    (path,) = cache.entries if kind == "code" else cache.plans
    path.unlink()
    os.mkfifo(path, 0o600)
    assert sum(cache.run().values()) == 1
    assert path.is_file()  # replaced
    assert cache.run() == HIT


def test_a_folder_in_the_place_of_an_entry_is_a_miss(cache):
    cache.run()
    (path,) = cache.entries
    path.unlink()
    path.mkdir(0o700)
    handles = len(os.listdir("/proc/self/fd"))
    assert cache.run() == MISS
    assert len(os.listdir("/proc/self/fd")) == handles


def test_an_entry_that_memory_does_not_hold_is_a_miss(cache, monkeypatch):
    cache.run()

    def too_large(*_args, **_more):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(kept_plans, "open", too_large, raising=False)
        with pytest.raises(OSError, match="larger than memory"):
            kept_plans.read_private(str(cache.plans[0]))
        assert cache.run() == MISS
    assert cache.run() == HIT


def test_code_for_all_sizes_is_loaded_from_disk(cache):
    """What is compiled for one size, and then for all, is found by another process as it stands there."""

    given = [mt.linspace(-0.9, 0.9, 4 * n).reshape(n, 4) for n in (3, 5, 6)]

    def calls():
        return [program(x).tolist() for x in given]

    expected = calls()
    options = {"auto_jit": 2, "cpu_global_jit": True, "min_cluster_size": 1, "enable_lazy_compilation": False}
    whys = []
    for _ in range(2):
        mt.jit.cache_clear()
        with mt.jit.options(persistent_cache_directory=str(cache.folder), **options):
            report = mt.jit.explain(calls)().to_json()
            whys.append([entry["why"] for entry in report["compiles"] if "all sizes" in entry["why"]])
            assert calls() == expected
    first, second = whys
    assert first
    assert not any("disk" in why for why in first)
    assert second == [f"{why}, loaded from disk" for why in first]


def test_stamps_without_llvm(monkeypatch):
    """Where LLVM isn't installed there is nothing of it to tell apart."""
    for found in (None, importlib.machinery.ModuleSpec("llvmlite", None)):
        monkeypatch.setattr(kept_plans, "find_spec", lambda name, found=found: found)
        assert _C.file_stamps(kept_plans.compiler_sources.__wrapped__())
