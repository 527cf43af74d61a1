"""An operator's result takes over the memory of an operand that dies with it, and only then."""

import functools
import gc
import itertools
import operator
import sys
import weakref

import numpy as np
import pytest
from sanitizers import SANITIZED

import minitensor as mt

N = 1 << 19  # 2 MB of float32: above the size from which memory is taken over
TAKEN_OVER = sys.platform == "linux" and not SANITIZED


@pytest.fixture
def x():
    return mt.arange(N, dtype=mt.float32) % 97.0


@pytest.fixture
def y():
    return mt.arange(N, dtype=mt.float32) % 31.0


def peak_of(make):
    """The bytes that `make` needed at once beyond what it found, in units of one tensor of N float32."""
    gc.collect()
    mt.reset_peak_memory_stats()
    before = mt.allocator_stats()["allocated_bytes"]
    kept = make()
    peak = mt.allocator_stats()["peak_allocated_bytes"] - before
    assert kept is not None
    return peak / (4 * N)


@pytest.mark.at_once(reason="it counts what is allocated at a call")
@pytest.mark.skipif(not TAKEN_OVER, reason="the interpreter's stack is only looked at on Linux, if calls are inlined")
def test_chain_needs_one_result(x, y):
    assert peak_of(lambda: 2.5 * x + y - 1.0) == 1.0
    assert peak_of(lambda: y - 2.5 * x) == 1.0
    assert peak_of(lambda: -(x + y)) == 1.0
    assert peak_of(lambda: (x - y) ** 2) == 1.0
    # Two temporaries at once; the sum is written into one of them.
    assert peak_of(lambda: x * 2.0 + y * 3.0) == 2.0


def test_values(x, y):
    a, b = x.numpy().copy(), y.numpy().copy()
    np.testing.assert_array_equal((2.5 * x + y - 1.0).numpy(), np.float32(2.5) * a + b - np.float32(1))
    np.testing.assert_array_equal((y - 2.5 * x).numpy(), b - np.float32(2.5) * a)
    np.testing.assert_array_equal((x * 2.0 + y * 3.0).numpy(), a * np.float32(2) + b * np.float32(3))
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(y.numpy(), b)


def test_named_operands_stay(x, y):
    product = 2.5 * x
    expected = product.numpy().copy()
    result = product + y
    assert result.data_ptr() != product.data_ptr()
    np.testing.assert_array_equal(product.numpy(), expected)
    held = [2.5 * x]
    held[0] + y
    np.testing.assert_array_equal(held[0].numpy(), expected)
    (walrus := 2.5 * x) + y
    np.testing.assert_array_equal(walrus.numpy(), expected)


def test_views_stay(x, y):
    def view_of_a_temporary():
        return (2.5 * x).view(2, -1)

    whole = (2.5 * x)[:]
    kept = whole[:10]
    expected = kept.numpy().copy()
    whole = None  # only `kept` refers to the memory now
    assert (kept + 1.0).data_ptr() != kept.data_ptr()
    np.testing.assert_array_equal(kept.numpy(), expected)
    # A view's handle dies, the tensor it looks into does not.
    base = 2.5 * x
    expected = base.numpy().copy()
    base.view(2, -1) + 1.0
    np.testing.assert_array_equal(base.numpy(), expected)
    np.testing.assert_array_equal((view_of_a_temporary() + 1.0).numpy().ravel(), expected + np.float32(1))


def test_references_of_c_code_stay(x, y):
    """C code may hold the only reference and read the tensor afterwards."""
    left, right = np.empty(2, object), np.empty(2, object)
    for i in range(2):
        left[i], right[i] = 2.5 * x, y * 2.0
    expected = (2.5 * x).numpy()
    total = left + right
    for i in range(2):
        np.testing.assert_array_equal(left[i].numpy(), expected)
        np.testing.assert_array_equal(total[i].numpy(), (2.5 * x + 2.0 * y).numpy())
    np.testing.assert_array_equal((left * 2.0)[0].numpy(), expected * 2)
    np.testing.assert_array_equal(left[0].numpy(), expected)


