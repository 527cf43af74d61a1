"""mt.function: identity, memory, and what is read and changed by functions that are not in Python."""

import bisect
import collections
import ctypes
import decimal
import functools
import importlib
import operator
import struct
import sys
import types

import numpy as np
import pytest
from function_rows import Rows

import minitensor as mt
from minitensor import nn

row = Rows()


class T:
    def __init__(self):
        self.value = 1.0


class MyOpt(mt.optim.SGD):
    def lrs(self):
        return self.param_groups[0]["lr"]


@row
def a_variable_that_is_not_set_yet():

    def make():

        def f(x):
            try:
                return x * by
            except NameError:
                return x - 1

        def change():
            nonlocal by
            by = 5.0

        if 0:
            by = 1
        return (f, change)

    return make()


@row
def a_variable_that_is_deleted():
    by = 1.0

    def f(x):
        try:
            return x * by
        except NameError:
            return x - 1

    def change():
        nonlocal by
        try:
            del by
        except NameError:
            by = 4.0  # noqa: F841

    return f, change


@row
def sorted_attrgetter():
    a, b = (T(), T())
    b.value = 2.0
    g = operator.attrgetter("value")
    objs = [a, b]

    def change():
        a.value = 9.0

    return lambda x: x * sum(map(g, objs)), change


@row
def max_key_attrgetter():
    a, b = (T(), T())
    b.value = 2.0
    a.k = 1.0
    b.k = 5.0

    def change():
        a.value = 9.0

    return lambda x: x * max([a, b], key=operator.attrgetter("value")).k, change


@row
def map_methodcaller():
    lst = [float(k) for k in range(30)]
    return lambda x: x * sum(map(operator.methodcaller("pop"), [lst])), lambda: None


@row
def map_list_pop():
    lst = [float(k) for k in range(30)]
    return lambda x: x * sum(map(list.pop, [lst])), lambda: None


@row
def map_dict_setdefault():
    d = {}
    return lambda x: x * sum(map(dict.setdefault, [d], ["a"], [len(d) + 1.0])), lambda: d.update(a=5.0)


@row
def map_lru_warm():
    v = [1.0]

    @functools.lru_cache
    def inner(k):
        return v[0]

    inner(1)

    def change():
        v[0] += 5
        inner.cache_clear()

    return lambda x: x * sum(map(inner, [1])), change


@row
def reduce_cached():
    v = [1.0]

    @functools.lru_cache
    def inner(a, b):
        return v[0] * b

    inner(1, 2)

    def change():
        v[0] += 5
        inner.cache_clear()

    return lambda x: x * functools.reduce(inner, [1, 2]), change


@row
def a_formatted_namespace():
    ns = types.SimpleNamespace(value=1.0)
    return lambda x: x * len(f"{ns}"), lambda: setattr(ns, "value", 123.456)


@row
def the_text_of_a_namespace():
    ns = types.SimpleNamespace(value=1.0)
    return lambda x: x * len(repr(ns)), lambda: setattr(ns, "value", 123.456)


@row
def a_namespace_compared():
    ns = types.SimpleNamespace(value=1.0)
    o = types.SimpleNamespace(value=1.0)
    return lambda x: x + 1 if ns == o else x - 1, lambda: setattr(ns, "value", 123.456)


@row
def a_namespace_in_a_list():
    ns = types.SimpleNamespace(value=1.0)
    o = types.SimpleNamespace(value=1.0)
    return lambda x: x + 1 if ns in [o] else x - 1, lambda: setattr(ns, "value", 123.456)


@row
def is_global():
    r = mt.arange(3.0)
    return lambda x: x + 1 if x is r else x - 1, lambda: None, lambda k: (r if k % 2 else mt.arange(3.0),)


@row
def is_global_first():
    r = mt.arange(3.0)
    return lambda x: x + 1 if x is r else x - 1, lambda: None, lambda k: (mt.arange(3.0) if k % 2 else r,)


