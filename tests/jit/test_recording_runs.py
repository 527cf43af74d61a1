"""When what was recorded runs, and why; its errors; plans that are used again; threads and finalizers."""

import ctypes
import gc
import itertools
import threading
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
from recording import flushes, recorded

import minitensor as mt
from minitensor_jit import api


def arange(*shape, dtype=mt.float32):
    count = int(np.prod(shape))
    return mt.arange(0, count, dtype=dtype).reshape(shape)


# ---- when and why what was recorded runs


def observe(seen):
    """The reason of the first flush that happened here, in this file."""
    assert seen, "nothing ran"
    reason, source = seen[0]
    assert source[0] == __file__
    return reason


@pytest.mark.parametrize(
    ("reason", "look"),
    [
        ("item()", lambda x: x[0].item()),
        ("numpy()", lambda x: x.numpy()),
        ("numpy()", np.asarray),
        ("bool()", lambda x: bool(x[1])),
        ("float()", lambda x: float(x[1])),
        ("int()", lambda x: int(x[1])),
        ("tolist()", lambda x: x.tolist()),
        ("repr()", repr),
        ("repr()", str),
        ("data_ptr()", lambda x: x.data_ptr()),
        ("__dlpack__()", np.from_dlpack),
        ("index()", lambda x: [0, 1, 2][x[1].long()]),
    ],
)
def test_observations(reason, look):
    with recorded(), flushes() as seen:
        x = arange(3) * 1
        assert x._is_pending
        look(x)
        assert not x._is_pending
    assert observe(seen) == reason


def test_the_end_of_things():
    x = mt.ones(3)
    with flushes() as seen:
        with recorded("the very end"):
            kept = x + 1
        with mt.jit_scope():
            kept = x + 2
        config = mt.ConfigProto()
        config.graph_options.optimizer_options.global_jit_level = mt.OptimizerOptions.ON_1
        config.graph_options.optimizer_options.cpu_global_jit = True
        with mt.Session(config=config) as session:
            kept = session.run(lambda: x + 3)
        kept = mt.function(lambda: x + 4)()
    assert [reason for reason, _ in seen] == [
        "the very end",
        "the end of a jit_scope",
        "the end of a session run",
        "the end of a function",
    ]
    assert kept.tolist() == [5, 5, 5]


def test_optimizer_step():
    w = mt.ones(3, requires_grad=True)
    optimizer = mt.optim.SGD([w], lr=0.5)
    with recorded(), flushes() as seen:
        (w * w).sum().backward()
        optimizer.step()
        assert not w._is_pending
    assert observe(seen) == "the end of an optimizer step"
    assert w.tolist() == [0, 0, 0]


def test_ops_that_run_at_once():
    with recorded(), flushes() as seen:
        x = arange(5) * 2
        assert (x > 3).nonzero().tolist() == [[2], [3], [4]]
    assert "eagerly" in observe(seen) or "nonzero" in observe(seen)


def test_size_cap():
    x = mt.zeros(2)
    steps = compile("y = y + 1\n" * 8192, "no_loop.py", "exec")
    with flushes() as seen, recorded("the end"):
        names = {"y": x}
        exec(steps, names)
        y = names["y"]
        assert y._is_pending
        z = y + 1
        assert not y._is_pending
        assert z._is_pending
    assert [reason for reason, _ in seen] == ["the size cap of a trace", "the end"]
    assert z.tolist() == [8193, 8193]


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
    mt._C.set_compile_hook(make_plan, api._recall)
    mt._C.set_policy_clock(clock)
    try:
        with plans_and_executables() as found, recorded(min_cluster_size=4, enable_lazy_compilation=True):
            assert program(x) == expected
    finally:
        mt._C.set_policy_clock(None)
        mt._C.set_compile_hook(api._plan, api._recall)
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


def test_a_change_of_options():
    x = mt.ones(2)
    with recorded(), flushes() as seen:
        y = x + 1
        with mt.jit.options(min_cluster_size=3):
            assert not y._is_pending
    assert len(seen) == 1


# ---- errors


def test_shape_errors_come_at_once():
    with recorded():
        x = mt.ones(3)
        with pytest.raises(RuntimeError, match="must match the size"):
            x + mt.ones(4)
        y = x + 1
    assert y.tolist() == [2, 2, 2]


def division(x):
    return x // mt.zeros(3, dtype=mt.int64)  # the line that fails


def selection(x):
    return mt.ones(3).index_select(0, x + 10)  # the line that fails


def embedding(x):
    i = mt.tensor([5])
    return mt.ones(3).index_select(0, i)  # the line that fails


def target(x):
    return mt.nn.functional.cross_entropy(mt.ones(3, 3), mt.tensor([0, 1, 7]))  # the line that fails


@pytest.mark.parametrize(
    ("call", "error", "op"),
    [
        (division, ZeroDivisionError, "floor_divide"),
        (selection, IndexError, "index_select"),
        (embedding, IndexError, "index_select"),
        (target, IndexError, "nll_loss_mean"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"min_cluster_size": 100}], ids=str)
