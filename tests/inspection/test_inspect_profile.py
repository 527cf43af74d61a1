"""The profile of compiled code: what is counted is what ran, and the table says it."""

import json
import pickle
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import run
from recording import recorded

import minitensor as mt
from minitensor_jit.inspect import profile
from minitensor_jit.inspect.machine import Machine, measure
from minitensor_jit.inspect.profile import HloProfile
from minitensor_jit.runtime.kernel_counters import KernelCounter, ModuleCounters

N = 4096


@pytest.fixture
def empty(monkeypatch):
    monkeypatch.setattr(profile, "_modules", [])
    mt.jit.cache_clear()
    yield
    mt.jit.cache_clear()


def program(x, y, w):
    a = (x * 2.5 + y).exp()  # the fused line
    return a, w @ w  # the product


def line_of(mark):
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))


def test_what_ran_is_counted(empty):
    x, y, w = mt.rand(N), mt.rand(N), mt.rand(32, 32)
    want = [t.tolist() for t in program(x, y, w)]
    with mt.jit.options(hlo_profile=True):
        fn = mt.function(program, jit_compile=True)
        for _ in range(5):
            got = fn(x, y, w)
    assert [t.tolist() for t in got] == want
    found = mt.jit.hlo_profile().to_json()
    json.dumps(found)
    (cluster,) = found["clusters"]
    assert cluster["runs"] == 5
    assert sum(kernel["seconds"] for kernel in cluster["kernels"]) <= cluster["seconds"] == found["seconds"]
    by_kind = {kernel["kind"]: kernel for kernel in cluster["kernels"]}
    assert set(by_kind) == {"loop", "dot"}
    loop, dot = by_kind["loop"], by_kind["dot"]
    assert loop["runs"] == dot["runs"] == 5
    assert loop["bytes_per_run"] == 3 * 4 * N + 4, "two arrays and a number in, an array out"
    assert loop["flops_per_run"] == 3 * N
    assert dot["flops_per_run"] == 2 * 32**3
    assert dot["bytes_per_run"] == 2 * 4 * 32**2, "the operand that is there twice is read once"
    place = {"file": __file__, "line": line_of("the fused line")}
    assert loop["ops"] == [{"op": op, **place} for op in ("mul", "add", "exp")]
    assert dot["ops"] == [{"op": "matmul", "file": __file__, "line": line_of("the product")}]
    for kernel in (loop, dot):
        assert kernel["seconds"] > 0
        assert kernel["roofline"] > 0


def test_kernels_of_the_last_launch(monkeypatch):
    def counter(name, *last):
        return SimpleNamespace(name=name, runs=len(last), last=last)

    kernels = [counter(*k) for k in (("b", 14, 20), ("a", 10, 12), ("before", 5, 12), ("after", 15, 21), ("never",))]
    modules = [SimpleNamespace(name="one", whole=counter("one", 10, 20), kernels=kernels)]
    monkeypatch.setattr(profile, "_modules", modules)
    assert [k.name for k in profile.kernels_between("one", 10, 20)] == ["a", "b"]
    assert profile.kernels_between("one", 11, 20) == profile.kernels_between("one", 1, 9) == []
    assert profile.kernels_between("another", 10, 20) == []


