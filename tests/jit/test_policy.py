"""Whole programs under the flags: what is recorded and compiled is decided by one account of time lost and allowed.

The clock is given, so that nothing is left to chance.
"""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt

ROOT = str(Path(mt.__file__).parent.parent)
SECOND = 10**9


class Clock:
    """Steps take `recorded` nanoseconds where what runs is recorded, else `eager`; looks at the clock `tick`."""

    def __init__(self, recorded, eager, tick=0):
        self.recorded, self.eager, self.tick = recorded, eager, tick
        self.now = 0

    def __call__(self):
        self.now += self.tick
        return self.now

    def sees(self, x):
        """Whether it is recorded; a step passes."""
        self.now += self.recorded if x._is_pending else self.eager
        return x._is_pending


@contextmanager
def program(clock, **options):
    """A whole program inside, which goes by that clock; compiled from the first time on, unless options say else."""
    options = {"auto_jit": 2, "cpu_global_jit": True, "enable_lazy_compilation": False} | options
    mt.jit.cache_clear()
    with mt.jit.options(**options):
        mt._C.set_policy_clock(clock)
        mt._C.begin_program()
        try:
            yield
        finally:
            mt._C.end_recording("the end of the program")
            mt._C.set_policy_clock(None)


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Plans from which the policy learns what compiling costs: no test depends on the tests before it."""
    with program(Clock(recorded=2000, eager=1000), dynamic_shapes=False):
        for n in range(40):
            assert (mt.ones(3 + n) + 1).sum().item() == 2 * (3 + n)


def steps(clock, count, state=None):
    """Whether each of so many steps was recorded, and the values; a step is one run."""
    x = mt.ones(5) if state is None else state
    modes, values = [], []
    for _ in range(count):
        y = mt.tanh(x * 1.5 + 0.5) - 0.25
        modes.append(clock.sees(y))
        x = x * 0.875 + y * 0.125
        values.append(x.sum().item())
    return modes, values


RECORDED = 64  # more than a run is recorded until it has been measured


@pytest.mark.parametrize("faster", ["recorded", "eager"])
def test_a_run_that_loses_runs_eagerly(faster):
    clock = Clock(recorded=2000, eager=1000) if faster == "eager" else Clock(recorded=1000, eager=2000)
    with program(clock):
        modes, values = steps(clock, 200)
    assert modes[0]
    assert all(modes[RECORDED:]) if faster == "recorded" else not any(modes[RECORDED:])
    assert 5 <= modes.count(False) <= 12 or faster == "eager"
    assert values == steps(clock, 200)[1]


def test_a_contest_that_the_account_cannot_afford_ends_early():
    counts = []
    for recorded, eager in ((2000, 1000), (2 * SECOND, SECOND)):
        clock = Clock(recorded=recorded, eager=eager)
        with program(clock):
            modes = steps(clock, 40)[0]
        assert not any(modes[30:])
        counts.append(sum(modes))
    cheap, dear = counts
    assert dear == cheap - 3  # two of each kind instead of five


def test_the_whole_run_counts():
    """Not what the cluster alone takes, which its own trial finds to win."""
    clock = Clock(recorded=2000, eager=1999)
    with program(clock):
        assert not any(steps(clock, 100)[0][RECORDED:])


def test_there_is_another_contest():
    clock = Clock(recorded=200_000, eager=100_000)
    x = mt.rand(5)
    with program(clock):
        modes, values = steps(clock, 200, x)
        clock.recorded = 50_000  # than which nothing has changed in the program
        clock.now += SECOND
        soon = steps(clock, 200, x)[0]
        clock.now += 2 * SECOND
        later, others = steps(clock, 2000, x)
    assert not any(modes[RECORDED:])
    assert not any(soon)
    assert all(later[-200:])
    assert values == others[:200] == steps(clock, 200, x)[1]


def test_other_shapes_are_measured_too():
    clock = Clock(recorded=200_000, eager=100_000)
    five, seven = mt.rand(5), mt.rand(7)
    with program(clock):
        assert not any(steps(clock, 100, five)[0][RECORDED:])
        clock.recorded = 50_000
        assert all(steps(clock, 700, seven)[0][-100:])
        assert not any(steps(clock, 100, five)[0])


def test_what_is_not_twice_the_same_is_not_compared():
    clock = Clock(recorded=2000, eager=1000)
    with program(clock):
        modes = []
        for i in range(200):
            y = mt.ones(4) * 1.5
            modes.append(clock.sees(y))
            for _ in range(i % 3):
                y = y + 0.75
            y.sum().item()
    assert all(modes[80:])


def test_a_run_that_gets_long_is_recorded_again():
    clock = Clock(recorded=2000, eager=1000)
    seen = []
    with program(clock):
        for i in range(120):
            y = mt.ones(4) * 1.5
            first = clock.sees(y)
            if i == 110:
                for _ in range(5000):
                    y = y * 0.5 - 0.25
                    if y._is_pending:
                        break
                seen.append((first, y._is_pending))
            y.sum().item()
            if i == 111:
                seen.append((first, False))
    assert seen == [(False, True), (False, False)]


@pytest.mark.parametrize(
    "scope",
    [
        mt.jit_scope,
        lambda: mt.jit.attr_scope({"_MtCompile": True}),
        lambda: mt.jit.options(min_cluster_size=2),
    ],
)
def test_a_scope_inside_is_recorded(scope):
    clock = Clock(recorded=2000, eager=1000)
    with program(clock):
        assert not any(steps(clock, 100)[0][RECORDED:])
        x = mt.ones(5)
        for _ in range(60):
            y = x * 1.5  # of a run that may go eagerly
            with scope():
                z = mt.tanh(y) + 0.5
                inside = z._is_pending
            z.sum().item()
            assert inside or not y._is_pending
        if scope is mt.jit_scope:
            assert inside


def test_what_must_be_compiled_is():
    clock = Clock(recorded=2000, eager=1000)
    fn = mt.function(lambda x: mt.tanh(x) * 1.5 + x, jit_compile=True)
    x = mt.rand(6)
    expected = (mt.tanh(x) * 1.5 + x).numpy()
    with program(clock):
        for _ in range(100):
            y = x * 1.0
            clock.sees(y)
            np.testing.assert_array_equal(fn(y).numpy(), expected)


def test_gradients_have_the_same_bits():
    def train(clock, count):
        mt.manual_seed(1)
        w = mt.rand(4, 3).requires_grad_()
        x, losses, modes = mt.rand(8, 4), [], []
        optimizer = mt.optim.SGD([w], lr=0.1, momentum=0.9)
        for _ in range(count):
            y = mt.tanh(x @ w)
            modes.append(clock.sees(y))
            loss = (y - 0.5).pow(2).mean() + mt.rand(3).sum() * 0.0
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return modes, losses, w.detach().numpy().tobytes()

    clock = Clock(recorded=2000, eager=1000)
    with program(clock):
        modes, *values = train(clock, 150)
    assert modes[0]
    assert not any(modes[RECORDED:])
    assert values == list(train(clock, 150)[1:])


def test_forward_and_backward_are_two_runs():
    """Of which one loses."""
    clock = Clock(recorded=2000, eager=1000)
    passes = mt._C.whole_calls()
    w = mt.rand(5).requires_grad_()
    x = mt.rand(5)
    gradients, pending = [], []
    with program(clock):
        for i in range(150):
            loss = (mt.tanh(w * x) * 1.5).sum()
            clock.sees(loss)
            pending.append(loss._is_pending)
            w.grad = None
            loss.backward()
            gradients.append(w.grad.tolist())
            x = x + 0.25 if i % 50 == 49 else x
    assert sum(pending[RECORDED:]) <= 2  # which begin with what makes another x
    recorded, eager, programs = (now - then for now, then in zip(mt._C.whole_calls(), passes, strict=True))
    assert (eager, recorded + programs) == (5, 145)  # neither took any time by this clock
    x = x - 0.25
    x.requires_grad_(False)
    w.grad = None
    (mt.tanh(w * x) * 1.5).sum().backward()
    assert w.grad.tolist() == gradients[-1]


def test_ops_that_are_not_recorded_end_a_run():
    clock = Clock(recorded=2000, eager=1000)
    with program(clock):
        modes = []
        for _ in range(150):
            y = mt.arange(6.0) * 1.5 - 2
            modes.append(clock.sees(y))
            z = mt.nonzero(y > 0)  # needs the values
            assert z.shape == (4, 1)
    assert not any(modes[RECORDED:])


def test_errors_are_those_of_eager_code():
    clock = Clock(recorded=2000, eager=1000)
    with program(clock):
        for i in range(100):
            x = mt.ones(3) * 2
            clock.sees(x)
            if i > RECORDED:
                with pytest.raises(RuntimeError, match="size"):
                    x + mt.ones(4)
                with pytest.raises(ZeroDivisionError):
                    mt.ones(2, dtype=mt.int64) // mt.zeros(2, dtype=mt.int64)
            assert x.sum().item() == 6


def test_out_is_written_by_the_kernel():
    def body(clock):
        out = mt.empty(4)
        modes, values = [], []
        for i in range(100):
            x = mt.ones(4) * (0.25 * i)
            modes.append(clock.sees(x))
            mt.exp(x, out=out)
            mt.add(out, 1, out=out)
            values.append(out[0].item())
        return modes, values

    clock = Clock(recorded=2000, eager=1000)
    with program(clock):
        modes, values = body(clock)
    assert not any(modes[RECORDED:])
    assert values == body(clock)[1]


def test_without_the_flag_nothing_is_measured():
    clock = Clock(2000, 1000)
    with program(clock, measure_clusters=False):
        assert all(steps(clock, 200)[0])


def test_the_account_has_it():
    """Every op is in the account, under one reason."""
    account = run(
        """
        import minitensor as mt

        class Clock:
            now = 0
            def __call__(self):
                return self.now

        clock = Clock()
        mt._C.set_policy_clock(clock)
        x = mt.ones(5)
        for _ in range(100):
            y = mt.tanh(x * 1.5 + 0.5) - 0.25
            clock.now += 2000 if y._is_pending else 1000
            x = x * 0.875 + y * 0.125
            x.sum().item()
        from minitensor_jit import api
        account = api._report.to_json()
        loss = next(entry for entry in account["eager"] if entry["code"] == "recording-loss")
        assert "it took 2.0 us, and eagerly 1.0 us" in loss["reason"], loss["reason"]
        ops = {row["op"]: row["count"] for row in loss["ops"]}
        assert ops["tanh"] == ops["sum"] > 50, ops
        total = {row["op"]: row["count"] for entry in account["eager"] for row in entry["ops"]}
        everything = account["ops"]
        assert everything["total"] == everything["compiled"] + everything["eager"]
        assert everything["total"] == 100 * 8 + 1, everything
        """,
        "--explain",
    ).stderr
    assert "recording was slower than running eagerly" in account


# ---- the account


def run(text, *flags, level=2):
    lines = text.splitlines()
    indent = len(lines[1]) - len(lines[1].lstrip())
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MT_")} | {"PYTHONPATH": ROOT}
    environment["MT_JIT_FLAGS"] = " ".join((f"--auto_jit={level} --cpu_global_jit", *flags))
    command = [sys.executable, "-c", "\n".join(line[indent:] for line in lines)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def executables():
    return mt.jit.cache_info()["executables"]


@pytest.mark.parametrize("level", [1, 2])
def test_a_short_program_compiles_nothing(level):
    printed = run(
        """
        import sys
        import minitensor as mt
        x = mt.tensor([1.5, -0.5])
        for _ in range(100):
            x = x - 0.125 * mt.tanh(x)
            if float(x.abs().max()) < 1e-9:
                break
        print(mt.jit.cache_info()["executables"], "minitensor_jit.compiler.launcher" in sys.modules, x.tolist())
        """,
        level=level,
    ).stdout
    assert printed.startswith("0 False "), printed


def test_without_lazy_compilation_everything_is_compiled():
    printed = run(
        """
        import minitensor as mt
        x = mt.tensor([1.5, -0.5])
        for _ in range(3):
            x = x - 0.125 * mt.tanh(x) * 2.5 + 0.5
            x.tolist()
        print(mt.jit.cache_info()["executables"])
        """,
        "--enable_lazy_compilation=false",
    ).stdout
    assert int(printed) > 0


def long_program(clock, level=2):
    """Inside, a program that has run for long: the share of its time is plenty."""
    program_of = program(clock, auto_jit=level, enable_lazy_compilation=True)

    @contextmanager
    def inside():
        with program_of:
            clock.now += 1000 * SECOND
            yield

    return inside()


def test_level_2_compiles_what_comes_for_the_second_time():
    clock = Clock(recorded=1000, eager=2000)
    with long_program(clock):
        before = executables()
        modes = []
        for n in range(3):
            modes += steps(clock, 1)[0]
            assert (executables() > before) == (n > 0)
        assert modes == [True] * 3
        modes, values = steps(clock, 100)
    assert all(modes[RECORDED:])
    assert values == steps(clock, 100)[1]


def test_level_1_waits_until_the_ops_have_taken_as_long():
    clock = Clock(recorded=1000, eager=10_000)
    with long_program(clock, level=1):
        before = executables()
        modes, values = steps(clock, 20)
        assert modes == [True] * 2 + [False] * 18  # from the making of x, and without it
        assert executables() == before
        clock.eager = SECOND
        more, others = steps(clock, 300)
    assert not more[0]
    assert all(more[-100:])
    assert values == others[:20] == steps(clock, 20)[1]


def test_what_is_never_the_same_is_recorded_more_and_more_rarely():
    clock = Clock(recorded=2000, eager=1000)
    with long_program(clock):
        x = mt.ones(1)
        modes = []
        for _ in range(1, 3000):
            x = mt.cat([x, x[-1:] * 0.5])
            modes.append(clock.sees(x))
            assert x.sum().item() > 0
    assert modes[0]
    assert sum(modes) < 20
    assert sum(modes[1500:]) <= 2


def test_what_two_shapes_take_turns_in_is_not_varying():
    clock = Clock(recorded=1000, eager=2000)
    with long_program(clock):
        shapes = [mt.ones(3), mt.ones(4)]
        modes = []
        for n in range(300):
            y = mt.tanh(shapes[n % 2] * 1.5 + 0.5) - 0.25
            modes.append(clock.sees(y))
            y.sum().item()
    assert all(modes[-100:])


@pytest.mark.parametrize("level", [1, 2])
def test_what_recording_may_lose_is_bounded(level):
    """Every look at the clock takes a millisecond, of which a flush that runs op by op has more than its ops."""
    at_once, share = (20, 0.02) if level == 1 else (70, 0.05)
    clock = Clock(recorded=0, eager=0, tick=10**6)
    lost = 0
    with program(clock, auto_jit=level, enable_lazy_compilation=True):
        for n in range(400):
            y = mt.ones(n + 1) * 1.5  # from a new place each time, so to say: of another shape
            recorded = y._is_pending
            before = clock.now
            y.sum().item()
            if recorded:
                lost += (clock.now - before) / 2e6  # half of it was the ops
            assert lost <= at_once + share * clock.now / 1e6 + 10, n
    assert lost > at_once / 4


def test_a_loop_without_looks_goes_by_the_account():
    """Its parts are compiled, timed against eager ones of as many calls, and dropped where they lose."""
    for faster in ("recorded", "eager"):
        clock = Clock(recorded=1000, eager=2000) if faster == "recorded" else Clock(recorded=2000, eager=1000)
        with long_program(clock):
            x = mt.ones(5)
            modes = []
            for _ in range(3000):
                x = mt.tanh(x * 1.5 + 0.5) - 0.25
                modes.append(clock.sees(x))
            x = x.tolist()
        assert all(modes[-500:]) if faster == "recorded" else sum(modes[-1000:]) < 100
        assert set(modes) == {True, False}
        expected = mt.ones(5)
        for _ in range(3000):
            expected = mt.tanh(expected * 1.5 + 0.5) - 0.25
        assert x == expected.tolist()


def test_dozing_ends():
    """Where nothing is worth recording looks cost nothing; what comes later is noticed all the same."""
    clock = Clock(recorded=200_000, eager=100_000)
    with program(clock):
        assert not any(steps(clock, 2000)[0][RECORDED:])
        clock.recorded = 50_000
        modes = []
        for _ in range(4000):
            y = mt.exp(mt.ones(7) * 0.5) + 1.5
            modes.append(clock.sees(y))
            assert y[0].item() > 2
    assert all(modes[-1000:])


def test_what_a_scope_asks_for_does_not_wait():
    clock = Clock(recorded=1000, eager=1000)
    with program(clock, enable_lazy_compilation=True):
        before = executables()
        with mt.jit_scope():
            y = mt.tanh(mt.ones(3) * 1.3125) + 0.5
        y.numpy()
        assert executables() > before


@pytest.mark.parametrize("before", range(6))
def test_every_part_of_a_loop_ends_whatever_its_nodes_are(before):
    """Reads of views are nodes too, so that the node at which a trace is long may be no call."""
    with program(Clock(recorded=1000, eager=1000, tick=100)):
        u = mt.ones(8, 8)
        for _ in range(before):
            u = u * 0.5
        kept = []
        for _ in range(200):
            inner = u[1:-1, 1:-1]
            u = mt.nn.functional.pad(inner + 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1]), (1, 1, 1, 1))
            kept.append(u)
        assert sum(one._is_pending for one in kept) < 60
