"""Functions that a session runs again are programs: what a run gives, and when Python runs once more."""

import gc
import weakref

import numpy as np
import pytest

import minitensor as mt

pytestmark = pytest.mark.at_once(reason="it compiles by itself")

ON = [mt.OptimizerOptions.ON_1, mt.OptimizerOptions.ON_2]


@pytest.fixture(autouse=True)
def _compiles_at_once():
    with mt.jit.options(enable_lazy_compilation=False):
        yield


def session(level=mt.OptimizerOptions.ON_2):
    config = mt.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    config.graph_options.optimizer_options.cpu_global_jit = True
    return mt.Session(config)


def training(kind, **options):
    mt.manual_seed(3)
    model = mt.nn.Sequential(mt.nn.Linear(6, 8), mt.nn.Tanh(), mt.nn.Linear(8, 3))
    optimizer = kind(model.parameters(), **options)

    def step(x, y):
        loss = mt.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        total = mt.cat([p.grad.flatten() for p in model.parameters()]).norm()
        with mt.no_grad():
            for p in model.parameters():
                p.grad.mul_((0.5 / (total + 1e-6)).clamp(max=1.0))
        optimizer.step()
        return loss

    return model, optimizer, step


class Calls:
    """Counts how often Python runs a function."""

    def __init__(self, monkeypatch):
        self.count = 0
        from minitensor_jit.functions import recorder

        record = recorder.Recorder.record

        def counted(recorder, *args):
            self.count += 1
            return record(recorder, *args)

        monkeypatch.setattr(recorder.Recorder, "record", counted)


@pytest.fixture
def calls(monkeypatch):
    return Calls(monkeypatch)


@pytest.mark.parametrize("level", ON)
@pytest.mark.parametrize("kind", [mt.optim.SGD, mt.optim.Adam])
def test_a_training_step_is_replayed_with_the_same_bits(level, kind, calls):
    images = np.random.default_rng(0).random((40, 4, 6), dtype=np.float32)  # others can reach the batches' memory
    labels = mt.tensor([0, 2, 1, 1])
    seen = []
    for runs in (lambda step, *args: step(*args), session(level).run):
        model, optimizer, step = training(kind, lr=0.1)
        losses = []
        for number, batch in enumerate(images):
            optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
            losses.append(runs(step, mt.from_numpy(batch), labels).item())
        seen.append((losses, [p.tolist() for p in model.parameters()]))
    assert seen[0] == seen[1]
    assert calls.count < 25  # until trials are over


@pytest.mark.parametrize("level", [mt.OptimizerOptions.OFF, mt.OptimizerOptions.DEFAULT])
def test_without_clustering_python_runs_the_function_every_time(level, calls):
    runs = []
    x = mt.tensor([0.1, -0.4])

    def step(x):
        runs.append(x)
        return x.exp() * 2

    with session(level) as s:
        for _ in range(30):
            assert s.run(step, x).tolist() == (x.exp() * 2).tolist()
    assert len(runs) == 30
    assert calls.count == 0


def test_the_timeline_of_a_replayed_step_is_one_launch():
    _, _, step = training(mt.optim.SGD, lr=0.1)
    x, y = mt.rand(4, 6), mt.tensor([0, 2, 1, 1])
    with session() as s:
        for _ in range(40):
            s.run(step, x, y)
        metadata = mt.RunMetadata()
        s.run(step, x, y, options=mt.RunOptions(trace_level=mt.RunOptions.FULL_TRACE), run_metadata=metadata)
    (device,) = metadata.step_stats.dev_stats
    assert [node.op for node in device.node_stats] == ["_JitLaunch"]
    assert {child.op for child in device.node_stats[0].children} > {"tanh"}


SCALE = 2.0


def test_what_the_function_read_is_guarded(calls):
    global SCALE

    class Model:
        offset = 1.0

        def step(self, x):
            return (x * SCALE + self.offset).tanh() * 3 - x.exp()

    model, x = Model(), mt.tensor([0.1, -0.4, 0.9])
    with session() as s:
        for _ in range(40):
            assert s.run(model.step, x).tolist() == model.step(x).tolist()
        settled = calls.count
        assert s.run(model.step, x).tolist() == model.step(x).tolist()
        assert calls.count == settled
        model.offset = 0.25
        assert s.run(model.step, x).tolist() == model.step(x).tolist()
        SCALE = 0.5
        try:
            assert s.run(model.step, x).tolist() == model.step(x).tolist()
        finally:
            SCALE = 2.0
        assert calls.count > settled
        longer = mt.rand(7)
        assert s.run(model.step, longer).tolist() == model.step(longer).tolist()


def test_a_function_that_looks_at_values_runs_every_time():
    found = []

    def step(x):
        y = x * 2 + 1
        found.append(y.sum().item())
        return y.tanh() if found[-1] > 0 else y.exp()

    with session() as s:
        for number in range(12):
            x = mt.full((3,), float((-1) ** number))
            result = s.run(step, x)
            assert len(found) == number + 1
            assert result.tolist() == ((x * 2 + 1).tanh() if found[-1] > 0 else (x * 2 + 1).exp()).tolist()


