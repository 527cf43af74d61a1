"""Shapes, indices, padding and creation: one expression a line in tests/expressions, recorded against eager, and both
against PyTorch where it is installed: values, dtypes, shapes, and which errors are raised."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
from minitensor.composite.padding import pad

FILES = Path(__file__).parents[1] / "expressions"
# Where we differ from PyTorch on purpose: its undefined writes are errors here, its refusal of overlapping copies is
# not needed, it has no gradients of larger sources and a wrong one of as_strided_scatter, and some errors of its have
# another class for other ranks.
OURS = {
    "out=t.zeros(1).expand(3); out.fill_(1)",
    "out=t.zeros(1).expand(3); out.zero_()",
    "out=v.unfold(0,2,1); out.add_(1)",
    "out=v.clone(); out[1:].copy_(out[:-1])",
    "x.index_select(1,L(5))",
    "x.index_select(1,L(-1))",
    "t.index_add(z,0,L(0),t.ones(1))",
    "out=y; y[0]=np.float32(2.5)",
    "r.scatter(1,t.tensor([[0,1],[1,2]]),q)",
    "r.scatter_add(1,t.tensor([[0,0],[1,2]]),q)",
    "t.as_strided_scatter(r,q[:2,:2],(2,2),(1,3))",
    "t.vander(r[0])",
}


def lines(name):
    return [line for line in (FILES / f"{name}.txt").read_text().splitlines() if line.strip()]


def names(t):
    r = (t.arange(12.0, dtype=t.float64).reshape(3, 4) * 0.7 + 1).requires_grad_()
    return {
        "t": t,
        "np": np,
        "L": lambda *a: t.tensor(a),
        "pad": pad if t is mt else t.nn.functional.pad,
        "x": t.arange(24.0).reshape(2, 3, 4),
        "y": t.arange(12).reshape(3, 4),
        "v": t.arange(5.0),
        "m": t.arange(12.0).reshape(3, 4),
        "z": t.tensor(3.5),
        "e": t.zeros(0),
        "e2": t.zeros(0, 3),
        "i": t.tensor([0, 2]),
        "b": t.tensor([True, False, True]),
        "r": r,
        "q": (t.arange(12.0, dtype=t.float64).reshape(3, 4) * 0.3 - 1).requires_grad_(),
    }


def value(t, result):
    if isinstance(result, t.Size):
        return tuple(result)
    if isinstance(result, (tuple, list)):
        return [value(t, part) for part in result]
    if isinstance(result, t.Tensor):
        array = result.detach()
        array = array.to(t.float64) if array.dtype is t.bfloat16 else array
        return str(result.dtype).rpartition(".")[2], array.numpy().copy()
    return result


def outcome(t, name, line):
    """What the line gives, or the class of its error."""
    space = names(t)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name == "assignments":
                exec(line, space)
                return value(t, space["out"])
            result = eval(line, space)
            if name != "gradients":
                return value(t, result)
            parts = result if isinstance(result, (tuple, list)) else [result]
            total = sum((p * p * t.arange(1.0, p.numel() + 1, dtype=t.float64).reshape(p.shape)).sum() for p in parts)
            total.backward()
            return [value(t, g) for g in (space["r"].grad, space["q"].grad) if g is not None]
    except Exception as error:
        return type(error).__name__


def same(a, b, exact):
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(same(x, y, exact) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) and len(a) == 2 and isinstance(a[1], np.ndarray):
        if not isinstance(b, tuple) or a[0] != b[0] or a[1].shape != b[1].shape:
            return False
        if exact:
            return a[1].tobytes() == b[1].tobytes()
        return np.allclose(a[1], b[1], rtol=3e-6, atol=1e-6, equal_nan=True)
    return type(a) is type(b) and (a == b or callable(a))


UNSTABLE = ("empty", "data_ptr", "resize_")  # memory that nobody wrote


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["shape", "index", "create", "pad", "assignments", "gradients"])
def test_recorded_is_eager(name):
    different = []
    for line in lines(name):
        if any(word in line for word in UNSTABLE):
            continue
        eager = outcome(mt, name, line)
        with mt.jit_scope():
            recorded = outcome(mt, name, line)
        if not same(eager, recorded, True):
            different.append((line, eager, recorded))
    assert different == []


@pytest.mark.parametrize("name", ["shape", "index", "create", "pad", "assignments", "gradients"])
def test_as_pytorch(name):
    torch = pytest.importorskip("torch")
    different = []
    for line in lines(name):
        if line in OURS or any(word in line for word in UNSTABLE):
            continue
        theirs, ours = outcome(torch, name, line), outcome(mt, name, line)
        if not same(theirs, ours, False):
            different.append((line, theirs, ours))
    assert different == []


def test_writes_reach_the_memory_that_views_share():
    base = mt.arange(12.0)
    view = base.view(3, 4)
    view[mt.tensor([0, 2]), 1] = 100.0
    assert base.tolist() == [0, 100, 2, 3, 4, 5, 6, 7, 8, 100, 10, 11]
    view.t()[mt.tensor([3])] = -1.0
    assert view[:, 3].tolist() == [-1, -1, -1]
    view.transpose_(0, 1)
    view[0] = 7.0
    assert base[::4].tolist() == [7, 7, 7]


def test_sums_into_one_place_come_in_the_order_of_the_index():
    rng = np.random.default_rng(0)
    x, values = np.zeros(1000, np.float32), rng.normal(size=200_000).astype(np.float32)
    places = rng.integers(0, 1000, values.size)
    want = x.copy()
    np.add.at(want, places, values)
    threads, results = mt.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            mt.set_num_threads(count)
            target = mt.from_numpy(x.copy())
            target.index_put_((mt.from_numpy(places),), mt.from_numpy(values), accumulate=True)
            results.append(target.numpy().tobytes())
            last = mt.from_numpy(x.copy())
            last[mt.from_numpy(places)] = mt.from_numpy(values)
            final = x.copy()
            final[places] = values  # NumPy's last value stays, too
            np.testing.assert_array_equal(last.numpy(), final)
    finally:
        mt.set_num_threads(threads)
    assert results == [want.tobytes()] * 3