def test_threads_count_together(empty):
    fn = mt.function(lambda x: (x * 1.25).exp(), jit_compile=True)
    x = mt.rand(N)

    def work():
        with mt.jit.options(hlo_profile=True):
            for _ in range(50):
                fn(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clusters = mt.jit.hlo_profile().to_json()["clusters"]
    assert sum(cluster["runs"] for cluster in clusters) == 200
    assert sum(kernel["runs"] for cluster in clusters for kernel in cluster["kernels"]) == 200


def test_nothing_is_counted_without_the_flag(empty):
    mt.function(program, jit_compile=True)(mt.rand(N), mt.rand(N), mt.rand(8, 8))
    assert mt.jit.hlo_profile().to_json() == {"version": 1, "seconds": 0, "machine": None, "gpus": {}, "clusters": []}
    assert mt.jit.hlo_profile().text().startswith("HLO profile: no compiled code has run")


def test_clearing_begins_anew(empty):
    x, w = mt.rand(N), mt.rand(8, 8)
    with mt.jit.options(hlo_profile=True):
        fn = mt.function(program, jit_compile=True)
        fn(x, x, w)
        assert mt.jit.hlo_profile(clear=True).to_json()["clusters"][0]["runs"] == 1
        assert mt.jit.hlo_profile().to_json()["clusters"] == []
        fn(x, x, w)
        fn(x, x, w)
    assert mt.jit.hlo_profile().to_json()["clusters"][0]["runs"] == 2


def test_equal_clusters_at_other_lines_are_told_apart(empty):
    x = mt.rand(N)
    with recorded(hlo_profile=True, auto_jit=0):
        with mt.jit_scope():
            y = x * 2 + 1  # here
        with mt.jit_scope():
            z = y * 2 + 1  # and there
    assert z.shape == (N,)
    clusters = mt.jit.hlo_profile().to_json()["clusters"]
    lines = [op["line"] for c in clusters for k in c["kernels"] for op in k["ops"]]
    assert sorted(set(lines)) == [line_of("here"), line_of("and there")]


def test_code_that_measures_itself_is_not_kept_on_disk(empty, tmp_path):
    with mt.jit.options(hlo_profile=True, persistent_cache_directory=str(tmp_path / "cache")):
        mt.function(lambda x: x * 2 + 1, jit_compile=True)(mt.rand(N))
    assert not (tmp_path / "cache").exists() or list((tmp_path / "cache").iterdir()) == []


def named(x):
    return x * 1.125 + 3


compiled = mt.function(named, jit_compile=True)


def test_code_that_measures_itself_is_not_pickled(empty):
    x = mt.rand(5)
    with mt.jit.options(hlo_profile=True):
        want = compiled(x).tolist()
        _, (*_, code, _) = compiled.__reduce__()[:2]
        assert code == []
        measured = pickle.dumps(compiled)
    assert pickle.loads(measured)(x).tolist() == want
    assert compiled(x).tolist() == want
    _, (*_, code, _) = compiled.__reduce__()[:2]
    assert len(code) == 1


def test_a_training_step_with_every_kind_of_kernel(empty):
    model = mt.nn.Sequential(mt.nn.Linear(8, 16), mt.nn.Tanh(), mt.nn.Linear(16, 4))
    with mt.jit.options(hlo_profile=True), mt.jit_scope():
        loss = mt.nn.functional.cross_entropy(model(mt.rand(32, 8)), mt.arange(32) % 4)
        loss.backward()
    loss.item()
    kinds = {k["kind"] for c in mt.jit.hlo_profile().to_json()["clusters"] for k in c["kernels"]}
    assert {"loop", "row", "column", "dot", "kernel call"} <= kinds


@pytest.fixture
def given(monkeypatch):
    """One cluster with two kernels and counts that are known."""

    def counter(name, kind, nanoseconds, runs, **more):
        made = KernelCounter(name, kind, **more)
        made.cells[0], made.cells[1], made.cells[2] = nanoseconds, runs, nanoseconds // runs // 2 if runs else 0
        return made

    module = ModuleCounters("cluster_7", counter("cluster_7", "module", 10_000_000, 4))
    ops = (("mul", "/home/me/train.py", 3), ("add", "/home/me/train.py", 3), ("exp", "", 0))
    module.kernels = [
        counter("fusion", "loop", 8_000_000, 4, nbytes=1_000_000, flops=3000, ops=ops),
        counter("dot.1", "dot", 1_000_000, 8, nbytes=6000, flops=100_000, ops=(("matmul", "/home/me/net.py", 9),)),
        counter("never", "loop", 0, 0),
    ]
    monkeypatch.setattr(profile, "_modules", [module])
    return Machine((1e9,) * 5, 1e9, 2)


def test_the_table(given):
    assert (
        HloProfile(lambda: given).text(root="/home/me")
        == """\
HLO profile: 10.00 ms in compiled code, 4 runs of 1 clusters
The roof: 1.0 GB/s from memory, up to 1.0 GB/s from caches, 1 Gflop/s, as copies, sums and a product \
of float32 matrices reach with 2 threads

cluster_7: 100.0 % of the time, 10.00 ms in 4 runs, 2.50 ms each
    time       each   fastest      bytes  GB/s    flops  Gflop/s  roofline  kernel
  80.0 %    2.00 ms   1.00 ms  1,000,000   1.0    3,000      0.0     100 %  fusion  (loop)
      (unknown place)  exp
      train.py:3  mul, add
  10.0 %  125.00 us  62.50 us      6,000   0.1  100,000      1.6     160 %  dot.1   (dot) x2
      net.py:9  matmul
  10.0 % between the kernels
"""
    )


def test_long_tables_are_cut(given):
    text = HloProfile(lambda: given).text(limit=1)
    assert "  ... and 1 kernels more\n" in text
    assert "dot.1" not in text


def test_it_is_printed_at_exit():
    program = """
import minitensor as mt
x = mt.tensor([1.0, 2.0, 3.0])
for _ in range(3):
    y = ((x * 2 + 1).exp() - 4).tolist()
print("done")
"""
    done = run(program, "--auto_jit=2 --cpu_global_jit --hlo_profile")
    assert done.stdout == "done\n"
    assert re.search(r"^cluster_\d+: .* in 3 runs, .* each$", done.stderr, re.M)
    assert re.search(r"^      <string>:5  mul, add, exp, sub$", done.stderr, re.M)


def test_the_machine_is_measured():
    machine = measure()
    assert machine.threads == mt.get_num_threads()
    assert all(1e8 < bandwidth < 1e13 for bandwidth in machine.bandwidth)
    assert 1e8 < machine.flops < 1e14
    assert measure() is machine


def test_the_roof():
    machine = Machine((1e9, 2e9, 4e9, 3e9, 1e9), 1e10, 2)
    # What is smaller can be as fast as what is larger, and in between one part may be in the faster cache.
    assert machine.bandwidth_for(1) == 4e9
    assert machine.bandwidth_for(2**23 - 1) == 4e9
    assert machine.bandwidth_for(2**23) == 3e9
    assert machine.bandwidth_for(2**40) == 1e9
    assert machine.seconds(2**30, 10) == pytest.approx(2**30 / 1e9)
    assert machine.seconds(8, 10**10) == pytest.approx(1.0)
