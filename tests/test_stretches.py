"""Programs that are recorded as a whole and look at values all the time: what runs eagerly is decided by the clock.

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
    """Time passes between two looks at it: `recorded` nanoseconds where what runs is recorded, else `eager`."""

    def __init__(self, recorded, eager):
        self.recorded, self.eager = recorded, eager
        self.now = 0
        self.pending = False

    def __call__(self):
        self.now += self.recorded if self.pending else self.eager
        self.pending = False
        return self.now

    def sees(self, x):
        self.pending = x._is_pending
        return self.pending


@contextmanager
def program(clock, **options):
    """A whole program inside, which goes by that clock; compiled from the first time on, unless options say else."""
    options = {"auto_jit": 2, "cpu_global_jit": True} | options
    mt.jit.cache_clear()
    with mt.jit.options(**options):
        mt._C.begin_program()
        mt._C.set_stretch_clock(clock)
        try:
            yield
        finally:
            mt._C.end_recording("the end of the program")
            mt._C.set_stretch_clock(None)


def steps(clock, count, state=None):
    """Whether each of so many steps was recorded, and the values; a step is one stretch."""
    x = mt.ones(5) if state is None else state
    modes, values = [], []
    for _ in range(count):
        y = mt.tanh(x * 1.5 + 0.5) - 0.25
        modes.append(clock.sees(y))
        x = x * 0.875 + y * 0.125
        values.append(x.sum().item())
    return modes, values


RECORDED = 64  # more than a stretch is recorded until it has been measured


@pytest.mark.parametrize("faster", ["recorded", "eager"])
def test_a_stretch_that_loses_runs_eagerly(faster):
    clock = Clock(recorded=2000, eager=1000) if faster == "eager" else Clock(recorded=1000, eager=2000)
    with program(clock):
        modes, values = steps(clock, 200)
    assert modes[0]
    assert all(modes[RECORDED:]) if faster == "recorded" else not any(modes[RECORDED:])
    assert 5 <= modes.count(False) <= 12 or faster == "eager"
    assert values == steps(clock, 200)[1]


def test_the_whole_stretch_counts():
    """Not what the cluster alone takes, which its own trial finds to win."""
    clock = Clock(recorded=2000, eager=1999)
    with program(clock):
        assert not any(steps(clock, 100)[0][RECORDED:])


def test_it_is_measured_again():
    clock = Clock(recorded=2000, eager=1000)
    x = mt.rand(5)
    with program(clock):
        modes, values = steps(clock, 1500, x)
        clock.recorded = 500  # than which nothing has changed in the program
        more, others = steps(clock, 1500, x)
    assert not any(modes[RECORDED:])
    # From another place, though: both calls are of the same line.
    first = more.index(True)
    assert 300 < first < 700
    assert all(more[-200:])
    assert values == others == steps(clock, 1500, x)[1]


def test_it_is_measured_again_when_shapes_change():
    clock = Clock(recorded=2000, eager=1000)
    five, seven = mt.rand(5), mt.rand(7)
    with program(clock):
        assert not any(steps(clock, 100, five)[0][RECORDED:])
        clock.recorded = 500
        modes, _ = steps(clock, 100, seven)
        assert modes[0]
        assert all(modes[RECORDED:])
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


def test_a_stretch_that_gets_long_is_recorded_again():
    clock = Clock(recorded=2000, eager=1000)
    seen = []
    with program(clock):
        for i in range(120):
            y = mt.ones(4) * 1.5
            first = clock.sees(y)
            if i == 110:
                for _ in range(120):
                    y = y * 1.5 - 0.25
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
            y = x * 1.5  # of a stretch that may run eagerly
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


def test_backward_of_what_ran_eagerly_is_recorded():
    """Forward and backward are two stretches, of which one loses."""
    clock = Clock(recorded=2000, eager=1000)
    w = mt.rand(5).requires_grad_()
    x = mt.rand(5)
    gradients, pending = [], []
    with program(clock):
        for i in range(150):
            loss = (mt.tanh(w * x) * 1.5).sum()
            clock.recorded, clock.eager = 2000, 1000
            clock.sees(loss)
            loss.item()
            clock.recorded, clock.eager = 1000, 2000
            w.grad = None
            loss.backward()
            clock.sees(w.grad)
            pending.append(w.grad._is_pending)
            gradients.append(w.grad.tolist())
            x = x + 0.25 if i % 50 == 49 else x
    assert all(pending[-20:])
    x = x - 0.25
    x.requires_grad_(False)
    w.grad = None
    (mt.tanh(w * x) * 1.5).sum().backward()
    assert w.grad.tolist() == gradients[-1]


def test_ops_that_are_not_recorded_end_a_stretch():
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
    with program(lambda: pytest.fail("the clock was asked"), measure_clusters=False):
        clock = Clock(1, 1)
        assert all(steps(clock, 50)[0])


def test_the_account_has_it():
    """Every op is in the account, under one reason."""
    account = run(
        """
        import minitensor as mt

        class Clock:
            now = 0
            pending = False
            def __call__(self):
                self.now += 2000 if self.pending else 1000
                self.pending = False
                return self.now

        clock = Clock()
        mt._C.set_stretch_clock(clock)
        x = mt.ones(5)
        for _ in range(100):
            y = mt.tanh(x * 1.5 + 0.5) - 0.25
            clock.pending = y._is_pending
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


