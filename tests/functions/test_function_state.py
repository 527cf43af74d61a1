"""mt.function: Python's state that changes between two calls is noticed, whatever it is and however it is read."""

import array
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import itertools
import math
import operator
import os
import random
import sys
import types
import warnings

import numpy as np
import pytest

import minitensor as mt
from minitensor import nn
from minitensor_jit.compiler.compiler import no_collections

NUMBER = 1.0
FLAG = True
NOTHING = None
ITEMS = [1.0, 2.0]
TABLE = {"a": 1.0}
TENSOR = mt.ones(3)
NAMES = {"a"}
COUNTS = collections.Counter()
QUEUE = collections.deque([1.0])
SPACE = types.SimpleNamespace(value=1.0, inner=types.SimpleNamespace(value=1.0))
ROWS = {}


def helper(x):
    return x + 1


def other_helper(x):
    return x - 5


def row(make):
    """Enter a row: `make` gives a function of a tensor and what changes the state that it reads."""
    ROWS[make.__name__] = make
    return make


def setting(**values):
    """Sets globals of this module."""

    def change():
        globals().update(values)

    return change


@pytest.fixture(autouse=True)
def as_it_was():
    saved = dict(globals())
    state = random.getstate(), np.random.get_state()
    with warnings.catch_warnings():
        yield
    globals().update(saved)
    random.setstate(state[0])
    np.random.set_state(state[1])
    mt.set_default_dtype(mt.float32)


# ---- globals


@row
def a_global_number():
    return lambda x: x * NUMBER, setting(NUMBER=3.0)


@row
def a_global_flag():
    return lambda x: x + 1 if FLAG else x - 1, setting(FLAG=False)


@row
def a_global_none():
    return lambda x: x if NOTHING is None else x * NOTHING, setting(NOTHING=4.0)


@row
def a_global_text():
    globals()["MODE"] = "add"
    return lambda x: x + 1 if MODE == "add" else x - 1, setting(MODE="sub")  # noqa: F821


@row
def a_global_tensor_replaced():
    return lambda x: x + TENSOR, setting(TENSOR=mt.full((3,), 9.0))


@row
def the_shape_of_a_global_tensor():
    return lambda x: x * TENSOR.shape[0], setting(TENSOR=mt.ones(7))


@row
def a_global_function_replaced():
    return lambda x: helper(x), setting(helper=other_helper)


@row
def the_code_of_a_function_replaced():
    def inner(x):
        return x + 1

    return lambda x: inner(x), lambda: setattr(inner, "__code__", (lambda x: x * 7).__code__)


@row
def the_defaults_of_a_function_replaced():
    def inner(x, by=1.0):
        return x + by

    return lambda x: inner(x), lambda: setattr(inner, "__defaults__", (5.0,))


@row
def the_keyword_defaults_of_a_function_changed():
    def inner(x, *, by=1.0):
        return x + by

    return lambda x: inner(x), lambda: inner.__kwdefaults__.update(by=5.0)


@row
def its_own_default_replaced():
    def f(x, by=1.0):
        return x + by

    return f, lambda: setattr(f, "__defaults__", (5.0,))


@row
def a_mutable_default():
    def f(x, by=[1.0]):  # noqa: B006
        return x + by[0]

    return f, lambda: f.__defaults__[0].__setitem__(0, 6.0)


@row
def a_global_deleted():
    globals()["GONE"] = 2.0

    def f(x):
        try:
            return x * GONE
        except NameError:
            return x - 1

    return f, lambda: globals().pop("GONE", None)


@row
def a_builtin_hidden():
    globals().pop("abs", None)
    return lambda x: x * abs(-2), setting(abs=lambda v: 10.0)


@row
def a_global_that_it_sets():
    def f(x):
        global NUMBER
        NUMBER += 1.0
        return x * NUMBER

    return f, lambda: None


# ---- closures


@row
def a_closed_over_number():
    by = 1.0

    def change():
        nonlocal by
        by += 2.0

    return lambda x: x * by, change


@row
def a_closed_over_number_that_it_counts():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    return f, lambda: None


@row
def a_closed_over_list():
    parts = [1.0]
    return lambda x: x + sum(parts), lambda: parts.append(2.0)


@row
def a_closed_over_function():
    inner = helper

    def change():
        nonlocal inner
        inner = other_helper

    return lambda x: inner(x), change


