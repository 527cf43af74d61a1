"""mt.function: arrays, the environment, iterators, files and the interpreter's settings, changed between two calls."""

import copy
import functools
import itertools
import math
import os
import random
import sys
import types
import warnings

import numpy as np
import pytest
from changes import Changes, Thing

import minitensor as mt

row = Changes(globals())


@row
def a_numpy_scalar():
    t = Thing()
    t.value = np.float32(1.0)
    return lambda x: x * t.value, lambda: setattr(t, "value", np.float32(5.0))


@row
def an_item_of_an_array():
    data = np.array([1.0, 2.0], np.float32)
    return lambda x: x * float(data[0]), lambda: data.__setitem__(0, 5.0)


@row
def a_sum_of_an_array():
    data = np.array([1.0, 2.0], np.float32)
    return lambda x: x * float(data.sum()), lambda: data.__setitem__(0, 5.0)


@row
def an_array_as_a_tensor():
    data = np.array([1.0, 2.0, 3.0], np.float32)
    return lambda x: x + mt.from_numpy(data), lambda: data.__setitem__(0, 5.0)


@row
def a_copy_of_an_array():
    data = np.array([1.0, 2.0, 3.0], np.float32)
    return lambda x: x + mt.tensor(data), lambda: data.__setitem__(0, 5.0)


@row
def an_array_by_a_function():
    data = np.array([1.0, 2.0], np.float32)
    return lambda x: x * float(np.maximum(data, 0.5).max()), lambda: data.__setitem__(0, 5.0)


ARRAY_CHANGES = {
    "shape": (lambda x, a: x * a.shape[0], lambda a: setattr(a, "shape", (2, 2))),
    "ndim": (lambda x, a: x * a.ndim, lambda a: setattr(a, "shape", (2, 2))),
    "strides": (lambda x, a: x * a.strides[0], lambda a: setattr(a, "shape", (2, 2))),
    "the rows of T": (lambda x, a: x * a.T.shape[0], lambda a: setattr(a, "shape", (4, 1))),
    "size": (lambda x, a: x * a.size, lambda a: setattr(a, "dtype", np.int32)),
    "itemsize": (lambda x, a: x * a.itemsize, lambda a: setattr(a, "dtype", np.int32)),
    "nbytes": (lambda x, a: x * a.T.nbytes, lambda a: setattr(a, "dtype", np.complex128)),
    "dtype": (lambda x, a: x * (a.dtype == np.float64), lambda a: setattr(a, "dtype", np.int64)),
    "a flag": (lambda x, a: x * a.flags.writeable, lambda a: a.setflags(write=False)),
    "a flag's item": (lambda x, a: x * a.flags["WRITEABLE"], lambda a: a.setflags(write=False)),
    "data": (lambda x, a: x * float(a.data[1]), lambda a: a.__setitem__(1, 5.0)),
    "ctypes": (lambda x, a: x * a.ctypes.shape[0], lambda a: setattr(a, "shape", (2, 2))),
    "the interface": (lambda x, a: x * a.__array_interface__["shape"][0], lambda a: setattr(a, "shape", (2, 2))),
}


def with_array(of):
    def make():
        data = np.arange(4.0)
        read, change = ARRAY_CHANGES[of]
        return lambda x: read(x, data), lambda: change(data)

    return make


for of in ARRAY_CHANGES:
    row["an array: " + of] = with_array(of)


@row
def numpys_random_numbers():
    return lambda x: x * np.random.rand(), lambda: None


@row
def a_generator_of_numpys():
    def make():
        return np.random.default_rng(7)

    rng = make()
    return lambda x: x * float(rng.random()), lambda: None


@row
def the_environment():
    os.environ["MT_TEST_VALUE"] = "1"
    return lambda x: x * float(os.environ["MT_TEST_VALUE"]), lambda: os.environ.update(MT_TEST_VALUE="5")


@row
def the_environment_by_getenv():
    os.environ.pop("MT_TEST_VALUE", None)
    return lambda x: x * float(os.getenv("MT_TEST_VALUE", "1")), lambda: os.environ.update(MT_TEST_VALUE="5")


@row
def pythons_random_numbers():
    random.seed(3)
    return lambda x: x * random.random(), lambda: None


@row
def pythons_random_choice():
    random.seed(3)
    return lambda x: x * random.choice([1.0, 2.0, 3.0, 4.0]), lambda: None


@row
def pythons_gaussian_numbers():
    random.seed(3)
    return lambda x: x * random.gauss(0, 1), lambda: None


@row
def an_iterator():
    numbers = itertools.count(1)
    return lambda x: x * next(numbers), lambda: None


@row
def an_iterator_over_a_list():
    numbers = iter([float(k) for k in range(30)])
    return lambda x: x * next(numbers), lambda: None


@row
def a_generator():
    def make():
        yield from map(float, range(30))

    numbers = make()
    return lambda x: x * next(numbers), lambda: None


