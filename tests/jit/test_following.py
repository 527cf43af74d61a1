"""Recordings that repeat an earlier one follow it: calls are compared with what came then, and not inferred.

In another process everything is run again with MT_VERIFY_FOLLOWING: then nothing is copied, and a recording that is not
what would have been copied is an error.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
from minitensor import _C

ROOT = Path(__file__).resolve().parents[2]
VERIFIES = "MT_VERIFY_FOLLOWING" in os.environ
F = mt.nn.functional


def seen(value):
    """The bits of what a call gives."""
    if isinstance(value, mt.Tensor):
        grad = None if not value.is_leaf or value.grad is None else seen(value.grad)
        bits = value.detach().resolve_conj().contiguous().view(-1).numpy().tobytes()
        return (value.shape, value.stride(), value.dtype, value.requires_grad, value._version, grad, bits)
    if isinstance(value, (tuple, list)):
        return [seen(one) for one in value]
    return value


def recorded(run, *args):
    """What `run` gives in a scope, and how many of its calls followed an earlier recording."""
    before = _C.followed_calls()
    with mt.jit_scope():
        result = run(*args)
    return result, _C.followed_calls() - before


def chain(x, k):
    y = x
    for _ in range(3):
        y = (y * k + 2.5).sum(0, keepdim=True) + x
    return y


def test_the_third_recording_follows_the_second():
    x, k = mt.randn(8), mt.randn(8)
    expected = seen(chain(x, k))
    counts = []
    for _ in range(5):
        result, count = recorded(chain, x, k)
        counts.append(count)
        assert seen(result) == expected
    # All of its twelve calls but the first.
    assert counts == [0, 0, *[0 if VERIFIES else 11] * 3]


def test_other_tensors_of_the_same_layout_and_other_numbers_are_followed():
    def run(x, k, number):
        return (x * k + number).exp() * k

    counts = []
    for turn in range(5):
        x, k = mt.randn(3, 4), mt.randn(4)
        result, count = recorded(run, x, k, 7.25 + turn)
        counts.append(count)
        assert seen(result) == seen(run(x, k, 7.25 + turn))
    assert counts == [0, 0, *[0 if VERIFIES else 3] * 3]


VARIANTS = {
    "sizes": (lambda x, k: (x + 1.5) * k, [(mt.ones(3), mt.ones(3)), (mt.ones(3), mt.ones(2, 3))]),
    "dtypes": (lambda x, k: (x + 1.5) * k, [(mt.ones(3), mt.ones(3)), (mt.ones(3), mt.ones(3).double())]),
    "strides": (
        lambda x, k: (x + 1.5) * k * x,
        [(mt.randn(3, 3), mt.randn(3, 3)), (mt.randn(3, 3), mt.randn(3, 3).t()), (mt.randn(3, 3).t(), mt.randn(3, 3))],
    ),
    "a tensor twice": (
        lambda x, k: (x + 1.5) * k * x,
        [(t := mt.randn(3), t), (mt.randn(3), mt.randn(3)), (mt.randn(6)[:3], mt.randn(6)[3:])],
    ),
    "parts of one storage": (
        lambda x, k: (x * 3.5) + k,
        [(b := mt.randn(6), b), (b[:3], b[3:]), (b[3:], b[:3]), (b[1:4], b[2:5])],
    ),
    "numbers": (lambda x, n: (x + 1.5) * n + n, [(mt.randn(3), n) for n in (2.0, 5.5, 6.5, 2, 7, True, 1.5j)]),
    "number or tensor": (
        lambda x, n: (x + 1.5) * n,
        [(mt.randn(3), 5.5), (mt.randn(3), mt.tensor(5.5)), (mt.randn(3), mt.tensor(5))],
    ),
    "number or tensor, which later calls have too": (
        lambda x, k, n: ((x + 1.5) * n + k) * 2.5 - 3.5,
        [(mt.randn(3), k := mt.randn(3), 5.5), (mt.randn(3), k, k)],
    ),
    "parameters": (
        lambda x, d: (x + 1.5).sum(d) * 2.5,
        [(mt.randn(3, 3), d) for d in (0, 1, -1, None, (0, 1), [-1, 0], ())],
    ),
    "ops": (lambda x, f: f(x + 1.5) * x, [(mt.randn(3), f) for f in (mt.sin, mt.cos, mt.abs)]),
    "views": (
        lambda x, n: (x * 2.5)[n:].reshape(-1) * 3.5 + 1.25,
        [(mt.randn(4, 3), n) for n in (0, 1, 2, 0)],
    ),
    "views of two": (
        lambda x, n: (y := x * 2.5, y[n:3] + y[:, 1][n:3].unsqueeze(1), y.t() @ y)[1:],
        [(mt.randn(4, 3), n) for n in (0, 1, 1, 2)],
    ),
    "writes": (
        lambda x, n: ((y := x * 2.5)[n:].mul_(3.5), y.add_(1.25), y * x)[1:],
        [(mt.randn(4, 3), n) for n in (0, 1, 2, 0)],
    ),
    "constants": (lambda x, n: mt.full((3,), n) * x + mt.zeros(3), [(mt.randn(3), n) for n in (2.0, 5.5, 6.5, 3)]),
    "products": (
        lambda x, w: F.relu(x @ w.t() + 1.5).softmax(-1),
        [(mt.randn(4, 3), mt.randn(5, 3)), (mt.randn(4, 3), mt.randn(3, 5).t()), (mt.randn(2, 3), mt.randn(5, 3))],
    ),
    "several results": (
        lambda x, d: [*(x * 2.5).max(d), (x + 1.5).sort(d)[1]],
        [(mt.randn(4, 3), d) for d in (0, 1, -1)],
    ),
    "history": (
        lambda x, g: (x.detach().requires_grad_(g) * 2.5 + 1.5).sin(),
        [(mt.randn(3), g) for g in (False, True, False)],
    ),
    "loops": (lambda x, n: [x := x * 1.25 + 2.5 for _ in range(n)][-1], [(mt.randn(3), n) for n in (4, 7, 2, 9, 3)]),
    "long loops": (
        lambda x, n: [x := (x * 1.25 + 2.5).sin() for _ in range(n)][-1],
        [(mt.randn(3), n) for n in (90, 120)],
    ),
}


@pytest.mark.parametrize("kind", VARIANTS)
def test_where_a_recording_departs_it_goes_on_as_ever(kind):
    run, variants = VARIANTS[kind]
    expected = [seen(run(*args)) for args in variants]
    last = len(variants) - 1
    order = [
        0,
        0,
        0,
        *range(len(variants)),
        *[k for k in range(len(variants)) for _ in range(3)],
        0,
        last,
        0,
        last,
        last,
    ]
    for k in order:
        result, _ = recorded(run, *variants[k])
        assert seen(result) == expected[k], (kind, k)


def test_settings_are_compared():
    def run(x):
        return (x * 2.5 + mt.arange(3)) * 1.5 + mt.tensor(2)

    x = mt.arange(3)
    for dtype in (mt.float32, mt.float32, mt.float32, mt.float64, mt.float64, mt.float64, mt.float32):
        mt.set_default_dtype(dtype)
        try:
            result, _ = recorded(run, x)
            assert seen(result) == seen(run(x))
        finally:
            mt.set_default_dtype(mt.float32)


def test_inference_mode_and_gradients_are_those_of_the_call():
    w = mt.randn(3, requires_grad=True)

    def run():
        return (w * 2.5 + 1.5).sin() * w

    for mode in (mt.enable_grad, mt.enable_grad, mt.enable_grad, mt.no_grad, mt.inference_mode, mt.enable_grad):
        with mode():
            result, _ = recorded(run)
            expected = run()
        assert (result.requires_grad, result.is_inference()) == (expected.requires_grad, expected.is_inference())
        assert result.numpy(force=True).tobytes() == expected.numpy(force=True).tobytes()
        if expected.requires_grad:
            assert seen(mt.autograd.grad(result.sum(), w)) == seen(mt.autograd.grad(expected.sum(), w))


def test_training_steps():
    def train():
        mt.manual_seed(3)
        model = mt.nn.Sequential(mt.nn.Linear(5, 8), mt.nn.ReLU(), mt.nn.Dropout(0.25), mt.nn.Linear(8, 3))
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.05)
        x, y = mt.randn(7, 5), mt.randint(0, 3, (7,))
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, seen(list(model.parameters()))

    expected, before = train(), _C.followed_calls()
    with mt.jit_scope():
        assert train() == expected
    assert VERIFIES or _C.followed_calls() > before + 20


def test_memory_that_others_see():
    def run(x):
        return (x * 2.5 + 1.5) * x

    array = np.arange(6.0)
    for turn in range(6):
        array[:] = np.arange(6.0) + turn
        x = mt.from_numpy(array) if turn % 2 else mt.arange(6).double()
        result, _ = recorded(run, x)
        assert seen(result) == seen(run(x))


def test_memory_that_changes_between_the_calls():
    x, k = mt.randn(4), mt.randn(4)

    def run(writes):
        y = x * 2.5
        if writes:
            x.add_(1.5)
        return (y + x) * k

    start = x.clone()
    for writes in (False, False, False, True, True, True, False):
        x.copy_(start)
        expected = seen(run(writes))
        x.copy_(start)
        assert seen(recorded(run, writes)[0]) == expected


@pytest.mark.parametrize("bad", [lambda y: y @ mt.ones(7), lambda y: y.sum(5), lambda y: y + mt.ones(2, 5)])
def test_errors_are_raised_where_they_are_made(bad):
    x = mt.randn(3)

    def run(fails):
        y = x * 2.5
        z = y + 1.5
        if fails:
            with pytest.raises((RuntimeError, IndexError)) as caught:
                bad(z)
            words.append(str(caught.value))
        return z * y

    words = []
    expected = seen(run(False))
    for fails in (False, False, False, True, True, False, True):
        assert seen(recorded(run, fails)[0]) == expected
    assert len(set(words)) == 1


def test_code_that_runs_meanwhile():
    """Collections of garbage, in which others record and read, begin at any call."""
    x = mt.randn(5)
    found = []

    class Dies:
        def __init__(self):
            self.me = self

        def __del__(self):
            found.append((x * 4.5 + 1.25).tolist())

    def run():
        y = x
        for _ in range(6):
            Dies()
            y = y * 2.5 + 1.5
        return y

    expected = seen(run())
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(8):
            assert seen(recorded(run)[0]) == expected
    finally:
        gc.set_threshold(*threshold)
    assert found
    assert {tuple(one) for one in found} == {tuple((x * 4.5 + 1.25).tolist())}


def test_lines_are_those_of_the_call():
    x = mt.randn(3)
    lines = []

    def run(large):
        y = x * 2.5
        y = y.long()
        return mt.tensor([0, 1, 2])[y + 100 if large else y * 0]

    for large in (False, False, False, True):
        try:
            recorded(run, large)
        except IndexError as error:
            lines.append(str(error))
    assert len(lines) == 1


@pytest.mark.skipif(VERIFIES, reason="it is being done")
def test_what_is_copied_is_what_would_be_recorded():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MT_VERIFY_FOLLOWING": "1"},
    )
    assert done.returncode == 0, done.stdout[-3000:]
