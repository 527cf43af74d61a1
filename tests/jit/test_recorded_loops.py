"""Loops that are recorded round by round: run in equal parts, compiled where they repeat, given up where they don't."""

from contextlib import contextmanager

import pytest
from recording import flushes, recorded

import minitensor as mt
from minitensor_jit import api


def test_a_loop_is_run_in_equal_parts():
    x, prepared = mt.zeros(2), mt.ones(2) * 3
    with flushes() as seen, recorded("the end"):
        y = x + prepared
        for k in range(1000):
            y = y * 0.5 + prepared
            if k < 64:
                assert y._is_pending  # short enough, however often it repeats itself
    reasons = [reason for reason, _ in seen]
    assert reasons == ["the trace repeats itself"] * (len(reasons) - 1) + ["the end"]
    assert 10 < len(reasons) <= 2 * 1000 // 128 + 1
    assert y.tolist() == [6, 6]


def test_a_loop_in_place_with_gradients_is_run_in_parts():
    def descend():
        w = mt.tensor([4.0, -2.0], requires_grad=True)
        for _ in range(100):
            ((w - 1) ** 2).sum().backward()
            with mt.no_grad():
                w -= 0.1 * w.grad
                w.grad = None
        return w.detach().tolist()

    with flushes() as seen, recorded():
        w = descend()
    assert any(reason == "the trace repeats itself" for reason, _ in seen)
    assert w == descend()


def test_a_step_is_not_run_in_its_gradients():
    """Those have the sources of their forward calls, so that few layers would be many rounds."""

    def steps(weights):
        for _ in range(3):
            y = x
            for w in weights:
                y = y + mt.tanh(y * w + 1) * w
            loss = (y * y).mean()
            loss.backward()
            with mt.no_grad():
                for w in weights:
                    w -= 0.1 * w.grad
                    w.grad = None
            yield loss.item()

    x = mt.ones(4)
    weights = [mt.full((4,), 0.01 * k) for k in range(24)]
    eager = list(steps([w.clone().requires_grad_() for w in weights]))
    weights = [w.requires_grad_() for w in weights]
    with flushes() as seen, recorded():
        assert list(steps(weights)) == eager
    per_step = [(reason, source[1]) for reason, source in seen]
    parts = len(per_step) // 3
    assert per_step == per_step[:parts] * 3  # so that every step has the same signatures
    assert per_step[parts - 1][0] == "item()"


def test_a_look_at_an_earlier_part_ends_the_last_one():
    x, looked = mt.ones(4), mt.zeros(())
    with flushes() as seen, recorded():
        for times in range(1, 4):
            for k in range(70):
                x = x * 0.5 + 1
                if k == 2:
                    looked = looked + 1
            assert looked.item() == times
            assert not x._is_pending
    assert [reason for reason, _ in seen] == ["the trace repeats itself", "item()"] * 3


def test_the_layers_of_a_model_are_no_loop():
    x = mt.ones(4)
    body = compile("x = x * 0.5 + 1\n" * 20, "layer.py", "exec")
    with flushes() as seen, recorded("the end"):
        names = {"x": x}
        for _ in range(12):
            exec(body, names)
    assert [reason for reason, _ in seen] == ["the end"]


def test_a_function_is_one_trace_though_it_repeats_itself():
    @mt.function(jit_compile=True)
    def f(x):
        for _ in range(300):
            x = x * 0.5 + 1
        return x

    with flushes() as seen:
        assert f(mt.zeros(2)).tolist() == [2, 2]
    assert [reason for reason, _ in seen] == ["the end of a function"]


def test_a_loop_whose_indices_are_never_the_same_is_soon_run_without_plans():
    def table(n):
        d = mt.zeros(n, n)
        for i in range(1, n):
            for j in range(1, n):
                d[i, j] = mt.maximum(d[i - 1, j], d[i, j - 1]) + (i * j % 3)
        return d

    expected = table(12)
    with mt.jit_scope():
        small = table(12)
    assert mt.equal(small, expected)
    expected = table(40)
    before = mt.jit.cache_info()
    with mt.jit_scope():
        large = table(40)
    assert mt.equal(large, expected)
    after = mt.jit.cache_info()
    assert after["misses"] - before["misses"] > 50  # traces, of which one or two were compiled
    assert after["executables"] - before["executables"] <= 3
    assert after["size"] - before["size"] < 20  # plans


def elimination(n):
    """Rows that grow shorter: no round is like another."""
    g = mt.arange(float(n * n)).reshape(n, n)
    a, b = (g * g % 17) + n * 20 * mt.eye(n), mt.ones(n)
    for k in range(n):
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k:] = a[i, k:] - f * a[k, k:]
            b[i] = b[i] - f * b[k]
    return a, b