def test_errors_name_the_line(call, error, op, options):
    with recorded(**options):
        y = call(arange(3, dtype=mt.int64))
        z = y + 1
        with pytest.raises(error) as caught:
            z.tolist()
        note = "\n".join(caught.value.__notes__)
        assert f"'{op}'" in note
        with open(__file__) as file:
            assert "the line that fails" in file.readlines()[int(note.rsplit(":", 1)[1]) - 1]
        # What could not be computed says so; it is never memory that nobody wrote.
        for t in (y, z):
            with pytest.raises(RuntimeError, match="never computed"):
                t.tolist()
        assert (mt.ones(2) + 1).tolist() == [2, 2]


def test_values_of_a_failed_run_raise_everywhere():
    bad = None
    with pytest.raises(ZeroDivisionError), recorded():
        bad = mt.ones(2, dtype=mt.int64) // mt.zeros(2, dtype=mt.int64)
    for use in (
        repr,
        lambda t: t + 1,
        lambda t: t.add_(1),
        lambda t: t.numpy(),
        lambda t: t[0].item(),
        lambda t: t.sum(),
    ):
        with pytest.raises(RuntimeError, match="never computed"):
            use(bad)
    with pytest.raises(RuntimeError, match="never computed"), recorded():  # noqa: PT012
        kept = bad + 1
        kept.tolist()


def test_an_exception_inside_a_scope():
    for scope in (mt.jit_scope, recorded):
        with pytest.raises(KeyError), scope():  # noqa: PT012
            x = mt.ones(3) * 2
            raise KeyError
        assert x.tolist() == [2, 2, 2]
        assert not mt._C.is_recording()


def test_an_exception_hides_the_failure_of_the_flush():
    with pytest.raises(KeyError), mt.jit_scope():  # noqa: PT012
        x = mt.ones(2, dtype=mt.int64) // mt.zeros(2, dtype=mt.int64)
        raise KeyError
    with pytest.raises(RuntimeError, match="never computed"):
        x.tolist()


# ---- scopes


def test_nested_scopes_run_once():
    x = mt.ones(3)
    with flushes() as seen:  # noqa: SIM117
        with mt.jit_scope():
            y = x + 1
            with mt.jit_scope():
                z = y * 2
            assert z._is_pending
    assert len(seen) == 1
    assert z.tolist() == [4, 4, 4]


def test_scope_that_compiles_nothing():
    x = arange(4)

    def program():
        y = x * 2
        with mt.jit_scope(compile_ops=False):
            y = (y + 1).exp()
        return (y * 3).log()

    report = mt.jit.explain(program)()
    assert report.result.tolist() == program().tolist()
    assert "jit_scope(compile_ops=False)" in report.text()


def test_scope_as_a_decorator():
    @mt.jit_scope()
    def f(x):
        y = x + 1
        assert y._is_pending
        return y

    assert f(mt.ones(2)).tolist() == [2, 2]
    assert f.__name__ == "f"


def test_scope_argument():
    with pytest.raises(TypeError, match="compile_ops must be a bool"):
        mt.jit_scope(compile_ops=1)


# ---- plans


def loop(step, count=20):
    """How many plans and executables each turn of a loop added."""
    sizes = []
    for i in range(count):
        with recorded():
            step(i)
        info = mt.jit.cache_info()
        sizes.append((info["misses"], info["executables"]))
    return [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(sizes)]


def test_a_loop_compiles_once():
    x = mt.zeros(10)

    def step(i):
        x.mul_(0.5).add_(x.exp())
        x[2:5] = 1

    assert set(loop(step)) == {(0, 0)}


def test_numbers_that_change_compile_nothing():
    x = mt.zeros(10)
    seen = []

    def step(i):
        rate = 0.1 * i + 0.03
        x.sub_(x, alpha=rate)
        x.add_(rate)
        x.fill_(rate)
        x[2] = 7.0 + i
        seen.append(x * (i + 5))

    assert set(loop(step)) == {(0, 0)}
    for i, value in enumerate(seen):
        rate = np.float32(0.1 * i + 0.03)
        expected = np.full(10, rate) * np.float32(i + 5)
        expected[2] = np.float32(7.0 + i) * np.float32(i + 5)
        assert value.numpy().tobytes() == expected.tobytes()


def test_new_shapes_are_compiled():
    misses = loop(lambda i: (mt.ones(i + 3) * 2).sum().item(), 4)
    assert all(plans == 1 for plans, _ in misses)


def test_signs_of_zero_and_nan_are_not_mixed_up():
    x = mt.ones(3)
    for number in (0.0, -0.0, float("nan"), 0.0, -0.0):
        with recorded():
            y = x * number
        assert y.numpy().tobytes() == (x * number).numpy().tobytes()


def test_another_layout_of_the_same_shape():
    base = arange(4, 4) + 0
    for x in (base, base.T, base[0].expand(4, 4), base[:, :1].expand(4, 4), base + 1):
        with recorded():
            y = x * 2 + x.sum(0)
        assert y.numpy().tobytes() == (x * 2 + x.sum(0)).numpy().tobytes()


