"""When clusters are compiled: lazily, on a thread, not at all; and what becomes of those that lose."""

import gc
import threading
import time

import forks
import numpy as np
import pytest
from recording import recorded
from sanitizers import TSAN

import minitensor as mt
from minitensor_jit.cache.executable_cache import ExecutableCache
from minitensor_jit.compiler import launcher

STATIC = {"dynamic_shapes": False, "measure_clusters": False}


@pytest.fixture
def compiled(monkeypatch):
    """The names of clusters as they are compiled."""
    names = []
    original = launcher.Launcher.generate

    def generate(self, lowered, name, *args, **options):
        names.append(name)
        return original(self, lowered, name, *args, **options)

    monkeypatch.setattr(launcher.Launcher, "generate", generate)
    return names


def launches(fn, *args):
    """How many launches a call of `fn` has."""
    from minitensor._jit.entry_points import collect_step_stats

    with collect_step_stats() as stats:
        fn(*args)
    return sum(node.op == "_JitLaunch" for node in stats.dev_stats[0].node_stats)


def scoped(fn, **options):
    def call(*args):
        with mt.jit.options(**{**STATIC, **options}), mt.jit_scope():
            return fn(*args)

    return call


class Clock:
    """Each look at it takes so many nanoseconds."""

    def __init__(self, tick=0):
        self.now, self.tick = 0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


@pytest.fixture
def clock():
    given = Clock()
    mt.jit.cache_clear()
    mt._C.set_policy_clock(given)
    yield given
    mt._C.set_policy_clock(None)


def test_level_2_compiles_at_the_second_request(compiled):
    def body(x):
        return mt.tanh(x) * 1.5 + 0.25

    mt.jit.cache_clear()
    counts = []
    for size in [5, 5, 6, 6, 6, 7, 5, 7]:
        x = mt.rand(size)
        with recorded(enable_lazy_compilation=True, **STATIC):
            y = body(x)
        np.testing.assert_array_equal(y.numpy(), body(x).numpy())
        counts.append(len(compiled))
    assert counts == [0, 1, 2, 2, 2, 3, 3, 3]


def test_a_scope_compiles_at_the_first_request(compiled):
    fn = scoped(lambda x: mt.tanh(x) * 1.5625 + 0.25)
    counts = []
    for size in [5, 5, 6, 6, 7]:
        fn(mt.rand(size))
        counts.append(len(compiled))
    assert counts == [1, 1, 2, 2, 3]


def test_level_1_waits_until_the_ops_have_taken_as_long(compiled, clock):
    def run():
        with recorded(auto_jit=1, enable_lazy_compilation=True, **STATIC):
            y = mt.tanh(x) * 1.59375 + 0.25
        return y.numpy()

    x = mt.rand(100_000)  # enough to win something
    for _ in range(50):
        run()
    assert compiled == []
    clock.tick = 100_000_000  # each op takes as long
    counts = []
    for _ in range(8):
        run()
        counts.append(len(compiled))
    assert counts[0] == 0
    assert counts[-1] == 1


def test_what_varies_must_have_taken_as_long_as_its_plans(compiled, clock):
    fn = scoped(lambda x: mt.tanh(x) * 1.609375 + 0.25)
    clock.tick = 1_000_000  # more than no time, so that a plan has to be paid
    for size in range(2, 6):
        fn(mt.rand(size))
    assert len(compiled) == 4  # and none of them was needed again
    clock.tick = 0
    for size in range(6, 20):
        fn(mt.rand(size))
    assert len(compiled) == 4
    clock.tick = 1_000_000
    for size in range(20, 30):
        fn(mt.rand(size))
    assert 4 < len(compiled) < 14
    fn(mt.rand(50)), fn(mt.rand(50)), fn(mt.rand(50))
    before = len(compiled)
    fn(mt.rand(51))  # since the last one was needed again
    assert len(compiled) == before + 1


def test_without_it_everything_is_compiled_at_once(compiled):
    def body(x):
        return mt.tanh(x) * 1.75 + 0.25

    fn = scoped(body, enable_lazy_compilation=False)
    for size in [5, 6, 7]:
        fn(mt.rand(size))
    assert len(compiled) == 3


