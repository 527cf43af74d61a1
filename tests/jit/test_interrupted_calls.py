"""What a signal's handler raises at any moment of a recorded call leaves nothing of that call behind."""

import gc
import os
import signal
import subprocess
import sys

import pytest
from interrupts import InterruptionError, Interrupts
from recording import recorded

import minitensor as mt
from minitensor import extend
from minitensor_jit import api
from minitensor_jit.state import observer

C = mt._C


class State:
    """Tensors that a step writes in place, one after the other."""

    def __init__(self):
        self.a, self.b, self.c = mt.arange(6.0), mt.ones(6), mt.full((6,), 2.0)

    def bits(self):
        return [t.tolist() for t in (self.a, self.b, self.c)]

    def steps(self, x):
        yield self.a.add_(x)
        yield self.b[1:].mul_(self.a[:-1])
        yield self.c.sub_(self.b.exp().sum())
        yield self.a.copy_(self.c.tanh() * x)

    def step(self, x):
        for _ in self.steps(x):
            pass
        return self.a * 2


def prefixes(x):
    """The state after each write of a step."""
    state = State()
    return [state.bits(), *(state.bits() for _ in state.steps(x))]


def whole(fn):
    return mt.function(fn, jit_compile=True)


def whole_structured(fn):
    compiled = mt.function(lambda given, scale: fn(given["x"]) * scale, jit_compile=True)
    return lambda x: compiled({"x": x}, scale=1.0)


def in_session(fn):
    config = mt.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = mt.OptimizerOptions.ON_2
    config.graph_options.optimizer_options.cpu_global_jit = True
    session = mt.Session(config=config)
    return lambda x: session.run(fn, x)


def in_options(fn):
    def run(x):
        with mt.jit.options(auto_jit=2) as options, mt.jit_scope():
            assert options.auto_jit == 2
            return fn(x)

    return run


def explained(fn):
    return lambda x: mt.jit.explain(fn)(x).result


def explained_whole(fn):
    compiled = whole(fn)
    return lambda x: mt.jit.explain(compiled)(x).result


def nested(fn):
    inner = whole(fn)
    return whole(lambda x: inner(x) + 1)


WAYS = [
    whole,
    whole_structured,
    mt.function,
    mt.jit_scope(),
    in_session,
    in_options,
    explained,
    explained_whole,
    nested,
]
NAMES = ["whole", "structured", "function", "scope", "session", "options", "explain", "explain whole", "nested"]


def check_nothing_is_left(where):
    assert gc.isenabled(), where
    assert sys.gettrace() is None, where
    assert not C.is_recording(), where
    assert api._report is None, where
    assert not mt.jit.current_options().auto_jit, where
    assert float((mt.ones(2) * 3).sum()) == 6, where


@pytest.mark.sampled(3)
@pytest.mark.at_once(reason="it records by itself")
@pytest.mark.parametrize("warm", [0, 2], ids=["first", "later"])
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_an_interruption_anywhere(way, warm):
    x = mt.full((6,), 0.25)
    expected = prefixes(x)
    way(State().step)(x)  # what is imported and compiled is so by now
    at = 0
    while True:
        state = State()
        call = way(state.step)
        for _ in range(warm):
            call(x)
        for t, t0 in zip((state.a, state.b, state.c), (State().a, State().b, State().c), strict=True):
            t.copy_(t0)
        state.bits()
        interrupts = Interrupts(at)
        try:
            with interrupts:
                call(x)
        except InterruptionError:
            pass
        where = f"at {at}"
        check_nothing_is_left(where)
        assert state.bits() in expected, where
        if not interrupts.came:
            assert state.bits() == expected[-1]
            break
        # The process goes on.
        fresh = State()
        again = way(fresh.step)
        again(x)
        assert fresh.bits() == expected[-1], where
        at += 1 if at < 50 else 11