def test_pythons_own_loops(x, y):
    expected = (x + y + x).numpy()
    for result in (
        sum([x, y, x]),
        functools.reduce(operator.add, [x * 1.0, y * 1.0, x * 1.0]),
        list(itertools.accumulate([x * 1.0, y * 1.0, x * 1.0]))[-1],
        operator.add(x + y, x),
    ):
        np.testing.assert_array_equal(result.numpy(), expected)
    first, second, third = itertools.accumulate([x * 1.0, y * 1.0, x * 1.0])
    np.testing.assert_array_equal(first.numpy(), x.numpy())
    np.testing.assert_array_equal(second.numpy(), (x + y).numpy())
    np.testing.assert_array_equal(third.numpy(), expected)


def test_what_a_call_is_given_stays(x, y):
    """The call's tuple, or the function itself, has the only reference."""
    once, twice = (2.5 * x + y).numpy(), (2.5 * x).numpy()
    operands = (2.5 * x, y)
    partial = functools.partial(operator.add, 2.5 * x)
    method = (2.5 * x).__add__
    negated = (2.5 * x).__neg__
    pairs = [(2.5 * x, y)]
    results = [
        operator.add(*operands),
        mt.Tensor.__add__(*operands),
        partial(y),
        method(y),
        *itertools.starmap(operator.add, pairs),
        *map(operator.add, operands[:1], [y]),
        -negated(),
        -operator.neg(*operands[:1]),
    ]
    for result in results[:6]:
        np.testing.assert_array_equal(result.numpy(), once)
    for result in (*results[6:], operands[0], partial.args[0], method.__self__, negated.__self__, pairs[0][0]):
        np.testing.assert_array_equal(result.numpy(), twice)


def test_tape_keeps_its_operands(x, y):
    w = (y * 0.01).requires_grad_()
    loss = ((2.5 * x) * w - 1.0).sum()
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), (2.5 * x).numpy())
    w.grad = None
    ((w * 2.0) * (w * 3.0)).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 12 * w.detach().numpy(), rtol=1e-6)


def test_other_types_and_shapes_get_new_memory(x):
    np.testing.assert_array_equal(((x * 2.0) > 3.0).numpy(), (x.numpy() * 2) > 3)
    np.testing.assert_array_equal(((x * 2.0) + mt.ones(2, 1)).numpy(), np.stack([x.numpy() * 2 + 1] * 2))
    np.testing.assert_array_equal(((x * 2.0) + mt.ones(1, dtype=mt.float64)).numpy(), x.numpy() * 2 + 1)
    halves = (x.to(mt.float16) * 2.0) + 1.0
    np.testing.assert_array_equal(halves.numpy(), x.numpy().astype(np.float16) * np.float16(2) + np.float16(1))
    integers = (x.to(mt.int64) * 2) // 3
    np.testing.assert_array_equal(integers.numpy(), x.numpy().astype(np.int64) * 2 // 3)


def test_lent_memory_stays(x, y):
    array = np.full(N, 3.0, np.float32)
    mt.from_numpy(array) + y
    assert (array == 3.0).all()
    lent = (2.5 * x).numpy()  # the array keeps the memory, and nothing else does
    expected = lent.copy()
    mt.from_numpy(lent) + y
    np.testing.assert_array_equal(lent, expected)


def test_weak_references(x, y):
    died = []

    def watched():
        tensor = 2.5 * x
        weakref.finalize(tensor, died.append, 1)
        return tensor

    np.testing.assert_array_equal((watched() + y).numpy(), (2.5 * x + y).numpy())
    gc.collect()
    assert died == [1]


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_failed_operator_leaves_the_rest(x):
    numbers = x.to(mt.int64)
    with pytest.raises(RuntimeError, match="division or modulo by zero"):
        (numbers + 1) // mt.zeros(N, dtype=mt.int64)
    np.testing.assert_array_equal(numbers.numpy(), x.numpy().astype(np.int64))