def test_a_session_keeps_no_function_alive(calls):
    with session() as s:
        big = mt.rand(100)

        def step(x):
            return (x + big).tanh().exp() * 2

        for _ in range(40):
            s.run(step, mt.ones(100))
        assert 0 < calls.count < 39
        gone = weakref.ref(step)
        del step
        gc.collect()
        assert gone() is None
        for _ in range(3):  # one that is made anew for each run
            assert s.run(lambda x: x + 1, mt.ones(2)).tolist() == [2.0, 2.0]


def test_callables_that_are_no_functions():
    class Slotted:
        __slots__ = ()

        def __call__(self, x):
            return x * 2 + 1

    model, slotted, x = mt.nn.Linear(3, 2), Slotted(), mt.ones(3)
    compiled = mt.function(lambda x: (x * 2).tanh() + 1, jit_compile=True)
    with session() as s:
        for _ in range(4):
            assert s.run(model, x).tolist() == model(x).tolist()
            assert s.run(slotted, x).tolist() == [3.0] * 3
            assert s.run(mt.exp, x).tolist() == x.exp().tolist()
            assert s.run(compiled, x).tolist() == compiled(x).tolist()
        assert compiled.hits >= 6


def test_one_function_in_two_sessions_and_at_two_levels():
    x = mt.tensor([0.5, -2.0])

    def step(x):
        return ((x * 3).exp() + 1).log() * x

    expected = step(x).tolist()
    sessions = [session(level) for level in ON] + [session(mt.OptimizerOptions.OFF), mt.Session()]
    for _ in range(10):
        assert [s.run(step, x).tolist() for s in sessions] == [expected] * 4
    assert sessions[0].run(lambda: sessions[1].run(step, x)).tolist() == expected


@pytest.mark.parametrize("best_effort", [False, True])
def test_programs_that_nobody_asks_for_again_are_kept_seldom(best_effort):
    fn = mt.function(lambda x, n: x * 2 + n, jit_compile=None if best_effort else True)
    x = mt.ones(3)
    for n in range(200):
        assert fn(x, n).tolist() == [2.0 + n] * 3
    assert fn.hits == 0
    assert fn.programs <= 44
    assert all(fn(x, -1).tolist() == [1.0] * 3 for _ in range(2000))
    assert fn.hits > 0


def test_memory_that_numpy_reaches_is_read_when_the_program_runs(calls):
    inner, outer = np.ones(6, np.float32), np.arange(6, dtype=np.float32)
    shared = mt.from_numpy(outer)

    def step(x):
        return (x[1:] * 2 + shared[:-1]).tanh() + x[:-1] * shared[1:]

    with session() as s:
        for _ in range(40):
            inner += 0.125
            outer *= 0.9
            x = mt.from_numpy(inner)
            assert s.run(step, x).tolist() == step(x).tolist()
    assert calls.count < 25


def test_a_function_that_changes_such_memory_runs_every_time():
    memory = np.ones(3, np.float32)

    def step(x):
        y = x * 2
        memory[:] = memory + 1
        return y + x

    with session() as s:
        for number in range(40):
            assert s.run(step, mt.from_numpy(memory)).tolist() == [3.0 * number + 4] * 3


def test_views_with_large_gaps_into_such_memory():
    memory = np.arange(400, dtype=np.float32).reshape(20, 20)

    def step(x):
        return (x.T[0] * 2 + 1).exp().log1p()

    with session() as s:
        for _ in range(20):
            memory -= 1.5
            x = mt.from_numpy(memory)[:, :1]
            assert s.run(step, x).tolist() == step(x).tolist()


@pytest.mark.parametrize("whole", [None, True], ids=["best effort", "whole"])
@pytest.mark.parametrize("outside", [False, True], ids=["argument", "outside"])
def test_memory_that_another_tensor_writes(whole, outside):
    """A tensor that went to NumPy and back: a program, or a whole function, reads nothing that is written elsewhere."""
    written, other = mt.ones(3), mt.ones(3)

    def reads_first(x):
        y = (other if outside else x) * 2
        written.sub_(0.5)
        return y + (other if outside else x)

    def writes_first(x):
        written.sub_(0.5)
        return (other if outside else x) * 2

    for step in (reads_first, writes_first):
        written, other = mt.ones(3), mt.ones(3)
        compiled = mt.function(step, jit_compile=whole)
        for _ in range(40):
            compiled(mt.ones(3))
        assert compiled.hits > 10
        again = mt.from_numpy(written.numpy())
        if outside:
            other = again
        written.fill_(1.0)
        expected = step(again).tolist()
        written.fill_(1.0)
        if whole:
            with pytest.raises(mt.jit.InvalidArgumentError, match="through another tensor"):
                compiled(again)
        else:
            assert compiled(again).tolist() == expected
            assert written.tolist() == [0.5] * 3