@row
def a_variable_two_functions_further_out():
    by = 1.0

    def middle():
        def inner(x):
            return x * by

        return inner

    def change():
        nonlocal by
        by = 8.0

    return middle(), change


@row
def a_comprehension_over_a_closed_over_list():
    parts = [1.0]
    return lambda x: x + sum([p * 2 for p in parts]), lambda: parts.append(2.0)


@row
def a_generator_over_a_closed_over_list():
    parts = [1.0]
    return lambda x: x + sum(p * 2 for p in parts), lambda: parts.append(2.0)


# ---- objects


class Thing:
    factor = 1.0
    shared = [1.0]  # noqa: RUF012

    def __init__(self):
        self.value = 1.0
        self.inner = types.SimpleNamespace(value=1.0)
        self.calls = 0

    def apply(self, x):
        return x * self.value

    def counts(self, x):
        self.calls += 1
        return x * self.calls

    @property
    def doubled(self):
        return self.value * 2

    @classmethod
    def scaled(cls, x):
        return x * cls.factor

    @staticmethod
    def static(x):
        return x + 1


@row
def an_attribute():
    t = Thing()
    return lambda x: x * t.value, lambda: setattr(t, "value", 5.0)


@row
def an_attribute_of_an_attribute():
    t = Thing()
    return lambda x: x * t.inner.value, lambda: setattr(t.inner, "value", 5.0)


@row
def an_inner_object_replaced():
    t = Thing()
    return lambda x: x * t.inner.value, lambda: setattr(t, "inner", types.SimpleNamespace(value=7.0))


@row
def an_attribute_by_getattr():
    t = Thing()
    return lambda x: x * getattr(t, "val" + "ue"), lambda: setattr(t, "value", 5.0)


@row
def an_attribute_by_hasattr():
    t = Thing()
    return lambda x: x + 1 if hasattr(t, "extra") else x - 1, lambda: setattr(t, "extra", 1)


@row
def an_attribute_by_vars():
    t = Thing()
    return lambda x: x * vars(t)["value"], lambda: setattr(t, "value", 5.0)


@row
def an_attribute_by_dict():
    t = Thing()
    return lambda x: x * t.__dict__["value"], lambda: setattr(t, "value", 5.0)


@row
def an_attribute_set_past_setattr():
    t = Thing()
    return lambda x: x * t.value, lambda: t.__dict__.update(value=5.0)


@row
def the_dict_of_an_object_replaced():
    t = Thing()
    return lambda x: x * t.value, lambda: setattr(t, "__dict__", {"value": 6.0})


@row
def an_attribute_by_attrgetter():
    t, get = Thing(), operator.attrgetter("value")
    return lambda x: x * get(t), lambda: setattr(t, "value", 5.0)


@row
def an_attribute_of_an_attribute_by_attrgetter():
    t, get = Thing(), operator.attrgetter("inner.value")
    t.inner = Thing()
    return lambda x: x * get(t), lambda: setattr(t.inner, "value", 5.0)


@row
def a_bound_method():
    t = Thing()
    return t.apply, lambda: setattr(t, "value", 5.0)


@row
def a_method_replaced_on_the_object():
    t = Thing()
    return lambda x: t.apply(x), lambda: setattr(t, "apply", other_helper)


@row
def a_method_replaced_on_the_class():
    class Own(Thing):
        def apply(self, x):
            return x + 1

    t = Own()
    return lambda x: t.apply(x), lambda: setattr(Own, "apply", lambda self, x: x - 9)


@row
def an_operator_replaced_on_the_class():
    class Own:
        def __add__(self, x):
            return x + 1

    t = Own()
    return lambda x: t + x, lambda: setattr(Own, "__add__", lambda self, x: x - 9)


@row
def a_call_replaced_on_the_class():
    class Own:
        def __call__(self, x):
            return x + 1

    t = Own()
    return t, lambda: setattr(Own, "__call__", lambda self, x: x - 9)


@row
def a_super_method_replaced():
    class Base:
        def apply(self, x):
            return x + 1

    class Own(Base):
        def apply(self, x):
            return super().apply(x) * 2

    t = Own()
    return lambda x: t.apply(x), lambda: setattr(Base, "apply", lambda self, x: x - 9)