@row
def is_attr():
    t = T()
    t.value = None
    a = [mt.arange(3.0), mt.arange(3.0)]

    def change():
        t.value = a[0] if t.value is a[1] else a[1]

    return lambda x: x + 1 if x is t.value else x - 1, change, lambda k: (a[k // 2 % 2],)


@row
def in_list_identity():
    r = mt.arange(3.0)
    lst = [r]
    return (
        lambda x: x + 1 if any(x is p for p in lst) else x - 1,
        lambda: None,
        lambda k: (r if k % 2 else mt.arange(3.0),),
    )


@row
def in_set_identity():
    r = mt.arange(3.0)
    s = {r}
    return lambda x: x + 1 if x in s else x - 1, lambda: None, lambda k: (r if k % 2 else mt.arange(3.0),)


@row
def in_dict_identity():
    r = mt.arange(3.0)
    s = {r: 1}
    return lambda x: x + 1 if x in s else x - 1, lambda: None, lambda k: (r if k % 2 else mt.arange(3.0),)


@row
def dict_get_identity():
    r = mt.arange(3.0)
    s = {r: 5.0}
    return lambda x: x * s.get(x, 1.0), lambda: None, lambda k: (r if k % 2 else mt.arange(3.0),)


@row
def operator_is():
    r = mt.arange(3.0)
    return lambda x: x + 1 if operator.is_(x, r) else x - 1, lambda: None, lambda k: (r if k % 2 else mt.arange(3.0),)


@row
def two_args_is():
    a, b = (mt.arange(3.0), mt.arange(3.0))
    return lambda x, y: x + 1 if x is y else x - 1, lambda: None, lambda k: (a, b) if k % 2 else (a, a)


@row
def memview_read():
    a = bytearray(b"\x01\x02\x03")
    m = memoryview(a)

    def change():
        a[0] = 9

    return lambda x: x * m[0], change


@row
def memview_tolist():
    a = bytearray(b"\x01\x02\x03")
    m = memoryview(a)

    def change():
        a[0] = 9

    return lambda x: x * sum(m.tolist()), change


@row
def memview_write():
    a = bytearray(b"\x01\x02\x03")

    def f(x):
        memoryview(a)[0] = 9
        return x + 1

    def change():
        a[0] = 1

    return f, change, lambda k: (mt.tensor(list(a)),)


@row
def userlist_tensor():
    u = collections.UserList([1.0, 2.0, 3.0])
    return lambda x: x * mt.tensor(u), lambda: u.__setitem__(0, 5.0)


@row
def str_format_attr():
    t = T()
    return lambda x: x * len(f"{t.value}"), lambda: setattr(t, "value", 123.25)


@row
def str_format_map():
    t = T()
    return lambda x: x * len("{t.value}".format_map({"t": t})), lambda: setattr(t, "value", 123.25)


@row
def insort_quiet():
    p = [1.0]

    def f(x):
        bisect.insort(p, 0.5)
        return x + 1

    return f, p.clear, lambda k: (mt.arange(3.0) + len(p),)


@row
def counter_update_quiet():
    c = collections.Counter()

    def f(x):
        c.update(["a"])
        return x + 1

    return f, lambda: None, lambda k: (mt.arange(3.0) + c["a"],)


@row
def pack_into():
    b = bytearray(4)

    def f(x):
        struct.pack_into("i", b, 0, 7)
        return x + 1

    def change():
        b[0] = 0

    return f, change, lambda k: (mt.arange(3.0) + b[0],)


@row
def decimal_ctx():
    d = decimal.Decimal(1)

    def change():
        decimal.getcontext().prec = 3

    decimal.getcontext().prec = 28
    return lambda x: x * float(d / 3), change


@row
def ctypes_array():
    a = (ctypes.c_float * 3)(1, 2, 3)
    return lambda x: x * a[0], lambda: a.__setitem__(0, 7.0)


@row
def ctypes_iter():
    a = (ctypes.c_float * 3)(1, 2, 3)
    return lambda x: x * sum(a), lambda: a.__setitem__(0, 7.0)


@row
def ctypes_struct():

    class S(ctypes.Structure):
        _fields_ = [("v", ctypes.c_float)]

    s = S(1.0)
    return lambda x: x * s.v, lambda: setattr(s, "v", 7.0)


@row
def importlib_mod():
    m1 = types.ModuleType("mm_up")
    m1.value = 1.0
    m2 = types.ModuleType("mm_up")
    m2.value = 4.0
    sys.modules["mm_up"] = m1
    return lambda x: x * importlib.import_module("mm_up").value, lambda: sys.modules.update(mm_up=m2)


@row
def untracked_dict():
    d = {"n": 0}

    def f(x):
        d["log"] = [0] * (len(d.get("log", [])) + 1)
        return x * len(d["log"])

    return f, lambda: None


@row
def untracked_dict2():
    d = {}

    def f(x):
        d["y"] = [1]
        return x + 1

    return f, d.clear, lambda k: (mt.arange(3.0) + len(d),)


@row
def untracked_dict3():
    d = {"a": 1.0}

    def f(x):
        d.update(b=[1])
        return x * d["a"]

    def change():
        d["a"] += 1

    return f, change


@row
def untracked_dict_read():
    d = {"a": 1.0}

    def f(x):
        y = x * d["a"]
        d["t"] = y
        return y

    def change():
        d["a"] = 5.0

    return f, change


@row
def dunder_dict_write():
    t = T()

    def f(x):
        t.__dict__["value"] = [3]
        return x + 1

    def change():
        t.value = 1.0

    return f, change, lambda k: (mt.arange(3.0) + (1 if t.value == 1.0 else 2),)


@row
def np_view_write3():
    a = np.ones(3, np.float32)

    def f(x):
        v = a.reshape(-1)
        v[:] = 7
        return x + 1

    return f, lambda: a.fill(1), lambda k: (mt.tensor(a.copy()),)


@row
def np_out():
    a = np.ones(3, np.float32)
    b = np.ones(3, np.float32)

    def f(x):
        np.add(b, 1, out=a)
        return x + 1

    return f, lambda: a.fill(1), lambda k: (mt.tensor(a.copy()),)


@row
def an_attribute_of_a_subclass_of_ours():
    w = nn.Parameter(mt.ones(3))
    o = MyOpt([w], lr=1.0)
    return lambda x: x * o.lrs(), lambda: o.param_groups[0].update(lr=5.0)


@row
def partial_setstate():
    p = functools.partial(lambda x, by: x * by, by=1.0)
    return lambda x: p(x), lambda: p.__setstate__((p.func, (), {"by": 5.0}, {}))


@row
def singledispatch():

    @functools.singledispatch
    def g(k, x):
        return x

    @g.register
    def _(k: int, x):
        return x * 2

    def change():
        g.register(int)(lambda k, x: x * 7)

    return lambda x: g(3, x), change


@row
def async_fn():
    t = T()

    async def inner(x):
        return x * t.value

    def f(x):
        c = inner(x)
        try:
            c.send(None)
        except StopIteration as e:
            return e.value

    return f, lambda: setattr(t, "value", t.value + 1)


def a_setting(read, write, values):
    """A row of a setting that the function reads, set to one of two values and the other."""

    def make():
        write(values[0])
        return lambda x: x + 1 if read() == values[0] else x - 1, lambda: write(values[read() == values[0]])

    return make


row.add(
    "determinism", a_setting(mt.are_deterministic_algorithms_enabled, mt.use_deterministic_algorithms, (False, True))
)
row.add("warnings", a_setting(mt.is_warn_always_enabled, mt.set_warn_always, (False, True)))
row.add("anomalies", a_setting(mt.is_anomaly_enabled, mt.autograd.set_detect_anomaly, (False, True)))


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    row.check(name, jit_compile)


@pytest.fixture(autouse=True)
def as_it_was():
    precision = decimal.getcontext().prec
    yield
    decimal.getcontext().prec = precision
    mt.use_deterministic_algorithms(False)
    mt.set_warn_always(False)
    mt.autograd.set_detect_anomaly(False)
    sys.modules.pop("mm_up", None)


SHARED = {
    "numpy": lambda t: t.numpy(),
    "memoryview": lambda t: memoryview(t.numpy()),
    "dlpack": lambda t: np.from_dlpack(t),
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("given", [False, True])
def test_memory_that_the_function_writes_before_it_looks_is_refused(name, given):
    t = mt.ones(3)
    seen = SHARED[name](t)

    def body(x):
        (x if given else t).add_(1)
        return x * float(seen[0])

    assert body(t).tolist() == [4, 4, 4]
    f = mt.function(body, jit_compile=True)
    for _ in range(2):
        with pytest.raises(mt.InvalidArgumentError, match=f"writes before.*{__file__}"):
            f(t)
    # Looking first, or not at what it writes, may be compiled.
    g = mt.function(lambda x: t.mul_(2) * x, jit_compile=True)
    for _ in range(3):
        g(mt.ones(3))
    assert g.hits == 2


class _Options:
    def __init__(self, **options):
        self.__dict__.update(options)


def _wrapped(scale):
    @functools.wraps(_wrapped)
    def multiply(x):
        return x * scale

    return multiply


@pytest.mark.parametrize("jit_compile", [True, None])
def test_attributes_written_as_a_dict_of_what_is_made_inside_keep_the_program(jit_compile):
    """Who asks for the dict of an object has it, too: that alone is no other owner, of older attributes."""

    def f(x):
        options = _Options(bias=3.0)
        vars(options).update(more=1.0)
        return _wrapped(2.0)(x) + options.bias + options.more

    compiled = mt.function(f, jit_compile=jit_compile)
    for k in range(14):
        x = mt.arange(3.0) + k
        assert compiled(x).tolist() == f(x).tolist()
    assert compiled.hits >= 2
    assert compiled.programs == 1