@row
def a_generator_in_a_loop():
    numbers = iter([float(k) for k in range(30)])

    def f(x):
        for n in numbers:
            return x * n
        return x

    return f, lambda: None


@row
def an_iterator_of_the_users():
    class Own:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            return self.n

    numbers = Own()
    return lambda x: x * next(numbers), lambda: None


@row
def an_iterator_by_map():
    numbers = itertools.count(1)
    return lambda x: x * max(map(next, [numbers])), lambda: None


@row
def a_partial():
    table = {"by": 1.0}

    def inner(x, table):
        return x * table["by"]

    return functools.partial(inner, table=table), lambda: table.update(by=5.0)


@row
def a_cached_function():
    values = [1.0]

    @functools.lru_cache
    def inner():
        return values[0]

    def change():
        values[0] = 5.0
        inner.cache_clear()

    return lambda x: x * inner(), change


@row
def a_file(tmp=[]):  # noqa: B006
    import tempfile

    handle, path = tempfile.mkstemp()
    os.write(handle, b"1")
    os.close(handle)

    def f(x):
        with open(path) as file:
            return x * float(file.read())

    def change():
        with open(path, "w") as file:
            file.write("5")

    return f, change


@row
def a_context_variable():
    import contextvars

    variable = contextvars.ContextVar("variable", default=1.0)
    return lambda x: x * variable.get(), lambda: variable.set(5.0) and None


@row
def a_filter_of_warnings():
    def f(x):
        try:
            warnings.warn("a warning", UserWarning, stacklevel=1)
        except UserWarning:
            return x * 5
        return x

    warnings.simplefilter("ignore")
    return f, lambda: warnings.simplefilter("error")


@row
def the_import_function():
    import builtins

    def other(name, *args):
        return types.SimpleNamespace(floor=lambda v: 50.0) if name == "math" else original(name, *args)

    original = builtins.__import__

    def f(x):
        import math

        return x * math.floor(2.5)

    def change():
        builtins.__import__ = other if builtins.__import__ is original else original

    return f, change


@row
def a_thread_local():
    import threading

    local = threading.local()
    local.value = 1.0
    return lambda x: x * local.value, lambda: setattr(local, "value", 5.0)


@row
def a_weak_reference():
    import weakref

    things = [Thing(), Thing()]
    things[1].value = 6.0
    held = [weakref.ref(things[0])]
    return lambda x: x * held[0]().value, lambda: held.__setitem__(0, weakref.ref(things[1]))


@row
def the_default_dtype():
    return lambda x: x.double() + mt.full((3,), 0.1), lambda: mt.set_default_dtype(mt.float64)


@row
def the_recursion_limit():
    limit = sys.getrecursionlimit()

    def change():
        sys.setrecursionlimit(limit + 10)

    return lambda x: x * (sys.getrecursionlimit() - limit + 1), change


@row
def a_copied_object():
    t = Thing()
    return lambda x: x * copy.copy(t).value, lambda: setattr(t, "value", 5.0)


@row
def a_deeply_copied_object():
    t = Thing()
    return lambda x: x * copy.deepcopy(t).inner.value, lambda: setattr(t.inner, "value", 5.0)


@row
def a_pattern_match():
    t = Thing()
    t.pair = {"a": 1.0}

    def f(x):
        match t.pair:
            case {"a": by}:
                return x * by
        return x

    return f, lambda: setattr(t, "pair", {"a": 6.0})


@row
def a_class_pattern():
    t = types.SimpleNamespace(value=1.0)

    def f(x):
        match t:
            case types.SimpleNamespace(value=1.0):
                return x + 1
        return x - 1

    return f, lambda: setattr(t, "value", 6.0)


@row
def a_formatted_text():
    parts = [1.0]
    return lambda x: x * len(f"{parts}"), lambda: parts.append(2.0)


@row
def a_joined_text():
    parts = ["a"]
    return lambda x: x * len("".join(parts)), lambda: parts.append("b")


@row
def a_number_by_math():
    t = Thing()
    return lambda x: x * math.sqrt(t.value), lambda: setattr(t, "value", 4.0)


@pytest.mark.parametrize("jit_compile", [True, None, False])
@pytest.mark.parametrize("name", row)
def test_changed_parts_of_the_environment_are_noticed(name, jit_compile):
    row.check(name, jit_compile)


@pytest.mark.parametrize(
    "days",
    [
        lambda: int(np.busday_count("2020-01-01", "today")),
        lambda: 1 + int(np.is_busday(["today"]).sum()),
        lambda: len(np.arange("2020-01-01", "today", dtype="datetime64[D]")),
    ],
)
def test_dates_of_the_clock_are_named(days):
    f = mt.function(lambda x: x * days(), jit_compile=True)
    for _ in range(3):
        assert f(mt.ones(2)).tolist() == [days()] * 2
    assert f.hits == 0
    assert "with the clock" in str(mt.jit.explain(f)(mt.ones(2)))