@row
def the_class_of_an_object():
    class Other(Thing):
        def apply(self, x):
            return x - 9

    t = Thing()
    return lambda x: t.apply(x), lambda: setattr(t, "__class__", Other)


@row
def the_bases_of_a_class():
    class One:
        def apply(self, x):
            return x + 1

    class Two:
        def apply(self, x):
            return x - 9

    class Own(One):
        pass

    t = Own()
    return lambda x: t.apply(x), lambda: setattr(Own, "__bases__", (Two,))


@row
def a_class_attribute():
    class Own(Thing):
        factor = 1.0

    return lambda x: x * Own.factor, lambda: setattr(Own, "factor", 4.0)


@row
def a_class_attribute_by_the_object():
    class Own(Thing):
        factor = 1.0

    t = Own()
    return lambda x: x * t.factor, lambda: setattr(Own, "factor", 4.0)


@row
def a_class_attribute_hidden_by_the_object():
    t = Thing()
    return lambda x: x * t.factor, lambda: setattr(t, "factor", 4.0)


@row
def a_class_attribute_by_a_classmethod():
    class Own(Thing):
        factor = 1.0

    return lambda x: Own.scaled(x), lambda: setattr(Own, "factor", 4.0)


@row
def a_static_method_replaced():
    class Own(Thing):
        pass

    return lambda x: Own.static(x), lambda: setattr(Own, "static", staticmethod(other_helper))


@row
def a_property():
    t = Thing()
    return lambda x: x * t.doubled, lambda: setattr(t, "value", 5.0)


@row
def a_property_replaced():
    class Own(Thing):
        doubled = property(lambda self: 2.0)

    t = Own()
    return lambda x: x * t.doubled, lambda: setattr(Own, "doubled", property(lambda self: 9.0))


@row
def a_cached_property():
    class Own:
        base = 1.0

        @functools.cached_property
        def value(self):
            return self.base

    t = Own()

    def change():
        t.base = 6.0
        t.__dict__.pop("value", None)

    return lambda x: x * t.value, change


@row
def a_getattr_of_the_users():
    class Own:
        def __init__(self):
            self.table = {"value": 1.0}

        def __getattr__(self, name):
            return self.table[name]

    t = Own()
    return lambda x: x * t.value, lambda: t.table.update(value=5.0)


@row
def a_getattribute_of_the_users():
    class Own:
        value = 2.0

        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    t = Own()
    return lambda x: x * t.value, lambda: setattr(t, "value", 7.0)


@row
def a_descriptor():
    class Descriptor:
        def __init__(self):
            self.value = 1.0

        def __get__(self, instance, kind):
            return self.value

    d = Descriptor()

    class Own:
        value = d

    t = Own()
    return lambda x: x * t.value, lambda: setattr(d, "value", 5.0)


@row
def a_slot():
    class Own:
        __slots__ = ("value",)

    t = Own()
    t.value = 1.0
    return lambda x: x * t.value, lambda: setattr(t, "value", 5.0)


@row
def a_dataclass():
    @dataclasses.dataclass
    class Own:
        value: float = 1.0

    t = Own()
    return lambda x: x * t.value, lambda: setattr(t, "value", 5.0)


@row
def a_dataclass_compared():
    @dataclasses.dataclass
    class Own:
        value: float = 1.0

    t, other = Own(), Own()
    return lambda x: x + 1 if t == other else x - 1, lambda: setattr(t, "value", 5.0)


@row
def a_dataclass_with_slots():
    @dataclasses.dataclass(slots=True)
    class Own:
        value: float = 1.0

    t = Own()
    return lambda x: x * t.value, lambda: setattr(t, "value", 5.0)


@row
def a_named_tuple_replaced():
    kind = collections.namedtuple("kind", "value")
    t = Thing()
    t.value = kind(1.0)
    return lambda x: x * t.value.value, lambda: setattr(t, "value", kind(5.0))


@row
def an_enum_member():
    class Mode(enum.Enum):
        ADD = 1
        SUB = 2

    t = Thing()
    t.mode = Mode.ADD
    return lambda x: x + 1 if t.mode is Mode.ADD else x - 1, lambda: setattr(t, "mode", Mode.SUB)


@row
def the_length_of_an_object():
    class Own:
        def __init__(self):
            self.n = 1

        def __len__(self):
            return self.n

    t = Own()
    return lambda x: x * len(t), lambda: setattr(t, "n", 4)


