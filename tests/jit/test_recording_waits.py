"""Calls that wait until something recorded has run. What that changes counts: they are recorded afterwards."""

import itertools
import sys
import threading

import pytest
from recording import flushes, recorded

import minitensor as mt
from minitensor import extend

_numbers = itertools.count()


def op_that(acts):
    """An op that gives its operand, and does something when it runs."""

    def kernel(x):
        acts()
        return x

    return extend.op(f"acts_{next(_numbers)}(Tensor input)", elementwise=True)(kernel)


def waits_for_the_cap(acts, call):
    """The trace is as long as it may be."""
    steps = compile("y = y + 1\n" * 8191, "no_loop.py", "exec")
    ones, other = mt.ones(3), mt.ones(3)
    with flushes() as seen, recorded("the end", min_cluster_size=10_000):  # not to compile all that
        kept = op_that(acts)(ones)
        names = {"y": kept}
        exec(steps, names)
        assert not seen
        result = call(other)
    assert [reason for reason, _ in seen] == ["the size cap of a trace", "the end"]
    assert kept.tolist() == [1, 1, 1]
    return result


def waits_for_another_trace(acts, call):
    """An operand is what another thread recorded, and has not computed yet."""
    made, done = threading.Event(), threading.Event()
    box = []

    def work():
        with recorded():
            box.append(op_that(acts)(mt.ones(3)))
            assert box[0]._is_pending
            made.set()
            done.wait(30)

    worker = threading.Thread(target=work)
    worker.start()
    assert made.wait(30)
    try:
        with recorded():
            return call(box[0])
    finally:
        done.set()
        worker.join()


def waits_for_a_thread(acts, call):
    """Another thread computes this thread's trace just now."""
    made, runs, calls = threading.Event(), threading.Event(), threading.Event()
    box, other = [], mt.ones(3)

    def in_the_middle():
        runs.set()
        assert calls.wait(30)  # the caller holds the GIL from there until it waits
        acts()

    def look():
        assert made.wait(30)
        box[0].tolist()

    reader = threading.Thread(target=look)
    reader.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        with recorded():
            box.append(op_that(in_the_middle)(mt.ones(3)))
            made.set()
            assert runs.wait(30)
            calls.set()
            return call(other)
    finally:
        sys.setswitchinterval(interval)
        calls.set()
        reader.join()


@pytest.fixture(params=[waits_for_the_cap, waits_for_another_trace, waits_for_a_thread])
def after(request):
    return request.param


def test_results_have_the_shape_of_what_operands_are_then(after):
    x = mt.arange(3.0)
    z = after(lambda: x.unsqueeze_(1), lambda other: x + other)
    assert z.tolist() == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]


def test_results_have_the_dtype_of_what_operands_are_then(after):
    x = mt.arange(3.0)

    def change():
        x.data = x.double()

    z = after(change, lambda other: other + x)
    assert z.dtype == mt.float64
    assert z.tolist() == [1, 2, 3]


def test_what_is_written_has_the_shape_that_it_has_then(after):
    x = mt.arange(3.0)
    assert after(lambda: x.unsqueeze_(0), lambda other: x.add_(other)) is x
    assert x.tolist() == [[1, 2, 3]]


def test_what_is_too_small_then_is_not_written(after):
    x = mt.arange(3.0)
    with pytest.raises(RuntimeError, match="in-place add: another thread changed the tensor's shape meanwhile"):
        after(lambda: x.resize_(1), lambda other: x.add_(other))
    assert x.tolist() == [0]


def test_what_another_thread_recorded_is_written_after_it():
    z = waits_for_another_trace(lambda: None, lambda other: other.add_(1))
    assert z.tolist() == [2, 2, 2]


def test_results_in_loops_that_run_in_parts_have_the_shape_of_what_operands_are_then():
    c = mt.ones(2)
    changed = []

    def change():
        changed.append(len(shapes))
        c.unsqueeze_(1)

    shapes = []
    with flushes() as seen, recorded("the end"):
        y = op_that(change)(mt.zeros(2))
        for _ in range(200):
            y = y * c
            shapes.append(tuple(y.shape))
            y = y + c
            shapes.append(tuple(y.shape))
    assert {reason for reason, _ in seen} == {"the trace repeats itself", "the end"}
    (at,) = changed
    assert shapes == [(2,)] * at + [(2, 2)] * (400 - at)
    assert y.tolist() == [[200, 200], [200, 200]]
