"""The example's model, trained in every way, with one and two threads: the same losses and weights, bit for bit."""

import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
from minitensor import nn
from minitensor.nn import functional as F

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 300


@contextmanager
def threads(count):
    before = mt.get_num_threads()
    mt.set_num_threads(count)
    try:
        yield
    finally:
        mt.set_num_threads(before)


@pytest.fixture(scope="module")
def digits():
    table = np.loadtxt(EXAMPLES / "data" / "digits.csv.gz", delimiter=",", dtype=np.uint8)
    return table[:1500, :-1].astype(np.float32) / 16, table[:1500, -1].astype(np.int64)


def batches(digits, size=100):
    images, labels = digits
    generator = np.random.default_rng(0)
    while True:
        order = generator.permutation(len(images))
        for start in range(0, len(images) - size + 1, size):
            chosen = order[start : start + size]
            yield mt.from_numpy(images[chosen]), mt.from_numpy(labels[chosen])


class Training:
    """The model with its optimizer, and one step of it."""

    def __init__(self, digits, **sgd):
        mt.manual_seed(0)
        self.model = nn.Linear(64, 10)
        self.optimizer = mt.optim.SGD(self.model.parameters(), lr=0.5, **sgd)
        self.data = batches(digits)

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, call, steps=STEPS):
        losses = []
        for _ in range(steps):
            x, y = next(self.data)
            losses.append(call(x, y).item())
        return [loss.hex() for loss in losses], [p.detach().numpy().tobytes() for p in self.model.parameters()]


def eagerly(training):
    return training.run(training.step)


def recorded(level):
    def run(training):
        with mt.jit.options(auto_jit=level, cpu_global_jit=True, enable_lazy_compilation=False):
            mt._C.begin_recording()
            try:
                return training.run(training.step)
            finally:
                mt._C.end_recording("the end of the training")

    return run


def in_a_session(level):
    def run(training):
        config = mt.ConfigProto()
        config.graph_options.optimizer_options.global_jit_level = level
        config.graph_options.optimizer_options.cpu_global_jit = True
        with mt.jit.options(enable_lazy_compilation=False), mt.Session(config=config) as session:
            return training.run(lambda x, y: session.run(training.step, x, y))

    return run


def in_scopes(training):
    def step(x, y):
        with mt.jit_scope():
            return training.step(x, y)

    return training.run(step)


def in_one_scope(training):
    with mt.jit_scope():
        return training.run(training.step)


def scopes_within_scopes(training):
    def step(x, y):
        with mt.jit_scope():
            with mt.jit_scope(compile_ops=False):
                logits = training.model(x)
            loss = F.cross_entropy(logits, y)
            training.optimizer.zero_grad()
            loss.backward()
            training.optimizer.step()
            return loss

    return training.run(step)


def as_a_function(jit_compile):
    def run(training):
        return training.run(mt.function(training.step, jit_compile=jit_compile))

    return run


WAYS = {
    "eager": eagerly,
    "auto-2": recorded(2),
    "auto-1": recorded(1),
    "session-1": in_a_session(mt.OptimizerOptions.ON_1),
    "session-2": in_a_session(mt.OptimizerOptions.ON_2),
    "scope": in_scopes,
    "one scope": in_one_scope,
    "nested scopes": scopes_within_scopes,
    "function": as_a_function(True),
    "function, best effort": as_a_function(None),
    "function, not compiled": as_a_function(False),
}


@pytest.fixture(scope="module")
def expected(digits):
    with threads(1):
        losses, weights = eagerly(Training(digits))
    assert float.fromhex(losses[0]) > 2.0 > 0.5 > float.fromhex(losses[-1])
    return losses, weights


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_same_bits(digits, expected, way, count):
    with threads(count):
        assert WAYS[way](Training(digits)) == expected


@pytest.mark.parametrize("sgd", [{"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "weight_decay": 0.01}], ids=str)
@pytest.mark.parametrize("way", ["auto-2", "scope", "function"])
def test_same_bits_with_momentum(digits, way, sgd):
    few = 40

    def run(way):
        training = Training(digits, **sgd)
        training.run, whole = (lambda call: whole(call, few)), training.run
        return WAYS[way](training)

    assert run(way) == run("eager")


def test_a_changing_learning_rate_compiles_nothing(digits):
    def run(compiled):
        training = Training(digits)
        counts = []

        def step(x, y):
            training.optimizer.param_groups[0]["lr"] *= 0.99
            with mt.jit_scope() if compiled else nullcontext():
                loss = training.step(x, y)
            counts.append(mt.jit.cache_info()["executables"])
            return loss

        return training.run(step, 50), counts

    (eager, _), (compiled, counts) = run(False), run(True)
    assert eager == compiled
    assert counts[2] == counts[-1]


@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16])
def test_a_changing_step_of_adam_by_hand_compiles_nothing(dtype):
    def run(compiled):
        generator = mt.Generator().manual_seed(3)
        p, m, v = (mt.zeros(300, dtype=dtype) for _ in range(3))
        counts = []
        for k in range(1, 30):
            g = mt.randn(300, generator=generator).to(dtype)
            with mt.jit_scope() if compiled else nullcontext():
                m.lerp_(g, 1 - 0.9)
                v.mul_(0.99).addcmul_(g, g, value=0.01 + k * 1e-4)
                p.addcdiv_(m, (v.sqrt() / (1 - 0.99**k) ** 0.5).add_(1e-8), value=-0.1 / (1 - 0.9**k))
            counts.append(mt.jit.cache_info()["executables"])
        return p.tolist(), counts

    (eager, _), (compiled, counts) = run(False), run(True)
    assert eager == compiled
    assert counts[2] == counts[-1]


@pytest.mark.parametrize(
    "flags", ["--auto_jit=2 --cpu_global_jit", "--auto_jit=1 --cpu_global_jit --min_cluster_size=1"]
)
@pytest.mark.parametrize("count", [1, 2])
def test_same_bits_by_the_environment(tmp_path, expected, flags, count):
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_training_bits as t
losses, weights = t.eagerly(t.Training(t.digits.__wrapped__()))
print(*losses, *(w.hex() for w in weights), sep="\\n")
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MT_")}
    environment |= {
        "MT_JIT_FLAGS": flags,
        "MT_NUM_THREADS": str(count),
        "PYTHONPATH": str(Path(mt.__file__).parent.parent),
    }
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split()
    assert lines[:STEPS] == expected[0]
    assert [bytes.fromhex(line) for line in lines[STEPS:]] == expected[1]