@row
def the_truth_of_an_object():
    class Own:
        def __init__(self):
            self.on = True

        def __bool__(self):
            return self.on

    t = Own()
    return lambda x: x + 1 if t else x - 1, lambda: setattr(t, "on", False)


@row
def a_context_manager():
    t = Thing()

    @contextlib.contextmanager
    def scaled():
        yield t.value

    def f(x):
        with scaled() as by:
            return x * by

    return f, lambda: setattr(t, "value", 5.0)


@row
def an_attribute_that_it_sets():
    t = Thing()
    return lambda x: t.counts(x), lambda: None


@row
def an_attribute_of_a_function():
    def f(x):
        f.calls += 1
        return x * f.calls

    f.calls = 0
    return f, lambda: None


@row
def an_attribute_of_a_function_read():
    def inner(x):
        return x * inner.by

    inner.by = 1.0
    return lambda x: inner(x), lambda: setattr(inner, "by", 5.0)


@row
def a_module_attribute():
    m = types.ModuleType("made_up")
    m.value = 1.0
    return lambda x: x * m.value, lambda: setattr(m, "value", 5.0)


@row
def a_function_of_another_module_replaced():
    m = types.ModuleType("made_up")
    m.function = helper
    return lambda x: m.function(x), lambda: setattr(m, "function", other_helper)


@row
def a_function_of_ours_replaced():
    space = types.SimpleNamespace(exp=mt.exp)
    return lambda x: space.exp(x), lambda: setattr(space, "exp", mt.neg)


@row
def an_import_inside():
    sys.modules["made_up_module"] = types.ModuleType("made_up_module")
    sys.modules["made_up_module"].value = 1.0

    def f(x):
        from made_up_module import value

        return x * value

    return f, lambda: setattr(sys.modules["made_up_module"], "value", 5.0)


# ---- containers


@row
def an_item_of_a_list():
    parts = [1.0, 2.0]
    return lambda x: x * parts[0], lambda: parts.__setitem__(0, 5.0)


@row
def the_last_item_of_a_list():
    parts = [1.0, 2.0]
    return lambda x: x * parts[-1], lambda: parts.append(5.0)


@row
def a_slice_of_a_list():
    parts = [1.0, 2.0]
    return lambda x: x * sum(parts[:2]), lambda: parts.insert(0, 5.0)


@row
def the_length_of_a_list():
    parts = [1.0]
    return lambda x: x * len(parts), lambda: parts.append(5.0)


@row
def whether_a_list_is_empty():
    parts = []
    return lambda x: x + 1 if parts else x - 1, lambda: parts.append(5.0)


@row
def a_list_of_tensors():
    parts = [mt.ones(3)]
    return lambda x: x + mt.stack(parts).sum(0), lambda: parts.append(mt.ones(3))


@row
def a_tensor_of_a_list_replaced():
    parts = [mt.ones(3)]
    return lambda x: x + parts[0], lambda: parts.__setitem__(0, mt.full((3,), 4.0))


@row
def a_loop_over_functions():
    layers = [helper]

    def f(x):
        for layer in layers:
            x = layer(x)
        return x

    return f, lambda: layers.append(helper)


@row
def a_nested_list():
    parts = [[1.0], [2.0]]
    return lambda x: x * parts[1][0], lambda: parts[1].__setitem__(0, 5.0)


@row
def a_list_sorted():
    parts = [3.0, 1.0]
    return lambda x: x * sorted(parts)[0], lambda: parts.append(0.5)


@row
def a_list_unpacked():
    parts = [1.0, 2.0]

    def f(x):
        a, b = parts
        return x * a + b

    return f, lambda: parts.reverse()


@row
def a_list_given_as_arguments():
    parts = [1.0, 2.0]

    def inner(x, a, b):
        return x * a + b

    return lambda x: inner(x, *parts), lambda: parts.reverse()


@row
def a_list_compared():
    parts = [1.0]
    return lambda x: x + 1 if parts == [1.0] else x - 1, lambda: parts.append(1.0)


@row
def a_list_in_a_tensor():
    parts = [1.0, 2.0, 3.0]
    return lambda x: x + mt.tensor(parts), lambda: parts.__setitem__(0, 5.0)


@row
def a_shape_in_a_list():
    shape = [3, 1]
    return lambda x: x.reshape(shape), lambda: shape.reverse()


