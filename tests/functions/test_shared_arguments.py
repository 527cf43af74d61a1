"""Arguments that share memory: two windows of one series, a matrix and its transpose, an array and its base."""

from __future__ import annotations

import numpy as np
import pytest

import minitensor as mt


def base() -> mt.Tensor:
    return mt.arange(40.0)


PAIRS = {
    "windows": lambda s, k: (s[k : k + 9], s[k + 1 : k + 10]),
    "apart": lambda s, k: (s[k : k + 9], s[20 + k : 29 + k]),
    "later first": lambda s, k: (s[k + 1 : k + 10], s[k : k + 9]),
    "alias": lambda s, k: (s[k : k + 9], s[k : k + 9]),
    "twice": lambda s, k: (s[k : k + 9],) * 2,
    "part": lambda s, k: (s[k : k + 9], s[k + 2 : k + 3]),
    "whole": lambda s, k: (s[k : k + 9], s.view(40)[:1]),
    "turned": lambda s, k: (s[k : k + 9].view(3, 3), s[k : k + 9].view(3, 3).T),
    "every other": lambda s, k: (s[k : k + 9], s[k : k + 18 : 2]),
    "copies": lambda s, k: (s[k : k + 9].clone(), s[k + 1 : k + 10].clone()),
}
PROGRAMS = {
    "sum": lambda x, y: x * 2 + y,
    "views": lambda x, y: (x[1:], y[:1], y.view(-1) if y.is_contiguous() else y),
    "themselves": lambda x, y: (y, x, x + 1),
    "one of them": lambda x, y: y + 1,
    "written first": lambda x, y: (x.mul_(2), x + y, y * 1),
    "written second": lambda x, y: (y.add_(1), x + y),
    "written copy": lambda x, y: x.clone().mul_(y),
}


def outcome(f, x, y, s):
    """Results with their places in memory, whose views they are, and the memory afterwards."""
    result = f(x, y)
    results = result if isinstance(result, tuple) else (result,)
    start = s.data_ptr()

    def place(t):
        inside = 0 <= t.data_ptr() - start < 4 * 40
        return (t.data_ptr() - start if inside else None, t.stride(), t._base is s)

    return [(t.tolist(), place(t), [t is a for a in (x, y)]) for t in results], s.tolist()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("pair", PAIRS)
def test_replays_are_eager_calls(program, pair):
    f = mt.function(PROGRAMS[program], jit_compile=True)
    for k in (0, 0, 0, 3, 3, 7, 0):
        ours, theirs = base(), base()
        assert outcome(f, *PAIRS[pair](ours, k), ours) == outcome(PROGRAMS[program], *PAIRS[pair](theirs, k), theirs)


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_function_is_called_with_all_kinds(program):
    f = mt.function(PROGRAMS[program], jit_compile=True)
    for _ in range(3):
        for pair, make in PAIRS.items():
            if pair == "turned":
                continue
            for k in (0, 2):
                ours, theirs = base(), base()
                got, wanted = outcome(f, *make(ours, k), ours), outcome(PROGRAMS[program], *make(theirs, k), theirs)
                assert got == wanted, (pair, k)


def test_windows_are_replayed_wherever_they_lie():
    f = mt.function(lambda x, y: (x - y).abs().sum(), jit_compile=True)
    s = base()
    assert [f(s[k : k + 9], s[k + 1 : k + 10]).item() for k in range(20)] == [9.0] * 20
    assert (f.programs, f.hits) == (1, 19)
    assert f(s[:9], s[2:11]).item() == 18.0
    assert f(s[:9], s[5:14].clone()).item() == 45.0
    assert (f.programs, f.hits) == (3, 19)


def test_gradients_of_what_shares_memory():
    def step(x, y):
        return (x * y).sum()

    f = mt.function(step, jit_compile=True)
    for _ in range(3):
        grads = []
        for g in (f, step):
            s = base().requires_grad_()
            g(s[:9], s[1:10]).backward()
            grads.append(s.grad.tolist())
        assert grads[0] == grads[1]


@pytest.mark.parametrize("first", [True, False])
def test_an_argument_may_be_an_array_that_a_captured_tensor_shares(first):
    """What is written is seen in the other, though the two have memory of their own as far as tensors know."""

    def program(captured):
        def f(x):
            before = captured.flip(0) * 3
            x.add_(1)
            return (before, captured.flip(0) * 2, x * 1)

        return f

    seen = []
    for compiled in (False, True):
        shared = np.arange(64.0)
        f = program(mt.from_numpy(shared))
        f = mt.function(f) if compiled else f
        calls = [mt.from_numpy(np.zeros(64)), *[mt.from_numpy(np.ones(64)) for _ in range(3)]]
        calls = [mt.from_numpy(shared), *calls] if first else [*calls, mt.from_numpy(shared), mt.ones(64).double()]
        seen.append(([[t.tolist() for t in f(x)] for x in calls], shared.tolist()))
    assert seen[0] == seen[1]
