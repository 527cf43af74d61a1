"""mt.function: what is known of arguments and results beside their tensors, where values of the user's classes are."""

import collections
import decimal
import enum
import warnings
import weakref

import numpy as np
import pytest

import minitensor as mt


class Whole(int):
    pass


class Text(str):
    __slots__ = ("size",)


class Letter(str):
    __slots__ = ()

    def __eq__(self, other):
        return self.lower() == other.lower()

    def __hash__(self):
        return hash(self.lower())


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Doubled(collections.namedtuple("Doubled", "a b")):
    __slots__ = ()

    def __new__(cls, a, b):
        return super().__new__(cls, a * 2, b)


class Key:
    def __init__(self, name, size):
        self.name, self.size = name, size

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def with_size(value, size):
    value.size = size
    return value


def first(things):
    return next(iter(things))


PAIRS = {
    "a number's attribute, in a tuple": (
        lambda x, t: x * t[0].size,
        (with_size(Whole(3), 1),),
        (with_size(Whole(3), 2),),
    ),
    "a text's attribute": (
        lambda x, t: x * t["a"].size,
        {"a": with_size(Text("b"), 1)},
        {"a": with_size(Text("b"), 2)},
    ),
    "a text with its own equality": (lambda x, t: x * ord(t[0][0]), [Letter("A")], [Letter("a")]),
    "a named tuple's attribute": (lambda x, t: x * t.size, with_size(Pair(1, 2), 1), with_size(Pair(1, 2), 2)),
    "a named tuple that gets an attribute": (
        lambda x, t: x * getattr(t, "size", 7),
        Pair(1, 2),
        with_size(Pair(1, 2), 2),
    ),
    "the sign of NumPy's complex zero": (
        lambda x, t: x * (2 if np.signbit(t.real) else 3),
        np.complex128(0.0),
        np.complex128(-0.0),
    ),
    "bounds of a slice": (
        lambda x, t: x * t.start.size,
        slice(with_size(Whole(3), 1), None),
        slice(with_size(Whole(3), 2), None),
    ),
    "a member of an enumeration with its own equality": (lambda x, t: x * t.value, Color.RED, Color.BLUE),
    "a key with its own equality": (lambda x, t: x * first(t).size, {Key("a", 1): 0}, {Key("a", 2): 0}),
    "a decimal as a key": (
        lambda x, t: x * len(str(first(t))),
        {decimal.Decimal("1.0"): 0},
        {decimal.Decimal("1.00"): 0},
    ),
}


@pytest.mark.parametrize("what", PAIRS)
def test_arguments_that_are_equal_and_not_the_same(what):
    fn, one, other = PAIRS[what]
    x = mt.tensor([1.0, 2.0])
    compiled = mt.function(fn, jit_compile=True)
    for argument in (one, other, one, other):
        assert compiled(x, argument).tolist() == fn(x, argument).tolist()


def test_named_tuples_have_programs():
    compiled = mt.function(lambda x, t: Pair(x * t.a, t.b), jit_compile=True)
    for _ in range(3):
        result = compiled(mt.ones(2), Pair(3.0, 2))
        assert type(result) is Pair
        assert result.a.tolist() == [3, 3]
        assert result.b == 2
    assert compiled.hits == 2


def test_results_of_the_users_classes_are_as_the_function_made_them():
    marked = mt.function(lambda x: with_size(Pair(x, 1), 5), jit_compile=True)
    doubled = mt.function(lambda x: Doubled(x, 1), jit_compile=True)
    keyed = mt.function(lambda x: {(Key("a", 1), 1): x}, jit_compile=True)
    x = mt.ones(2)
    made = []
    for _ in range(3):
        assert marked(x).size == 5
        assert doubled(x).a.tolist() == [2, 2]
        made.append(first(keyed(x))[0])
    assert len(set(map(id, made))) == 3


def test_what_numpy_does_at_errors_is_part_of_a_program():
    zeros = np.zeros(2)

    def divide(x):
        try:
            return x * float(np.isinf(1 / zeros).sum())
        except (FloatingPointError, RuntimeWarning):
            return x * 7

    compiled = mt.function(divide, jit_compile=True)
    for errors, filters, by in [
        ("ignore", "error", 2),
        ("raise", "ignore", 7),
        ("warn", "error", 7),
        ("warn", "ignore", 2),
    ]:
        with np.errstate(all=errors), warnings.catch_warnings():
            warnings.simplefilter(filters)
            assert compiled(mt.ones(2)).tolist() == [by, by]


class Proxy:
    """Stands for something that isn't there: asked for anything, it fails, as those of web frameworks do."""

    def __getattribute__(self, name):
        raise RuntimeError(f"asked for {name}")


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])
@pytest.mark.parametrize("put", [lambda p: p, lambda p: [p], lambda p: {"a": p}, lambda p: (1, p)])
def test_arguments_are_not_asked_for_anything(put, options):
    def plain(x, other):
        return x * 2, put(proxy)

    proxy = Proxy()
    f = mt.function(plain, **options)
    for k in range(3):
        result, same = f(mt.full((2,), float(k)), put(proxy))
        assert result.tolist() == [2.0 * k] * 2
        assert same is proxy or len(same) == len(put(proxy))
        assert f(mt.ones(2), other=put(weakref_proxy_of_nothing()))[0].tolist() == [2.0, 2.0]


def weakref_proxy_of_nothing():
    return weakref.proxy(type("Gone", (), {})())