# ---- compiling when it pays


def run(text, *flags, level=2):
    lines = text.splitlines()
    indent = len(lines[1]) - len(lines[1].lstrip())
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MT_")} | {"PYTHONPATH": ROOT}
    environment["MT_JIT_FLAGS"] = " ".join((f"--auto_jit={level} --cpu_global_jit", *flags))
    command = [sys.executable, "-c", "\n".join(line[indent:] for line in lines)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def test_small_stretches_wait():
    clock = Clock(recorded=1000, eager=1000)
    before = mt.jit.cache_info()["misses"]
    with program(clock, compile_when_it_pays=True):
        modes, values = steps(clock, 50)
        executables = mt.jit.cache_info()["executables"]
        assert modes[:2] in ([True, False], [True, True])
        assert not any(modes[2:])
        clock.eager = 100 * SECOND  # enough to compile
        more, others = steps(clock, 50)
        assert any(more[1:])
        assert mt.jit.cache_info()["executables"] >= executables
    assert mt.jit.cache_info()["misses"] > before
    again = steps(clock, 50)[1]
    assert values == others == again


def test_much_work_does_not_wait():
    clock = Clock(recorded=1000, eager=1000)
    with program(clock, compile_when_it_pays=True):
        x = mt.ones(20_000_000)
        for _ in range(6):
            x = x * 1.0000001 + 1e-9
            x = x * 0.9999999 - 1e-9
        assert x._is_pending
        before = mt.jit.cache_info()["executables"]
        x[0].item()
        assert mt.jit.cache_info()["executables"] > before


def test_what_a_scope_asks_for_does_not_wait():
    clock = Clock(recorded=1000, eager=1000)
    with program(clock, compile_when_it_pays=True):
        before = mt.jit.cache_info()["executables"]
        with mt.jit_scope():
            y = mt.tanh(mt.ones(3) * 1.3125) + 0.5
        y.numpy()
        assert mt.jit.cache_info()["executables"] > before


def test_a_short_program_compiles_nothing_where_that_has_to_pay():
    program = """
        import minitensor as mt
        x = mt.tensor([1.5, -0.5])
        for _ in range(100):
            x = x - 0.125 * mt.tanh(x)
            if float(x.abs().max()) < 1e-9:
                break
        print(mt.jit.cache_info()["executables"], x.tolist())
        """
    printed = [run(program, "--compile_when_it_pays"), run(program, level=1), run(program)]
    (none, values), (neither, same), (some, equal) = (done.stdout.split(maxsplit=1) for done in printed)
    assert none == neither == "0" < some
    assert values == same == equal
