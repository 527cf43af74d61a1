"""Turning the compiler on: options, the environment, functions as programs, what is counted."""

import threading

import numpy as np
import pytest
from processes import run
from recording import recorded

import minitensor as mt

# ---- the environment


def test_everything_is_recorded():
    program = "import minitensor as mt\nx = mt.ones(3) * 2 + 1\nprint(x._is_pending, x.tolist(), x._is_pending)"
    assert run(program, "--auto_jit=2 --cpu_global_jit").stdout == "True [3.0, 3.0, 3.0] False\n"
    assert run(program, "--auto_jit=0").stdout == "False [3.0, 3.0, 3.0] False\n"
    assert run(program).stdout == "False [3.0, 3.0, 3.0] False\n"


def test_eager_programs_load_no_compiler():
    look = "print('llvmlite' in sys.modules, 'minitensor_jit' in sys.modules)"
    program = f"import sys, minitensor as mt\n(mt.ones(3) + 1).sum().item()\n{look}"
    assert run(program).stdout == "False False\n"


def test_errors_at_the_end_of_the_program_are_seen():
    program = "import minitensor as mt\nx = mt.ones(2, dtype=mt.int64) // mt.zeros(2, dtype=mt.int64)"
    done = run(program, "--auto_jit=2 --cpu_global_jit")
    assert "ZeroDivisionError" in done.stderr
    assert "recorded as 'floor_divide' at <string>:2" in done.stderr


def test_wrong_flags_end_the_program():
    done = run("import minitensor", "--auto_jitt=2", status=1)
    assert "unknown flag --auto_jitt" in done.stderr
    assert "did you mean --auto_jit" in done.stderr


def test_threads_of_the_program_are_eager():
    program = """
import threading
import minitensor as mt
seen = []
thread = threading.Thread(target=lambda: seen.append((mt.ones(2) + 1)._is_pending))
thread.start()
thread.join()
print(seen, (mt.ones(2) + 1)._is_pending)
"""
    assert run(program, "--auto_jit=2 --cpu_global_jit").stdout == "[False] True\n"


# ---- options


def test_options_nest_and_end():
    with mt.jit.options(auto_jit=2, cpu_global_jit=True) as outer:
        assert outer.auto_jit == 2
        with mt.jit.options(min_cluster_size=7) as inner:
            assert (inner.auto_jit, inner.min_cluster_size) == (2, 7)
        with pytest.raises(KeyError), mt.jit.options(auto_jit=0):
            raise KeyError
        with mt.jit.options() as again:
            assert again == outer
    with mt.jit.options() as default:
        assert default.auto_jit == 0


def test_options_are_checked():
    with (
        pytest.raises(mt.jit.FlagError, match="there is no option 'auto_jti'; did you mean auto_jit"),
        mt.jit.options(auto_jti=2),
    ):
        pass
    with pytest.raises(mt.jit.FlagError, match="auto_jit=5: expected one of 0, 1, 2"), mt.jit.options(auto_jit=5):
        pass