@row
def a_list_that_it_appends_to():
    parts = []

    def f(x):
        parts.append(1.0)
        return x * len(parts)

    return f, lambda: None


@row
def an_item_of_a_dict():
    table = {"a": 1.0}
    return lambda x: x * table["a"], lambda: table.update(a=5.0)


@row
def a_dict_by_get():
    table = {}
    return lambda x: x * table.get("a", 1.0), lambda: table.update(a=5.0)


@row
def whether_a_dict_has_a_key():
    table = {}
    return lambda x: x + 1 if "a" in table else x - 1, lambda: table.update(a=5.0)


@row
def the_values_of_a_dict():
    table = {"a": 1.0}
    return lambda x: x * sum(table.values()), lambda: table.update(b=5.0)


@row
def the_order_of_a_dict():
    table = {"a": 1.0, "b": 2.0}
    return lambda x: x * next(iter(table.values())), lambda: table.update(a=table.pop("a"))


@row
def a_dict_of_functions():
    table = {"f": helper}
    return lambda x: table["f"](x), lambda: table.update(f=other_helper)


@row
def a_dict_given_as_keywords():
    table = {"by": 1.0}

    def inner(x, by):
        return x * by

    return lambda x: inner(x, **table), lambda: table.update(by=5.0)


@row
def a_default_dict():
    table = collections.defaultdict(lambda: 1.0)

    return lambda x: x * table["a"], lambda: table.update(a=5.0)


@row
def an_ordered_dict():
    table = collections.OrderedDict(a=1.0, b=2.0)
    return lambda x: x * next(iter(table.values())), lambda: table.move_to_end("a")


@row
def a_chain_map():
    table = collections.ChainMap({}, {"a": 1.0})
    return lambda x: x * table["a"], lambda: table.maps[0].update(a=5.0)


@row
def a_dict_that_it_changes():
    table = {"n": 0}

    def f(x):
        table["n"] += 1
        return x * table["n"]

    return f, lambda: None


@row
def a_cache_of_tensors():
    table = {}

    def f(x):
        if "y" not in table:
            table["y"] = x * 2
        return x + table["y"]

    return f, table.clear


@row
def a_set():
    names = {"a"}
    return lambda x: x + 1 if "a" in names else x - 1, names.clear


@row
def the_size_of_a_set():
    names = {"a"}
    return lambda x: x * len(names), lambda: names.add("b")


@row
def a_deque():
    queue = collections.deque([1.0])
    return lambda x: x * queue[0], lambda: queue.appendleft(5.0)


@row
def a_deque_that_it_rotates():
    queue = collections.deque([1.0, 2.0, 3.0])

    def f(x):
        queue.rotate()
        return x * queue[0]

    return f, lambda: None


@row
def a_counter():
    counts = collections.Counter(a=1)
    return lambda x: x * counts["a"], lambda: counts.update(a=3)


@row
def a_bytearray():
    data = bytearray(b"\x01\x02")
    return lambda x: x * data[0], lambda: data.__setitem__(0, 7)


@row
def an_array():
    data = array.array("d", [1.0])
    return lambda x: x * data[0], lambda: data.__setitem__(0, 7.0)


@row
def a_list_of_the_users():
    class Own(list):
        pass

    parts = Own([1.0])
    return lambda x: x * parts[0], lambda: parts.__setitem__(0, 5.0)


@row
def a_users_container():
    class Own:
        def __init__(self):
            self.parts = [1.0]

        def __getitem__(self, i):
            return self.parts[i]

    t = Own()
    return lambda x: x * t[0], lambda: t.parts.__setitem__(0, 5.0)


# ---- NumPy


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
    ROWS["an array: " + of] = with_array(of)


@row
def numpys_random_numbers():
    return lambda x: x * np.random.rand(), lambda: None


@row
def a_generator_of_numpys():
    def make():
        return np.random.default_rng(7)

    rng = make()
    return lambda x: x * float(rng.random()), lambda: None


# ---- the world


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
    numbers = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    return lambda x: x * next(numbers), lambda: None


@row
def a_generator():
    def make():
        yield from (1.0, 2.0, 3.0, 4.0, 5.0)

    numbers = make()
    return lambda x: x * next(numbers), lambda: None


