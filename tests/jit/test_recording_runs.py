"""When what was recorded runs, and why; scopes, and plans that are used again."""

import ctypes
import itertools

import numpy as np
import pytest
from recording import flushes, recorded

import minitensor as mt


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


@pytest.mark.exhaustive
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


def test_a_change_of_options():
    x = mt.ones(2)
    with recorded(), flushes() as seen:
        y = x + 1
        with mt.jit.options(min_cluster_size=3):
            assert not y._is_pending
    assert len(seen) == 1


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


@pytest.mark.exhaustive
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
