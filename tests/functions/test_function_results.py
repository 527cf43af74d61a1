"""mt.function: what is returned is made anew by each call, and arguments are told apart by type and bits."""

import collections
import functools
import gc
import types

import numpy as np
import pytest
from function_rows import Rows, value_of

import minitensor as mt
from minitensor import nn

row = Rows()


class Holder:
    def __init__(self, x):
        self.x = x

    def doubled(self):
        return self.x * 2


def with_attribute(tensor, **attributes):
    vars(tensor).update(attributes)
    return tensor


# What a function of a tensor and a list gives, and what is seen of that.
RESULTS = {
    "a function": (lambda x, n: (x * 2, lambda: x + 1), lambda r: r[1]()),
    "only a function": (lambda x, n: lambda: x + 1, lambda r: r()),
    "a function of a number": (lambda x, n: (x * 2, (lambda v: lambda: v)(n[0])), lambda r: r[1]()),
    "a partial": (lambda x, n: (x * 2, functools.partial(mt.add, x)), lambda r: r[1](1)),
    "a method": (lambda x, n: (x * 2, Holder(x).doubled), lambda r: r[1]()),
    "a class": (lambda x, n: (x * 2, type("Made", (), {"v": x})), lambda r: r[1].v),
    "a module": (lambda x, n: (x * 2, with_attribute(nn.Tanh(), kept=x)), lambda r: r[1].kept),
    "an object": (lambda x, n: Holder(x), lambda r: r.x),
    "a namespace": (lambda x, n: types.SimpleNamespace(a=x), lambda r: r.a),
    "an iterator": (lambda x, n: (x * 2, iter([x])), lambda r: next(r[1])),
    "an array": (lambda x, n: (x * 2, np.full(2, n[0])), lambda r: r[1].tolist()),
    "a parameter": (lambda x, n: nn.Parameter(x * 2), lambda r: type(r).__name__),
    "a tensor with an attribute": (lambda x, n: with_attribute(x * 2, note=n[0]), lambda r: r.note),
    "an argument": (lambda x, n: (x, x), lambda r: r[0] is r[1]),
    "numbers": (lambda x, n: {"a": x, "b": n[0], "c": [x * 2, {"d": x}]}, lambda r: (r["b"], r["c"][1]["d"].tolist())),
}


def add_result(fn, see):
    def make():
        numbers = [1.0]
        return lambda x: fn(x, numbers), lambda: numbers.__setitem__(0, numbers[0] + 1), see

    return make


RESULT_ROWS = {name: add_result(*given) for name, given in RESULTS.items()}


@pytest.mark.parametrize("name", RESULT_ROWS)
@pytest.mark.parametrize("jit_compile", [True, None])
def test_what_is_returned_is_of_this_call(name, jit_compile):
    def values(compiled):
        f, change, see = RESULT_ROWS[name]()
        f = compiled(f)
        for k in range(5):
            yield value_of(see(f(mt.arange(3.0) + k)))
            if k % 2 == 0:
                change()

    wanted = list(values(lambda f: f))
    assert list(values(lambda f: mt.function(f, jit_compile=jit_compile))) == wanted


@row
def the_arguments_of_an_exception():
    error = ValueError(1.0)
    return lambda x: x * error.args[0], lambda: setattr(error, "args", (error.args[0] + 1,))


@row
def the_text_of_an_exception():
    error = ValueError("a")
    return lambda x: x * len(str(error)), lambda: setattr(error, "args", (error.args[0] + "b",))


# Python's == calls these the same.
PAIRS = {
    "keys 1 and True": ({1: 2.0}, {True: 2.0}),
    "keys 1 and 1.0": ({1: 2.0}, {1.0: 2.0}),
    "keys of zeros": ({0.0: 2.0}, {-0.0: 2.0}),
    "keys that are tuples": ({(1,): 2.0}, {(True,): 2.0}),
    "real parts": (complex(0.0, 1), complex(-0.0, 1)),
    "imaginary parts": ([complex(1, 0.0)], [complex(1, -0.0)]),
    "slices": (slice(1), slice(True)),
    "ranges": (range(0, 3, 2), range(0, 4, 2)),
    "empty ranges": (range(0), range(5, 5)),
    "1 and True": (1, True),
    "zeros": (0.0, -0.0),
    "orders of keys": ({"a": 1, "b": 1}, {"b": 1, "a": 1}),
}


def text(x, given):
    return x * sum(map(ord, repr(given)))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("nested", [False, True])
def test_arguments_are_told_apart(name, nested):
    pair = [[given] if nested else given for given in PAIRS[name]]
    for first, second in (pair, pair[::-1]):
        f = mt.function(text, jit_compile=True)
        for given in (first, second, first, second):
            assert f(mt.ones(2), given).tolist() == text(mt.ones(2), given).tolist()
        assert (f.programs, f.hits) == (2, 2)


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    row.check(name, jit_compile)


Pair = collections.namedtuple("Pair", "values indices")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.max(1),
        lambda x: x.sort(),
        lambda x: x.topk(2),
        lambda x: x.kthvalue(1),
        lambda x: x.cummin(0),
        lambda x: Pair(x * 2, x + 1),
    ],
    ids=["max", "sort", "topk", "kthvalue", "cummin", "one of its own"],
)
@pytest.mark.at_once(reason="it compiles by itself")
def test_named_results_are_made_by_each_call(call):
    """They are nothing from outside, which the program would keep."""
    x = mt.arange(6.0).view(2, 3)
    f = mt.function(lambda x: call(x).values * 2, jit_compile=True)
    g = mt.function(lambda x: [part + 1 for part in call(x)], jit_compile=True)
    expected = call(x)
    for _ in range(3):
        assert mt.equal(f(x), expected.values * 2)
        assert all(map(mt.equal, g(x), [part + 1 for part in expected]))
    assert (f.hits, g.hits) == (2, 2)
    assert gc.is_tracked(call(x))


@pytest.mark.parametrize("dtype", [mt.int64, mt.int32])
@pytest.mark.parametrize(
    "part",
    [lambda t: t[::2, ::2], lambda t: t[:, 1], lambda t: t.T[:3:2], lambda t: t[0]],
    ids=["steps", "column", "transposed", "row"],
)
def test_indices_of_any_strides_are_compared_with_bounds(dtype, part):
    """Only the elements of the view count, each of them."""
    x = mt.arange(4.0)
    function = mt.function(lambda x, i: x[i] * 2 + 1, jit_compile=True)
    places = mt.full((3, 4), 9, dtype=dtype)
    view = part(places)
    view.copy_(mt.arange(view.numel()).reshape(view.shape) % 8 - 4)
    within = view.tolist()
    for _ in range(2):
        assert function(x, view).tolist() == (x[mt.tensor(within)] * 2 + 1).tolist()
    assert function.hits > 0
    for bad in (4, -5):
        view.fill_(0)
        view[(-1,) * view.ndim] = bad
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0 with size 4"):
            function(x, view)
    view.fill_(-4)
    assert function(x, view).tolist() == mt.ones(view.shape).tolist()