def test_what_is_deferred_is_never_compiled(compiled):
    def body(x):
        x.add_(1.0)
        return mt.tanh(x) * 2.25 + 0.25

    fn = scoped(body, always_defer_compilation=True)
    x, y = mt.zeros(4), mt.zeros(4)
    for _ in range(4):
        np.testing.assert_array_equal(fn(x).numpy(), body(y).numpy())
        np.testing.assert_array_equal(x.numpy(), y.numpy())
    assert compiled == []
    assert launches(fn, x) == 0
    body(y)
    with mt.jit.options(always_defer_compilation=True):
        assert mt.function(body, jit_compile=True)(x).tolist() == body(y).tolist()
    assert len(compiled) == 1


def test_deferred_ops_are_accounted_for():
    with mt.jit.options(always_defer_compilation=True):
        report = mt.jit.explain(lambda x: mt.tanh(x * 2.5 + 1.0) - x)(mt.rand(3)).to_json()
    assert [entry["code"] for entry in report["eager"]] == ["not-yet-compiled"]
    assert "--always_defer_compilation" in report["eager"][0]["reason"]
    assert report["ops"] == {"total": 4, "compiled": 0, "eager": 4}


def test_a_thread_compiles_meanwhile(monkeypatch):
    started, finish, threads = threading.Event(), threading.Event(), []
    original = launcher.Launcher.generate

    def generate(self, *args, **options):
        threads.append(threading.current_thread().name)
        started.set()
        assert finish.wait(60)
        return original(self, *args, **options)

    monkeypatch.setattr(launcher.Launcher, "generate", generate)

    def body(x):
        return (mt.tanh(x) * 2.75 + 0.25).sum()

    fn = scoped(body, async_compilation=True)
    x = mt.rand(50)
    for _ in range(3):
        assert fn(x).item() == body(x).item()
    assert started.wait(60)
    assert launches(fn, x) == 0
    finish.set()
    deadline = time.monotonic() + 60
    while launches(fn, x) == 0:
        # A profile keeps a trial as it is, so the plan is asked outside of one.
        fn(x)
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert fn(x).item() == body(x).item()
    assert threads == ["minitensor-compiler"]


@pytest.mark.compiler_fails(reason="on purpose")
def test_what_fails_on_the_thread_runs_eagerly(monkeypatch, caplog):
    def generate(self, *args, **options):
        raise RuntimeError("no code today")

    monkeypatch.setattr(launcher.Launcher, "generate", generate)
    fn = scoped(lambda x: mt.tanh(x) * 3.75 + 0.25, async_compilation=True)
    x = mt.rand(5)
    expected = (mt.tanh(x) * 3.75 + 0.25).numpy()
    deadline = time.monotonic() + 60
    while "no code today" not in caplog.text:
        np.testing.assert_array_equal(fn(x).numpy(), expected)
        assert time.monotonic() < deadline
    np.testing.assert_array_equal(fn(x).numpy(), expected)


@pytest.mark.skipif(TSAN, reason="ThreadSanitizer doesn't follow forks of processes with threads")
def test_fork_while_the_thread_compiles():
    fn = scoped(lambda x: mt.exp(x) * 1.125 + 0.25, async_compilation=True)
    x = mt.rand(6)
    expected = fn(x).tolist()

    def work():
        for _ in range(20):
            assert fn(x).tolist() == expected

    forks.ends_well(work)
    assert fn(x).tolist() == expected


@pytest.mark.parametrize("slow", ["compiled", "eager"])
def test_a_cluster_that_loses_runs_op_by_op(clock, slow, caplog):
    state = mt.zeros(8)

    def body(x):
        state.add_(x)
        return mt.tanh(state) * 1.375 + x

    fn = scoped(body, measure_clusters=True, vmodule="xla_compiler=1")
    expected, results = np.zeros(8, np.float32), []
    x = mt.rand(8)
    for turn in range(20):
        clock.tick = 10_000 if (turn < 5) == (slow == "compiled") else 1  # the first five runs launch
        results.append(fn(x).numpy().copy())
        expected = expected + x.numpy()
    np.testing.assert_array_equal(state.numpy(), expected)
    state.zero_()
    for result in results:
        np.testing.assert_array_equal(body(x).numpy(), result)
    assert ("runs op by op from now on: it took 10.0 us" in caplog.text) == (slow == "compiled")
    assert launches(fn, x) == (0 if slow == "compiled" else 1)


