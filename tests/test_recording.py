"""Recorded programs: the same values as eager ones through views, in-place writes and shared memory; when they run, and why."""

import gc
import threading
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import minitensor as mt


@contextmanager
def recorded(reason="the end", **options):
    options = {"auto_jit": 2, "cpu_global_jit": True, "min_cluster_size": 1} | options
    with mt.jit.options(**options):
        mt._C.begin_recording()
        try:
            yield
        finally:
            mt._C.end_recording(reason)


@contextmanager
def flushes():
    """The reasons of the flushes inside, and the lines of the user's program where they happened."""
    reasons = []
    mt._C.set_flush_hook(lambda reason, source, hit, ops, record: reasons.append((reason, source)))
    try:
        yield reasons
    finally:
        mt._C.set_flush_hook(None)


def arange(*shape, dtype=mt.float32):
    count = int(np.prod(shape))
    return mt.arange(0, count, dtype=dtype).reshape(shape)


# ---- views and in-place writes: each case returns everything that can be seen afterwards


def write_through_a_view(x):
    v = x[1:3]
    v.mul_(10)
    return x, v


def write_through_a_view_of_a_view(x):
    v = x[1:][:, 2]
    v.add_(100)
    w = x.T[2]
    w.neg_()
    return x, v, w


def read_a_view_before_and_after(x):
    v = x[0]
    before = v * 1
    x.add_(1)
    after = v * 1
    return before, after, v, x


def overlapping_reads(x):
    a, b = x[:-1], x[1:]
    total = a + b
    a.add_(b)
    return total, a, b, x


def overlapping_write(x):
    x[1:].copy_(x[:-1])
    flat = x.reshape(-1)
    flat[:-1].mul_(flat[1:])
    return x


def data_attribute(x):
    y = x * 2
    y.data.add_(1)
    z = y.data
    z[0] = -5
    return y, z


def data_assignment(x):
    y = x * 2
    view = y[0]
    y.data = x + 100
    y.mul_(2)
    return y, view, x


def chained_slices(x):
    x[1:][1:][:, 1:][:, ::2] = 7
    x[0][2:].sub_(3)
    x[..., -1] += 1
    return x


def transposed_writes(x):
    t = x.T
    t[1:3] *= 2
    t.copy_(t + 1)
    u = x.permute(1, 0)
    u[0, :].fill_(9)
    return x, t, u


def expanded_reads(x):
    row = x[0].expand(4, 5)
    y = row + x
    x[0].add_(1)
    return y, row + 0, row.T @ row, x


def item_assignment(x):
    x[2, 3] = 1.5
    x[-1, -1] = x[0, 1] * 4
    x[1] = mt.arange(5)
    x[:, 0] = mt.tensor([[7.0]])
    x[x > 15] = 0
    x[mt.tensor([0, 3])] = x[mt.tensor([3, 0])] * 2
    return x


def diagonal_writes(x):
    x.diagonal().add_(50)
    x.diagonal(1)[1:] = -1
    return x, x.diagonal()


def strided_writes(x):
    x.as_strided((3, 2), (7, 2), 1).mul_(-1)
    x.reshape(-1)[::3].add_(0.5)
    return x, x.as_strided((2, 2), (5, 1), 6)


def whole_writes(x):
    v = x[1]
    x.zero_()
    x.copy_(mt.ones(5))
    v.fill_(3)
    x.reshape(-1)[4:7] = 2
    return x, v


def in_place_chain(x):
    y = x.exp().clamp(0, 50)
    y.sub_(1).mul_(y).sqrt_().add_(x)
    y /= 3
    y **= 2
    return y, x


def write_with_itself(x):
    x.add_(x)
    x.mul_(x.T.reshape(4, 5))
    x[0].add_(x[0])
    return x


def mixed_dtypes(x):
    i = x.long()
    i[1:].add_(True)
    i.mul_(3)
    x.add_(i)
    b = i > 5
    b[0] = True
    return x, i, b, b[0] & b[1]


def slots_of_a_buffer(x):
    out = mt.zeros(6, 5)
    for i in range(4):
        out[i].copy_(x[i] * i)
        out[4].add_(out[i])
    out[5] = out[:5].sum(0)
    return out


def swap(x):
    a, b = x[0].clone(), x[1].clone()
    x[0], x[1] = b, a
    return x


def dropped_base(x):
    v = (x * 3)[1:, 1]
    v.add_(1)
    return v


CASES = [
    write_through_a_view, write_through_a_view_of_a_view, read_a_view_before_and_after, overlapping_reads, overlapping_write,
    data_attribute, data_assignment, chained_slices, transposed_writes, expanded_reads, item_assignment, diagonal_writes, strided_writes,
    whole_writes, in_place_chain, write_with_itself, mixed_dtypes, slots_of_a_buffer, swap, dropped_base,
]  # fmt: skip


def arrays(result):
    result = result if isinstance(result, tuple) else (result,)
    return [(t.dtype, t.stride(), t.storage_offset(), t.numpy().tobytes(), t.tolist()) for t in result]