@pytest.mark.at_once(reason="it records by itself")
def test_what_is_raised_while_a_function_is_observed_reaches_the_program():
    """A signal that comes while a read is noted is handled when the program goes on."""
    came = []

    def handler(*_):
        came.append(1)
        raise InterruptionError

    previous = signal.signal(signal.SIGUSR1, handler)

    noted = observer.Observer._loads_attribute
    try:

        def told(self, *args):
            signal.raise_signal(signal.SIGUSR1)
            assert not came, "a handler ran while a function was observed"
            return noted(self, *args)

        observer.Observer._loads_attribute = told
        f = mt.function(lambda x: x.exp() * 2, jit_compile=True)
        with pytest.raises(InterruptionError):
            f(mt.ones(3))
        assert came
        observer.Observer._loads_attribute = noted
        came.clear()
        assert f(mt.zeros(3)).tolist() == [2, 2, 2]
        assert f(mt.zeros(3)).tolist() == [2, 2, 2]
        assert f.hits == 1
    finally:
        observer.Observer._loads_attribute = noted
        signal.signal(signal.SIGUSR1, previous)
    check_nothing_is_left("")


@pytest.mark.at_once(reason="it records by itself")
@pytest.mark.parametrize(
    ("place", "options"),
    [("launch", {}), ("compiler", {}), ("kernel", {"min_cluster_size": 100})],
    ids=str,
)
def test_handlers_of_the_program_wait_for_what_is_being_computed(place, options):
    """They may read it: that of SIGTERM saves the parameters. Only Python's own for Ctrl-C comes in the middle."""
    w, x, seen = mt.zeros(5), mt.arange(5.0), []
    C.clear_plan_cache()
    mt.jit.cache_clear()
    previous = signal.signal(signal.SIGINT, lambda *_: seen.append(w.tolist()))
    try:
        with recorded(**options):
            w.add_(x * 2)
            C._arm_fault(place, 0, True)
            w.mul_(x + 1)
        assert C._fault_passages() > 0
    finally:
        C._arm_fault("", -1)
        signal.signal(signal.SIGINT, previous)
    assert seen == [[2 * n * (n + 1) for n in range(5)]]


@pytest.mark.at_once(reason="it records by itself")
@pytest.mark.parametrize("at", [1, 2])
def test_ctrl_c_waits_while_what_an_error_left_is_computed(at):
    """What doesn't depend on the op that failed can't be asked for again: even Python's own handler waits."""

    def kernel(x):
        raise ValueError("on purpose")

    fails = extend.op(f"fails_alone_{at}(Tensor input)", elementwise=True)(kernel)
    x, w, left = mt.arange(3.0), mt.zeros(3), []

    def work():
        with recorded(min_cluster_size=100):
            left.append(fails(x))
            left.append(x * 2)
            w.add_(left[1])
            C._arm_fault("kernel", at, True)
            with pytest.raises(ValueError, match="on purpose"):
                w.tolist()
            left.append("the interruption comes before the program goes on")

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert C._fault_passages() == 3
    finally:
        C._arm_fault("", -1)
        signal.signal(signal.SIGINT, previous)
    failed, y = left
    assert y.tolist() == w.tolist() == [0, 2, 4]
    with pytest.raises(RuntimeError, match="on purpose"):
        failed.tolist()


@pytest.mark.at_once(reason="it records by itself")
def test_what_is_written_in_place_is_written_whole():
    """Ctrl-C in the middle of an op waits for its end, where what is half written could not be computed again."""
    x, expected = mt.full((1 << 18,), 0.5), mt.full((1 << 18,), 0.5).digamma()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)

    def work(written, child):
        with recorded(min_cluster_size=1000):
            for w in written:
                w.digamma_()
            try:
                child.stdin.write(b"now\n")
                child.stdin.flush()
                written[-1][0].item()
            finally:
                while child.poll() is None:  # the signal has come when it has ended
                    pass

    # The child is there before the signal can come: an exception in the middle of its beginning would lose it.
    command = ["/bin/sh", "-c", f"read when; kill -INT {os.getpid()}"]
    try:
        for _ in range(4):
            written = [x.clone() for _ in range(40)]
            with subprocess.Popen(command, stdin=subprocess.PIPE) as child, pytest.raises(KeyboardInterrupt):
                work(written, child)
            assert all(mt.equal(w, expected) for w in written)
    finally:
        signal.signal(signal.SIGINT, previous)