@row
def a_generator_in_a_loop():
    numbers = iter([1.0, 2.0, 3.0, 4.0, 5.0])

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
def evaluated_code():
    return lambda x: x * eval("NUMBER"), setting(NUMBER=6.0)


@row
def the_globals_themselves():
    return lambda x: x * globals()["NUMBER"], setting(NUMBER=6.0)


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


# ---- modules


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.extra = None
        self.factor = 1.0
        self.layers = nn.ModuleList([nn.Tanh()])
        self.sequence = nn.Sequential(nn.Tanh(), nn.Sigmoid())
        self.names = ["a"]
        self.register_buffer("scale", None)
        self.register_parameter("shift", None)

    def forward(self, x):
        x = self.linear(x) * self.factor + len(self.names)
        for layer in self.layers:
            x = layer(x)
        x = self.sequence(x)
        if self.scale is not None:
            x = x * self.scale
        if self.shift is not None:
            x = x + self.shift
        if self.extra is not None:
            x = self.extra(x)
        if self.training:
            x = x + 1
        return x


def with_net(change):
    def make():
        mt.manual_seed(0)
        net = Net()
        return net, lambda: change(net)

    return make


def removes_hook(net):
    for handle in net.__dict__.setdefault("handles", []):
        handle.remove()


def twice(module, args, result):
    return result * 2


NET_CHANGES = {
    "a bias that was None": lambda net: setattr(net, "shift", nn.Parameter(mt.full((3,), 3.0))),
    "a buffer that was None": lambda net: setattr(net, "scale", mt.full((3,), 3.0)),
    "a child that was None": lambda net: setattr(net, "extra", nn.Tanh()),
    "a weight replaced": lambda net: setattr(net.linear, "weight", nn.Parameter(mt.ones(3, 3))),
    "a bias removed": lambda net: setattr(net.linear, "bias", None),
    "a child replaced": lambda net: setattr(net, "linear", nn.Linear(3, 3, bias=False)),
    "a child removed": lambda net: net.layers.__delitem__(0) if len(net.layers) else None,
    "a child appended": lambda net: net.layers.append(nn.Tanh()),
    "a child of a sequence appended": lambda net: net.sequence.append(nn.Tanh()),
    "a child of a sequence deleted": lambda net: net.sequence.__delitem__(0) if len(net.sequence) > 1 else None,
    "a child of a sequence replaced": lambda net: net.sequence.__setitem__(0, nn.ReLU()),
    "a child added by name": lambda net: net.sequence.add_module("late", nn.Tanh()),
    "an attribute": lambda net: setattr(net, "factor", 3.0),
    "a list": lambda net: net.names.append("b"),
    "evaluation": lambda net: net.eval(),
    "the mode of one": lambda net: setattr(net, "training", False),
    "a hook": lambda net: net.linear.register_forward_hook(twice),
    "a hook of the whole": lambda net: net.register_forward_hook(twice),
    "a hook before": lambda net: net.linear.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "forward of a child replaced": lambda net: setattr(net.linear, "forward", other_helper),
    "forward of its own replaced": lambda net: setattr(net, "forward", other_helper),
    "a method of a container": lambda net: setattr(net.sequence, "forward", other_helper),
    "a parameter written past setattr": lambda net: net.linear.__dict__.update(in_features=3, note=1),
    "the data of a weight": lambda net: setattr(net.linear.weight, "data", mt.ones(3, 3)),
    "a weight in place": lambda net: net.linear.weight.data.fill_(0.5),
}
for name, change in NET_CHANGES.items():
    ROWS["a module: " + name] = with_net(change)


class HasParameters:
    def __init__(self, parameters):
        self.value = parameters


PLACES_OF_PARAMETERS = {
    "attribute": lambda p: functools.partial(getattr, HasParameters(p), "value"),
    "item": lambda p: functools.partial({"value": p}.get, "value"),
    "cell": lambda p: lambda: p,
}


def with_parameters(kind, place):
    def make():
        held = kind({"a": mt.ones(3)} if kind is nn.ParameterDict else [mt.ones(3)])
        find = PLACES_OF_PARAMETERS[place](held)

        def change():
            key = str(len(held)) if kind is nn.ParameterDict else None
            held.append(mt.ones(3)) if key is None else held.update({key: mt.ones(3)})

        return lambda x: x * len(find()), change

    return make


