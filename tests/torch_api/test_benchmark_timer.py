"""Timer, Measurement and Compare, with a clock of the tests' own."""

import pickle

import pytest

import minitensor as mt
from minitensor.utils.benchmark import Compare, Measurement, TaskSpec, Timer, ordered_unique, select_unit, trim_sigfig


class Clock:
    """Each look at it is a second later."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def measured(description, name, times, threads=1, number=10):
    spec = TaskSpec("x + y", "", label="add", sub_label=name, description=description, num_threads=threads)
    return Measurement(number, times, spec)


def test_a_timer_runs_the_statement_with_its_threads():
    seen = []
    before = mt.get_num_threads()
    timer = Timer(
        "seen.append((minitensor.get_num_threads(), k))",
        "k = 5",
        globals={"seen": seen},
        timer=Clock(),
        num_threads=3,
        label="calls",
    )
    found = timer.timeit(400)
    assert set(seen) == {(3, 5)}
    assert len(seen) == 4 + 400
    assert mt.get_num_threads() == before
    assert (found.number_per_run, found.raw_times, found.median) == (400, [1.0], 1 / 400)
    assert (found.label, found.num_threads, found.title) == ("calls", 3, "calls")
    called = []
    found = timer.blocked_autorange(lambda number, time: called.append((number, time)), min_run_time=4.0)
    assert (found.number_per_run, found.raw_times) == (1, [1.0] * 4)
    assert called == [(1, 1.0)] * 4
    assert len(timer.adaptive_autorange(min_run_time=2.0).raw_times) == 4
    assert Timer("pass").timeit(10).median > 0


def test_what_a_timer_refuses():
    with pytest.raises(ValueError, match="only a `str` stmt"):
        Timer(print)
    with pytest.raises(NotImplementedError, match="not in cpp"):
        Timer("1", language="cpp")
    with pytest.raises(ValueError, match=r"global_setup is C\+\+ only"):
        Timer("1", global_setup="x")
    with pytest.raises(NotImplementedError, match="callgrind"):
        Timer("1").collect_callgrind()
    with pytest.raises(ZeroDivisionError):
        Timer("1 / 0").timeit(1)


def test_measurements():
    one = measured("a", "small", [1.0e-5, 1.2e-5, 1.1e-5, 1.3e-5])
    assert one.times == pytest.approx([1.0e-6, 1.2e-6, 1.1e-6, 1.3e-6])
    assert (one.median, one.mean, one.iqr) == pytest.approx((1.15e-6, 1.15e-6, 1.5e-7))
    assert one.has_warnings
    assert not one.meets_confidence()
    assert one.meets_confidence(0.2)
    lines = repr(one).splitlines()[1:]
    assert lines[:5] == [
        "add: small",
        "a",
        "  Median: 1.15 us",
        "  IQR:    0.15 us (1.08 to 1.22)",
        "  4 measurements, 10 runs per measurement, 1 thread",
    ]
    assert "13.0% of the median" in lines[5]
    (both,) = Measurement.merge([one, one])
    assert (both.number_per_run, len(both.raw_times)) == (1, 8)
    assert pickle.loads(pickle.dumps(one)).median == one.median
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = one.other
    steady = measured("a", "steady", [1e-3] * 5)
    assert (steady.significant_figures, one.significant_figures) == (5, 1)


def test_tables():
    ones = [
        measured("a", "s1", [1.0e-5, 1.2e-5, 1.1e-5, 1.3e-5]),
        measured("b", "s1", [2e-3, 2.5e-3, 2.1e-3, 2.2e-3]),
        measured("a", "s2", [3e-5] * 4, 2),
        measured("b", "s2", [5e-5] * 4),
    ]
    compare = Compare(ones)
    assert [line.rstrip() for line in str(compare).splitlines()] == [
        "[--------- add ----------]",
        "          |   a   |    b",
        "1 threads: ---------------",
        "      s1  |  1.2  |  215.0",
        "      s2  |       |    5.0",
        "2 threads: ---------------",
        "      s2  |  3.0  |",
        "",
        "Times are in microseconds (us).",
    ]
    compare.highlight_warnings()
    assert "1.2 (! 13%)" in str(compare)
    compare.colorize(rowwise=True)
    assert str(compare).count("\033[92m") == 1
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        compare.extend_results([3])


def test_tables_against_torch():
    pytest.importorskip("torch")
    from torch.utils import benchmark

    def tables(lib):
        def one(description, name, times, threads=1):
            spec = lib.TaskSpec("x", "", label="add", sub_label=name, description=description, num_threads=threads)
            return lib.Measurement(10, times, spec)

        return str(lib.Compare([one("first", "s", [2e-3] * 4), one("b", "s", [5e-4] * 4, 2), one("b", "long", [1e-3])]))

    assert tables(mt.utils.benchmark) == tables(benchmark)


def test_numbers():
    assert select_unit(1e-5) == ("us", 1e-6)
    assert trim_sigfig(1234.5678, 3) == 1230.0
    assert ordered_unique([1, 2, 1]) == [1, 2]