@contextmanager
def plans_and_executables():
    """How many plans and compiled clusters came to be."""
    before, found = mt.jit.cache_info(), []
    yield found
    after = mt.jit.cache_info()
    found += [after["size"] - before["size"], after["executables"] - before["executables"]]


def test_no_time_is_spent_on_loops_that_never_repeat_themselves():
    expected = elimination(12)
    mt.jit.cache_clear()
    for level in (2, 1, 1):  # nor when they come again, at the level that waits until they have paid
        options = {"auto_jit": level, "enable_lazy_compilation": True}
        with plans_and_executables() as found, recorded(min_cluster_size=4, **options):
            got = elimination(12)
        assert all(mt.equal(one, other) for one, other in zip(got, expected, strict=True))
        assert found == [0, 0]


def test_a_loop_that_repeats_itself_is_compiled_when_it_has_run_for_a_while():
    def steps(count, x, w):
        for _ in range(count):
            h = mt.tanh(x @ w)
            w = w - 1e-4 * (x.T @ ((h - 0.5) * (1 - h * h)))
        return w

    def tensors(n):
        return mt.arange(64.0 * n).reshape(64, n) % 11 / 110, mt.arange(float(n * n)).reshape(n, n) % 7 / 70

    x, w = tensors(64)
    expected = steps(60, x, w)
    with plans_and_executables() as found, recorded(min_cluster_size=4, enable_lazy_compilation=True):
        got = steps(60, x, w)
    assert mt.equal(got, expected)
    assert min(found) >= 1
    x, w = tensors(4)  # which at level 1 takes a moment
    with plans_and_executables() as found, recorded(min_cluster_size=4, auto_jit=1, enable_lazy_compilation=True):
        steps(40, x, w).sum().item()
    assert found == [0, 0]
    # Who says that nothing shall wait gets it at once.
    with plans_and_executables() as found, recorded(min_cluster_size=4):
        steps(40, x, w).sum().item()
    assert min(found) >= 1


def test_parts_of_several_kinds_that_come_again_and_again_are_compiled():
    def program(x):
        for _ in range(20):
            x = ((x * 0.5 + 0.1).tanh() - x * 0.01).sigmoid() * x
        for _ in range(20):
            x = (x - x * x * 0.3).exp() / (x * x + 1.5) - 0.5
        return x.sum().item()

    x = mt.arange(3000.0) / 3000
    expected = program(x)
    with plans_and_executables() as found, recorded(min_cluster_size=4, enable_lazy_compilation=True):
        assert [program(x) for _ in range(200)] == [expected] * 200
    assert found[1] >= 1


@pytest.mark.parametrize(("look_ns", "plans"), [(1_000, range(4, 5)), (5_000_000, range(150, 300))])
def test_what_is_read_each_round_and_never_the_same_is_soon_run_without_plans(look_ns, plans):
    """By a clock that is given: a plan takes 10 ms, and each look at the clock so many nanoseconds."""

    class Clock:
        now = 0

        def __call__(self):
            self.now += look_ns
            return self.now

    def make_plan(*args):
        clock.now += 10_000_000
        return api._plan(*args)

    def program(x):
        total = 0.0
        for n in range(1, 300):
            y = x[:n] * 0.5 + 1
            total += ((y.exp() - y).tanh() * y).sum().item()
        return total

    x = mt.arange(300.0) / 300
    expected = program(x)
    clock = Clock()
    mt.jit.cache_clear()
    mt._C.set_compile_callback(make_plan, api._recall)
    mt._C.set_policy_clock(clock)
    try:
        with plans_and_executables() as found, recorded(min_cluster_size=4, enable_lazy_compilation=True):
            assert program(x) == expected
    finally:
        mt._C.set_policy_clock(None)
        mt._C.set_compile_callback(api._plan, api._recall)
    assert found[0] in plans


def test_sizes_that_have_nothing_to_do_with_each_other_have_few_templates():
    expected = elimination(16)
    with plans_and_executables() as found, mt.jit_scope():
        got = elimination(16)
    assert all(mt.equal(one, other) for one, other in zip(got, expected, strict=True))
    assert found[1] <= 8


def test_parts_of_a_loop_are_compiled_once():
    def f(x):
        for _ in range(400):
            x = x * 0.5 + x.sum() * 0.1
        return x

    x = mt.rand(5) * 0.01
    expected = f(x)
    before = mt.jit.cache_info()["misses"]
    with mt.jit_scope():
        y = f(x)
    assert mt.equal(y, expected)
    assert not expected.isnan().any()
    first = mt.jit.cache_info()["misses"] - before
    assert first <= 4
    with mt.jit_scope():
        y = f(x)
    assert mt.equal(y, expected)
    assert mt.jit.cache_info()["misses"] - before == first