def with_other_parameters(kind, count):
    """A container that is made anew, of as many parameters; the last one is another."""

    def make():
        def made(value):
            parameters = [nn.Parameter(mt.full((3,), float(n))) for n in (*range(count - 1), value)]
            return kind({str(k): p for k, p in enumerate(parameters)} if kind is nn.ParameterDict else parameters)

        holder, values = HasParameters(made(5)), itertools.count(6)

        def change():
            holder.value = made(next(values))

        return lambda x: x * list(holder.value.parameters())[-1], change

    return make


for kind in (nn.ParameterDict, nn.ParameterList):
    for count in (1, 2):
        ROWS[f"a new {kind.__name__} of {count}"] = with_other_parameters(kind, count)
    for place in PLACES_OF_PARAMETERS:
        ROWS[f"a {kind.__name__} by {place}"] = with_parameters(kind, place)


@row
def a_hook_that_is_removed():
    mt.manual_seed(0)
    net = Net()
    handle = net.linear.register_forward_hook(twice)
    return net, handle.remove


@row
def an_attribute_of_a_layer():
    flat = nn.Flatten(0)
    return lambda x: flat(x.reshape(3, 1)), lambda: setattr(flat, "start_dim", 1)


@row
def an_attribute_that_hides_a_tensors_method():
    w = mt.ones(3)
    return lambda x: x * w.sum(), lambda: setattr(w, "sum", lambda: 5.0)


@row
def an_attribute_that_hides_one_of_a_tensors_class():
    class Own(mt.Tensor):
        scale = 2.0

    w = mt.ones(3).as_subclass(Own)
    return lambda x: x * w.scale, lambda: setattr(w, "scale", 5.0)


@row
def a_method_of_a_module_class_replaced():
    class Own(nn.Module):
        def forward(self, x):
            return x + 1

    net = Own()
    return lambda x: net(x), lambda: setattr(Own, "forward", lambda self, x: x - 9)


@row
def a_list_of_modules():
    layers = [nn.Tanh()]

    def f(x):
        for layer in layers:
            x = layer(x)
        return x

    return f, lambda: layers.append(nn.Tanh())


def values_of(f, change):
    values = []
    for k in range(4):
        x = mt.arange(3.0) + k
        values.append(f(x).detach().clone())
        if k % 2 == 0:
            change()
    return values


@pytest.mark.parametrize("jit_compile", [True, None, False])
@pytest.mark.parametrize("name", ROWS)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    make = ROWS[name]
    saved = dict(globals())
    state = random.getstate(), np.random.get_state()
    expected = values_of(*make())
    globals().update(saved)
    random.setstate(state[0])
    np.random.set_state(state[1])
    mt.set_default_dtype(mt.float32)
    f, change = make()
    compiled = mt.function(f, jit_compile=jit_compile)
    for k, (got, wanted) in enumerate(zip(values_of(compiled, change), expected, strict=True)):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got.numpy(), wanted.numpy(), err_msg=f"call {k} of {name}")


def test_compiling_leaves_the_collector_as_it_was():
    on = gc.isenabled()
    try:
        for before in (True, False):
            (gc.enable if before else gc.disable)()
            with no_collections():
                assert not gc.isenabled()
            assert gc.isenabled() is before
    finally:
        (gc.enable if on else gc.disable)()


def test_the_collector_is_the_programs():
    """A recorded function sees whether collections are on, and may change that."""
    before = gc.isenabled(), gc.get_threshold()
    try:
        for on in (True, False):
            (gc.enable if on else gc.disable)()
            seen = []
            f = mt.function(lambda x, seen=seen: (seen.append(gc.isenabled()), x * 2)[1], jit_compile=True)
            f(mt.ones(2))
            assert (seen, gc.isenabled(), gc.get_threshold()) == ([on], on, before[1])

        def change(x):
            gc.set_threshold(5, 6, 7)
            gc.enable()
            return x * 2

        def fail(x):
            raise KeyError(gc.isenabled())

        mt.function(change)(mt.ones(2))
        assert (gc.isenabled(), gc.get_threshold()) == (True, (5, 6, 7))
        with pytest.raises(KeyError, match="True"):
            mt.function(fail)(mt.ones(2))
        assert (gc.isenabled(), gc.get_threshold()) == (True, (5, 6, 7))
    finally:
        (gc.enable if before[0] else gc.disable)()
        gc.set_threshold(*before[1])