def test_options_belong_to_a_thread():
    seen = []

    def work():
        with mt.jit.options() as mine:
            seen.append(mine.auto_jit)

    with mt.jit.options(auto_jit=2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [0]


def test_options_are_part_of_plans():
    x = mt.ones(8)

    def program():
        return (((x + 1) * 2).exp() + x).sum()

    misses = []
    for size in (1, 100, 1, 100):
        with recorded(min_cluster_size=size):
            y = program()
        assert y.item() == program().item()
        misses.append(mt.jit.cache_info()["misses"])
    assert misses[0] + 1 == misses[1] == misses[2] == misses[3]


def test_caches_are_cleared():
    def program(x):
        with recorded():
            return x * 3 + 1

    program(mt.ones(5))
    info = mt.jit.cache_info()
    assert info["size"] > 0
    assert info["executables"] > 0
    mt.jit.cache_clear()
    assert mt.jit.cache_info()["size"] == mt.jit.cache_info()["executables"] == 0
    assert program(mt.ones(5)).tolist() == [4] * 5


def test_hits_are_counted():
    x = mt.ones(6)
    before = mt.jit.cache_info()
    for _ in range(5):
        with recorded():
            y = (x * 7.5 - 2).sum()
    after = mt.jit.cache_info()
    assert y.item() == 33
    assert after["hits"] - before["hits"] >= 4


# ---- functions as programs


def check(fn, make, calls=3):
    """The compiled function does what the Python function does, when it is recorded and when it is replayed."""
    compiled = mt.function(fn, jit_compile=True)
    for turn in range(calls):
        ours, theirs = make(turn), make(turn)
        expected, got = fn(*ours), compiled(*theirs)
        expected = expected if isinstance(expected, (tuple, list)) else [expected]
        got = got if isinstance(got, (tuple, list)) else [got]
        for a, b in zip([*expected, *ours], [*got, *theirs], strict=True):
            if isinstance(a, mt.Tensor):
                assert a.numpy().tobytes() == b.numpy().tobytes(), turn
                assert a.stride() == b.stride()
    return compiled


def numbers(*shape, seed=0):
    return mt.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def test_a_view_into_a_larger_storage():
    def fn(x):
        x[1:3].mul_(2)
        return x + 1

    whole = check(fn, lambda turn: [numbers(4, seed=turn)])
    inside = check(fn, lambda turn: [numbers(10, seed=turn)[turn : turn + 4]])
    # The same shape and strides, of memory of another size: the program of one must not run on the other.
    for compiled in (whole, inside):
        for x in (numbers(4), numbers(10)[:4], numbers(10)[3:7], numbers(7)[3:]):
            expected = x.clone()
            assert compiled(x).tolist() == fn(expected).tolist()
            assert x.tolist() == expected.tolist()


def test_a_constant_that_is_written():
    def fn(x):
        total = mt.tensor([0.0])
        total.add_(x.sum())
        return total * 2

    check(fn, lambda turn: [numbers(5, seed=turn)], calls=4)


def test_numbers_are_told_apart_by_their_bits():
    compiled = mt.function(lambda x, k: x * k, jit_compile=True)
    x = mt.ones(2)
    for k in (0.0, -0.0, float("nan"), 1, True, 1.0, -0.0, float("nan")):
        assert compiled(x, k).numpy().tobytes() == (x * k).numpy().tobytes(), k
        assert compiled(x, k).dtype == (x * k).dtype
    assert compiled.programs == 6


def test_an_argument_that_is_captured_too():
    weight = mt.ones(3)

    def fn(x):
        x.add_(weight)
        return x * weight

    compiled = check(fn, lambda turn: [numbers(3, seed=turn)])
    expected = fn(weight.clone())
    before = weight.clone()
    weight.copy_(before)
    assert compiled(weight).tolist() != expected.tolist() or weight.tolist() == [2] * 3


def test_gradient_modes_are_told_apart():
    w = mt.ones(3, requires_grad=True)
    compiled = mt.function(lambda x: x * w, jit_compile=True)
    x = numbers(3)
    for _ in range(2):
        assert compiled(x).requires_grad
        with mt.no_grad():
            assert not compiled(x).requires_grad
        with mt.inference_mode():
            assert compiled(x).is_inference()


def test_the_default_dtype_is_told_apart():
    compiled = mt.function(lambda x: x / 3.7, jit_compile=True)
    x = mt.arange(100)
    for _ in range(2):
        for dtype in (mt.float32, mt.float64):
            mt.set_default_dtype(dtype)
            try:
                y, expected = compiled(x), x / 3.7
            finally:
                mt.set_default_dtype(mt.float32)
            assert y.dtype is expected.dtype is dtype
            assert y.numpy().tobytes() == expected.numpy().tobytes()


def test_views_among_the_results():
    def fn(x):
        y = x * 2
        return y, y[1:], y.t(), y.t()[0]

    check(fn, lambda turn: [numbers(3, 4, seed=turn)])
    y, part, *_ = mt.function(fn, jit_compile=True)(numbers(3, 4))
    part.zero_()
    assert y[1:].tolist() == [[0] * 4] * 2


def test_pending_arguments():
    compiled = mt.function(lambda x: x * 2 + 1, jit_compile=True)
    compiled(mt.ones(3))
    with recorded():
        x = mt.ones(3) + 1
        y = compiled(x)
        assert y._is_pending
    assert y.tolist() == [5] * 3


def test_a_function_called_by_many_threads():
    compiled = mt.function(lambda x: (x * 2).exp().sum(), jit_compile=True)
    inputs = [numbers(1000, seed=n) for n in range(4)]
    expected = [(x * 2).exp().sum().item() for x in inputs]
    wrong = []

    def work(n):
        for _ in range(30):
            if compiled(inputs[n]).item() != expected[n]:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
