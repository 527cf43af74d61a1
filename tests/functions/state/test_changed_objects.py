"""mt.function: attributes, methods and classes that change between two calls are noticed, however they are read."""

import collections
import contextlib
import dataclasses
import enum
import functools
import operator
import sys
import types

import pytest
from changes import Changes, Thing, helper, other_helper

import minitensor as mt

row = Changes(globals())


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


@row
def attributes_in_a_dict_that_others_have():
    class Thing:
        shared = {"value": 1.0}  # noqa: RUF012

        def __init__(self):
            self.__dict__ = self.shared

    def change():
        Thing.shared["value"] += 1

    return lambda x: x * Thing().value, change


@row
def attributes_in_a_dict_that_others_have_and_the_collector_knows():
    shared = {"value": [1.0]}

    class Thing:
        def __init__(self):
            self.__dict__ = shared

    def change():
        shared["value"] = [shared["value"][0] + 1]

    return lambda x: x * Thing().value[0], change


@row
def how_many_attributes_are_in_a_dict_that_others_have():
    class Thing:
        pass

    thing, names = Thing(), iter("abcd")

    def f(x):
        new = Thing()
        new.__dict__ = thing.__dict__
        return x * (1 + len(vars(new)))

    return f, lambda: setattr(thing, next(names), 1.0)


@row
def an_attribute_that_is_set_in_a_dict_that_others_have():
    class Thing:
        calls = 0

    thing = Thing()

    def f(x):
        new = Thing()
        new.__dict__ = thing.__dict__
        new.calls += 1
        return x * new.calls

    return f, lambda: None


@pytest.mark.parametrize("jit_compile", [True, None, False])
@pytest.mark.parametrize("name", row)
def test_changed_objects_are_noticed(name, jit_compile):
    row.check(name, jit_compile)