def test_aliasing_is_part_of_the_plan():
    a, b = arange(8) + 0, arange(8) + 0
    for x, y in ((a[:4], b[:4]), (a[:4], a[2:6]), (a[:4], a[:4]), (a[:4], b[4:])):
        expected_x, expected_y = (x.numpy().copy(), y.numpy().copy())
        shared = x._storage_id() == y._storage_id()
        with recorded():
            x.add_(1)
            z = y * 2
        if not shared:
            assert z.tolist() == (expected_y * 2).tolist()
        assert x.tolist() == (expected_x + 1).tolist()
        assert z.tolist() == (y * 2).tolist()


def test_many_aliases():
    def program(same):
        base = mt.zeros(300)
        other = mt.zeros(300)
        with recorded():
            for i in range(300):
                (base if same or i % 2 else other)[i : i + 1].add_(i)
            total = base + other
        return total.tolist()

    assert program(True) == program(False) == list(range(300))


# ---- threads


def test_threads_record_at_once():
    results = {}

    def work(number):
        with recorded():
            x = mt.full((100,), number)
            for _ in range(50):
                x = x + 1
                if number % 2:
                    x.sum().item()
            results[number] = x

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {n: x[0].item() for n, x in results.items()} == {n: n + 50 for n in range(6)}


def test_a_value_that_another_thread_recorded():
    made, done = threading.Event(), threading.Event()
    box = []

    def work():
        with recorded():
            box.append(mt.ones(4) * 3)
            assert box[0]._is_pending
            made.set()
            done.wait(30)

    worker = threading.Thread(target=work)
    worker.start()
    made.wait(30)
    try:
        with recorded():
            y = box[0] + 1
        assert y.tolist() == [4] * 4
    finally:
        done.set()
        worker.join()


def test_memory_that_another_thread_changes():
    x = mt.ones(4)
    recorded_read, changed = threading.Event(), threading.Event()
    box = []

    def work():
        with recorded():
            box.append(x * 3)
            recorded_read.set()
            changed.wait(30)

    worker = threading.Thread(target=work)
    worker.start()
    recorded_read.wait(30)
    x.add_(10)
    changed.set()
    worker.join()
    assert box[0].tolist() == [3] * 4
    assert x.tolist() == [11] * 4


def test_recording_belongs_to_a_thread():
    seen = []
    with recorded():
        worker = threading.Thread(target=lambda: seen.append((mt.ones(2) + 1)._is_pending))
        worker.start()
        worker.join()
    assert seen == [False]


# ---- finalizers


def test_finalizers_that_compute():
    log = []

    class Cycle:
        def __init__(self, x):
            self.me, self.x = self, x

        def __del__(self):
            log.append((self.x + 1).sum().item())

    gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(5)
    try:
        with recorded():
            y = mt.zeros(3)
            for _ in range(300):
                Cycle(y)
                y = y + 1
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert y.tolist() == [300] * 3
    assert len(log) == 300


def test_recorded_tensors_are_freed():
    with recorded():
        x = mt.ones(3) + 1
        alive = weakref.ref(x)
        del x
        assert alive() is None


def test_many_tensors_are_joined_by_the_kernel():
    x = mt.arange(300.0)
    with mt.jit_scope():
        parts = [v * 0.5 + 1 for v in x]
        y = mt.stack(parts)
        z = mt.cat([y[k : k + 1] for k in range(0, 300, 2)])
    assert mt.equal(y, x * 0.5 + 1)
    assert mt.equal(z, y[::2])


def test_another_number_in_full_is_no_other_program():
    counts = []
    for k in range(8):
        with mt.jit_scope():
            x = mt.full((3, 1), k / 50) * mt.ones(3) + mt.full_like(mt.ones(3), 0.3 * k + 7)
            n = mt.full((2,), 10 * k + 5, dtype=mt.int64) * 2
        assert x.tolist() == [[float(np.float32(np.float32(k / 50) + np.float32(0.3 * k + 7)))] * 3] * 3
        assert n.tolist() == [20 * k + 10] * 2
        counts.append(mt.jit.cache_info()["misses"])
    assert counts[-1] == counts[1]


def test_memory_whose_address_was_given_away_is_read_when_the_call_is_made():
    x = mt.ones(4)
    with recorded():
        before = x * 2
        memory = (ctypes.c_float * 4).from_address(x.data_ptr())
        memory[0] = 10.0
        after = x * 2
        memory[0] = 20.0
    assert before.tolist() == [2.0] * 4
    assert after.tolist() == [20.0, 2.0, 2.0, 2.0]


def test_a_recorded_write_to_memory_whose_address_was_given_away_runs_at_once():
    x = mt.zeros(4)
    memory = (ctypes.c_float * 4).from_address(x.data_ptr())
    with recorded():
        x += 3
        assert list(memory) == [3.0] * 4
    y = mt.zeros(2)
    y.data_ptr()
    assert y.resize_(8).shape == (8,)  # as one whose address nobody has