def test_only_the_clusters_that_lose_run_op_by_op(clock):
    def body(x, index):
        a = mt.tanh(x) * 1.4375
        with mt.jit_scope(compile_ops=False):
            b = a + 1
        return mt.exp(b) * 2.3125 - b

    fn = scoped(body, measure_clusters=True)
    x = mt.rand(8)
    expected = body(x, 0).numpy()
    looks = iter([30] * 100)

    class Uneven:
        now = 0

        def __call__(self):  # the launches of a run take 2 and 30, then their ops 3, 3 and 3, 3, 3
            self.now += next(looks, 0)
            return self.now

    mt._C.set_policy_clock(Uneven())
    fn(x, 0)  # the first of those that launch
    for turn in range(1, 10):
        looks = iter([0, 2, 0, 30] if turn < 5 else [0, 3] * 5)
        np.testing.assert_array_equal(fn(x, 0).numpy(), expected)
    looks = iter(())
    np.testing.assert_array_equal(fn(x, 0).numpy(), expected)
    assert launches(fn, x, 0) == 1


def test_a_loss_is_in_the_account(clock):
    def steps(x):
        for turn in range(20):
            clock.tick = 10_000 if turn < 5 else 1
            x = mt.tanh(x * 1.5 + 0.5) - 0.25
            x.numpy()

    report = mt.jit.explain(steps)(mt.rand(5))
    account = report.to_json()
    loss = next(entry for entry in account["eager"] if entry["code"] == "measured-loss")
    assert "it took 10.0 us" in loss["reason"]
    assert account["ops"]["compiled"] > 0
    assert account["ops"]["total"] == account["ops"]["compiled"] + account["ops"]["eager"]


def test_nothing_is_measured_of_what_must_be_compiled_or_without_the_flag(clock):
    clock.tick = 10_000
    x = mt.rand(4)
    fn = scoped(lambda x: mt.tanh(x) * 1.625 + x, measure_clusters=False)
    w = mt.rand(4, requires_grad=True)
    must = mt.function(lambda x: mt.tanh(x * w) * 1.6875 + x, jit_compile=True)
    for turn in range(12):
        clock.tick = 10_000 if turn < 5 else 1
        fn(x)
        must(x)
    assert launches(fn, x) == launches(must, x) == 1


def test_executables_are_bounded_by_bytes():
    with mt.jit.options(executable_cache_bytes=20_000, enable_lazy_compilation=False, **STATIC):
        evicted = mt.jit.cache_info()["executables_evicted"]
        for size in range(3, 15):
            with mt.jit_scope():
                x = mt.tanh(mt.ones(size) * 2.5) + 0.5
            assert x.shape == (size,)
        info = mt.jit.cache_info()
        assert info["executables_evicted"] > evicted


def test_the_least_recently_used_executable_goes_first():
    class Fake:
        nbytes = 100

    cache = ExecutableCache(250)
    kept = {name: Fake() for name in "abc"}
    cache.insert("a", kept["a"], keep=True)
    cache.insert("b", kept["b"], keep=True)
    assert cache.find("a") is kept["a"]
    cache.insert("c", kept["c"], keep=True)
    del kept["a"], kept["b"], kept["c"]
    gc.collect()
    assert [name for name in "abc" if cache.find(name) is not None] == ["a", "c"]
    assert (cache.evicted, len(cache), cache.nbytes) == (1, 2, 200)
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_plans_are_bounded_by_bytes():
    limit = mt.jit.cache_info()["limit"]
    try:
        mt.jit.cache_clear()
        mt._C.set_plan_cache_limit(20_000)
        before = mt.jit.cache_info()
        for line in range(1, 60):
            names = {"x": mt.ones(line)}
            source = "\n" * line + "x = x * 2.5"
            with mt.jit.options(always_defer_compilation=True, enable_lazy_compilation=False), mt.jit_scope():
                exec(compile(source, "places.py", "exec"), names)
            assert names["x"].shape == (line,)
        info = mt.jit.cache_info()
        assert info["evicted"] > before["evicted"]
        assert info["bytes"] <= 20_000
        assert 0 < info["size"] < 59
        mt.jit.cache_clear()
        assert (mt.jit.cache_info()["size"], mt.jit.cache_info()["bytes"]) == (0, 0)
    finally:
        mt._C.set_plan_cache_limit(limit)