@pytest.mark.parametrize("options", [{}, {"auto_jit": 1, "min_cluster_size": 4}], ids=str)
@pytest.mark.parametrize(
    "make", [lambda: arange(4, 5), lambda: arange(4, 5) + 0, lambda: arange(5, 4).T, lambda: arange(6, 7)[1:5, 1:6]]
)
@pytest.mark.parametrize("case", CASES)
def test_views_and_writes(case, make, options):
    x, y = make(), make()
    eager = arrays((*_tuple(case(x)), x))
    with recorded(**options):
        z = make()
        inside = case(z)  # what is written is itself recorded
        outside = case(y)  # what is written was there before
    assert arrays((*_tuple(inside), z)) == eager
    assert arrays((*_tuple(outside), y)) == eager


def _tuple(result):
    return result if isinstance(result, tuple) else (result,)


# ---- memory shared with NumPy and DLPack


def test_reads_numpy_memory_as_it_was():
    array = np.arange(4, dtype=np.float32)
    x = mt.from_numpy(array)
    with recorded():
        y = x * 2
        array[:] = -1
        z = x * 2
    assert y.tolist() == [0, 2, 4, 6]
    assert z.tolist() == [-2] * 4


def test_writes_numpy_memory_at_once():
    array = np.arange(4, dtype=np.float32)
    x = mt.from_numpy(array)
    with recorded():
        x.add_(1)
        assert array.tolist() == [1, 2, 3, 4]
        x[1:].mul_(2)
        assert array.tolist() == [1, 4, 6, 8]
        array += 1
        assert (x * 1).tolist() == [2, 5, 7, 9]


def test_numpy_of_a_recorded_value_shares_its_memory():
    with recorded():
        x = arange(4) + 1
        array = x.numpy()
        x.mul_(2)
        assert array.tolist() == [2, 4, 6, 8]
        array[0] = 100
        y = x + 0
        array[0] = 200
    assert y.tolist() == [100, 4, 6, 8]
    assert x.tolist() == [200, 4, 6, 8]


def test_numpy_view_taken_after_a_recorded_read():
    x = arange(4) + 0
    with recorded():
        y = x * 1
        array = x.numpy()
        array[:] = 50
    assert y.tolist() == [0, 1, 2, 3]


def test_dlpack():
    array = np.arange(3, dtype=np.float32)
    x = mt.from_dlpack(array)
    with recorded():
        y = x + 1
        array[:] = 9
        z = x + 1
        w = z * 2
        out = np.from_dlpack(w)
        w.add_(1)
        assert out.tolist() == [21] * 3
    assert y.tolist() == [1, 2, 3]


def test_transposed_numpy_memory():
    array = np.arange(6, dtype=np.float64).reshape(2, 3)
    x = mt.from_numpy(array.T)
    with recorded():
        x[1].add_(10)
        y = x @ x.T
    assert array.tolist() == [[0, 11, 2], [3, 14, 5]]
    assert y.tolist() == (array.T @ array).tolist()


def test_arrays_that_overlap():
    array = np.arange(6, dtype=np.float32)
    a, b = mt.from_numpy(array[:4]), mt.from_numpy(array[2:])
    with recorded():
        total = a + b
        a.add_(10)
        after = b * 1
    assert total.tolist() == [2, 4, 6, 8]
    assert after.tolist() == [12, 13, 4, 5]


# ---- liveness


def test_only_living_tensors_are_computed():
    with flushes() as seen, recorded():
        x = arange(1000) * 2
        del x
    assert seen == []


def test_a_dropped_intermediate_is_not_kept():
    mt.empty_cache()
    x = mt.ones(1 << 20)
    with recorded():
        y = x * 2
        z = y + 1
        del y
        before = mt.allocator_stats()["allocated_bytes"]
        mt.reset_peak_memory_stats()
        value = z.sum().item()
        del z
    assert value == 3 * (1 << 20)
    assert mt.allocator_stats()["peak_allocated_bytes"] - before < 6 << 20


def test_written_memory_that_nobody_sees():
    with recorded():
        c = mt.tensor([1.0, 2.0])
        y = c * 3
        c.add_(1)
        del c
    assert y.tolist() == [3, 6]


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
    with flushes() as seen, recorded("the end"):
        y = x
        for _ in range(8192):
            y = y + 1
        assert not y._is_pending
        y = y + 1
        assert y._is_pending
    assert [reason for reason, _ in seen] == ["the size cap of a trace", "the end"]
    assert y.tolist() == [8193, 8193]


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
        (target, IndexError, "nll_loss"),
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
    with pytest.raises(RuntimeError, match="never computed"), recorded():
        kept = bad + 1
        kept.tolist()


def test_an_exception_inside_a_scope():
    for scope in (mt.jit_scope, recorded):
        with pytest.raises(KeyError), scope():
            x = mt.ones(3) * 2
            raise KeyError
        assert x.tolist() == [2, 2, 2]
        assert not mt._C.is_recording()


def test_an_exception_hides_the_failure_of_the_flush():
    with pytest.raises(KeyError), mt.jit_scope():
        x = mt.ones(2, dtype=mt.int64) // mt.zeros(2, dtype=mt.int64)
        raise KeyError
    with pytest.raises(RuntimeError, match="never computed"):
        x.tolist()


# ---- scopes


def test_nested_scopes_run_once():
    x = mt.ones(3)
    with flushes() as seen:
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
    return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(sizes, sizes[1:], strict=False)]


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
            for i in range(300):
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
