"""Errors that depend on values: found inside compiled code, they are those of eager code, with the user's line."""

import inspect

import numpy as np
import pytest

import minitensor as mt


def raised(f):
    with pytest.raises((RuntimeError, IndexError, ZeroDivisionError)) as caught:
        f()
    return caught.value


X = mt.tensor(np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))

# Each gets indices that the recorded program computes.
CASES = {
    "gather": lambda i: mt.gather(X, 1, i.reshape(1, 3)),
    "index_select": lambda i: mt.index_select(X, 0, i),
    "indexing": lambda i: X[i],
    "indexing with several": lambda i: X[i, i],
    "scatter_add": lambda i: mt.zeros(3, 9).scatter_add(1, i.reshape(1, 3), mt.ones(1, 3)),
    "index_add": lambda i: mt.zeros(4, 2).index_add(0, i, mt.ones(3, 2)),
    "floor_divide": lambda i: i // (i - 2),
    "remainder": lambda i: i % (i - 2),
}


def recorded(op, start):
    with mt.jit_scope():
        i = mt.arange(start, start + 3) * 1
        result = op(i) + 1
    return result.numpy()


@pytest.mark.parametrize("name", CASES)
def test_what_is_within_bounds_is_compiled(name):
    op = CASES[name]
    start = 5 if name in ("floor_divide", "remainder") else 0
    eager = op(mt.arange(start, start + 3)) + 1
    results = []
    report = mt.jit.explain(lambda: results.append(recorded(op, start)))()
    assert results[0].tobytes() == eager.numpy().tobytes()
    assert report.to_json()["ops"]["compiled"] >= 2, report.text()


@pytest.mark.parametrize("name", CASES)
def test_errors_are_those_of_eager_code(name):
    op = CASES[name]
    start = 1 if name in ("floor_divide", "remainder") else 7
    eager = raised(lambda: op(mt.arange(start, start + 3)))
    for _ in range(2):  # compiled anew, and from the cache
        error = raised(lambda: recorded(op, start))
        assert (type(error), str(error)) == (type(eager), str(eager))
        line = inspect.getsourcelines(op)[1]
        assert any(f"{__file__}:{line}" in note for note in error.__notes__)


def test_what_is_written_before_the_error():
    x = mt.tensor([1.0, 2.0, 3.0])

    def step(w, i):
        w.add_(1.0)
        found = mt.index_select(x, 0, i * 2) * w
        w.mul_(found[0])
        return found

    f = mt.function(step, jit_compile=True)
    w = mt.ones(2)
    assert f(w, mt.tensor([0, 1])).tolist() == [2, 6]
    assert f(w, mt.tensor([0, 1])).tolist() == [5, 15]
    assert w.tolist() == [25, 25]
    raised(lambda: f(w, mt.tensor([0, 2])))
    assert w.tolist() == [26, 26]


def test_a_compiled_function_raises_and_runs_on():
    x = mt.tensor([1.0, 2.0, 3.0])
    f = mt.function(lambda i: x[i * 2] + 1.0, jit_compile=True)
    for _ in range(3):
        assert f(mt.tensor([0, 1])).tolist() == [2, 4]
        assert isinstance(raised(lambda: f(mt.tensor([0, 2])).tolist()), IndexError)


def test_integers_divided_by_a_number():
    with mt.jit_scope():
        y = (mt.arange(6) + 1) // 4 + (mt.arange(6) - 3) % -2
    assert y.tolist() == [(n + 1) // 4 + (n - 3) % -2 for n in range(6)]


DEAD = {
    "an index": (lambda: mt.ones(3)[mt.tensor([5])], IndexError),
    "an index into nothing": (lambda: mt.ones(2, 0, 3)[[4, 3, 1]], IndexError),
    "an index of a number": (lambda: mt.tensor(2.0).index_select(0, mt.tensor([3])), IndexError),
    "a row of an empty table": (lambda: mt.nn.functional.embedding(mt.tensor([7]), mt.ones(3, 0)), IndexError),
    "a computed index": (lambda: mt.ones(4, 0).gather(0, mt.arange(6).reshape(1, 6)[:, :0] + 9), None),
    "a computed index out of range": (lambda: mt.ones(4, 2).gather(0, mt.arange(6).reshape(3, 2) + 3), RuntimeError),
    "a division": (lambda: mt.tensor([1, 2]) // mt.tensor([0, 1]), ZeroDivisionError),
    "a division of floats": (lambda: mt.tensor([1.0, 2]) // mt.tensor([0.0, 1]), None),
    "a remainder by a kernel": (lambda: mt.fmod(mt.tensor([1, 2]), mt.tensor([0, 1])), ZeroDivisionError),
    "too few elements": (lambda: mt.ones(4).masked_scatter(mt.ones(4) > 0, mt.ones(3)), RuntimeError),
    "no probability": (lambda: mt.nn.functional.binary_cross_entropy(mt.ones(3) * 2, mt.ones(3)), RuntimeError),
    "a target": (lambda: mt.nn.functional.nll_loss(mt.ones(2, 3), mt.tensor([1, 5])), IndexError),
}


@pytest.mark.parametrize("others", [False, True], ids=["alone", "among others"])
@pytest.mark.parametrize("compiled", [False, True], ids=["scope", "function"])
@pytest.mark.parametrize("name", DEAD)
def test_an_error_is_raised_though_nobody_reads_the_result(name, compiled, others):
    call, error = DEAD[name]

    def body():
        call()
        if others:
            x = mt.ones(5)
            return ((x + 1) * 2 - x).tanh()
        return None

    def in_scope():
        with mt.jit_scope():
            return body()

    program = mt.function(body, jit_compile=True) if compiled else in_scope
    for _ in range(3):
        if error is None:
            program()
        else:
            with pytest.raises(error):
                program()
            with pytest.raises(error):
                call()
