"""mt.function: what texts of objects, numbers and dates depend on, and what classes and modules find by themselves."""

import datetime
import decimal
import os
import sys
import time
import types

import numpy as np
import pytest
from function_rows import Rows

from minitensor import nn

row = Rows()


class Named:
    def method(self):
        return None


def unless_forbidden(make):
    """A function of a tensor and of what `make` gives, if that may be made."""

    def function(x):
        try:
            return x * make()
        except (ValueError, decimal.FloatOperation):
            return x - 1

    return function


def renamed(**names):
    """A class, and what changes its names."""
    kind = type("Named", (), {})
    return kind, lambda: [setattr(kind, name, text) for name, text in names.items()]


@pytest.fixture(autouse=True)
def as_it_was():
    zone, digits = os.environ.get("TZ"), sys.get_int_max_str_digits()
    traps = dict(decimal.getcontext().traps)
    with np.printoptions():
        yield
    os.environ.pop("TZ", None) if zone is None else os.environ.update(TZ=zone)
    time.tzset()
    sys.set_int_max_str_digits(digits)
    decimal.getcontext().traps.update(traps)


# ---- names in texts


@row
def a_class_formatted():
    kind, change = renamed(__qualname__="Z")
    return lambda x: x * len(f"{kind}"), change


@row
def a_class_by_repr():
    kind, change = renamed(__module__="zz")
    return lambda x: x * len(repr(kind)), change


@row
def a_class_by_percent():
    kind, change = renamed(__qualname__="Z")
    return lambda x: x * len("%s" % kind), change  # noqa: UP031


@row
def a_class_in_a_template():
    kind, change = renamed(__qualname__="Z")
    return lambda x: x * len("{}".format(kind)), change  # noqa: UP032


@row
def a_class_in_containers():
    kind, change = renamed(__qualname__="Z")
    return lambda x: x * len(str([(kind,), {"a": {kind}}])), change


@row
def classes_by_map():
    kind, change = renamed(__qualname__="Z")
    return lambda x: x * sum(map(len, map(str, [kind]))), change


@row
def a_class_in_an_alias():
    kind, change = renamed(__qualname__="Z")
    alias = list[kind]
    return lambda x: x * len(repr(alias)), change


@row
def the_class_of_an_object():
    kind, change = renamed(__qualname__="Z")
    thing = kind()
    return lambda x: x * repr(thing).index(" object at"), change


@row
def the_class_of_an_exception():
    class FailedError(Exception):
        pass

    return lambda x: x * len(repr(FailedError(1))), lambda: setattr(FailedError, "__name__", "Z")


@row
def a_function():
    def inner():
        return None

    return lambda x: x * f"{inner}".index(" at "), lambda: setattr(inner, "__qualname__", "Z")


@row
def a_method_of_an_object():
    class Thing:
        def method(self):
            return None

        def __repr__(self):
            return "thing"

    thing = Thing()
    return lambda x: x * len(f"{thing.method}"), lambda: setattr(Thing.method, "__qualname__", "Z")


@row
def a_module():
    module = types.ModuleType("a")
    return lambda x: x * len(f"{module}"), lambda: setattr(module, "__name__", "longer")


@row
def the_file_of_an_error():
    error = OSError(1, "no", "file")
    return lambda x: x * len(str(error)), lambda: setattr(error, "filename", "longer")


@row
def the_line_of_an_error():
    error = SyntaxError("no", ("file", 2, 3, "text"))
    return lambda x: x * len(str(error)), lambda: setattr(error, "lineno", 2222)


@row
def the_class_of_a_layer():
    class Layer(nn.Module):
        pass

    layers = nn.Sequential(Layer())
    return lambda x: x * len(repr(layers)), lambda: setattr(Layer, "__name__", "Z")


# ---- numbers and dates


@row
def a_number_of_numpys():
    np.set_printoptions(legacy=False)
    number = np.float64(1.5)
    return lambda x: x * len(repr(number)), lambda: np.set_printoptions(legacy="1.25")


@row
def a_long_number():
    sys.set_int_max_str_digits(4300)
    number = 10**2000
    return unless_forbidden(lambda: len(str(number))), lambda: sys.set_int_max_str_digits(700)


@row
def a_long_number_formatted():
    sys.set_int_max_str_digits(4300)
    number = 10**2000
    return unless_forbidden(lambda: len(f"{number}")), lambda: sys.set_int_max_str_digits(700)


@row
def a_long_number_read():
    sys.set_int_max_str_digits(4300)
    digits = "1" * 2000
    return unless_forbidden(lambda: int(digits) % 7), lambda: sys.set_int_max_str_digits(700)


def zone(name):
    os.environ["TZ"] = name
    time.tzset()


@row
def the_time_zone_of_a_timestamp():
    zone("UTC")
    date = datetime.datetime(2020, 1, 1)
    return lambda x: x + date.timestamp() % 86400, lambda: zone("Etc/GMT+5")


@row
def the_time_zone_of_a_date_from_a_timestamp():
    zone("UTC")
    return lambda x: x * datetime.datetime.fromtimestamp(7200).hour, lambda: zone("Etc/GMT+5")


@row
def the_time_zone_of_a_naive_date():
    zone("UTC")
    date = datetime.datetime(2020, 1, 1, 12)
    return lambda x: x * date.astimezone(datetime.UTC).hour, lambda: zone("Etc/GMT+5")


@row
def what_decimals_are_made_of():
    decimal.getcontext().traps[decimal.FloatOperation] = False

    def forbid():
        decimal.getcontext().traps[decimal.FloatOperation] = True

    return unless_forbidden(lambda: float(decimal.Decimal(1.5))), forbid  # noqa: RUF032


# ---- classes that are made, and what they find


@row
def init_subclass_added():
    class Base:
        k = 1.0

    def f(x):
        class Derived(Base):
            pass

        return x * Derived.k

    return f, lambda: setattr(Base, "__init_subclass__", classmethod(lambda cls: setattr(cls, "k", 5.0)))


@row
def init_subclass_added_for_a_call_of_type():
    class Base:
        k = 1.0

    def change():
        Base.__init_subclass__ = classmethod(lambda cls: setattr(cls, "k", 5.0))

    return lambda x: x * type("Derived", (Base,), {}).k, change


@row
def set_name_added():
    class Descriptor:
        k = 1.0

    def f(x):
        class Owner:
            a = Descriptor()

        return x * Owner.__dict__["a"].k

    return f, lambda: setattr(Descriptor, "__set_name__", lambda self, owner, name: setattr(self, "k", 6.0))


@row
def mro_by_a_call():
    class One:
        pass

    class Two:
        pass

    class Own(One):
        pass

    return lambda x: x * len(Own.mro()), lambda: setattr(Own, "__bases__", (One, Two))


@row
def instancecheck_called():
    class One:
        pass

    class Two:
        pass

    class Own(One):
        pass

    thing = Own()
    return lambda x: x + 1 if Two.__instancecheck__(thing) else x - 1, lambda: setattr(Own, "__bases__", (Two,))


@row
def instances_by_map():
    class One:
        pass

    class Two:
        pass

    class Own(One):
        pass

    things = [Own()]
    return lambda x: x + sum(map(isinstance, things, [Two])), lambda: setattr(Own, "__bases__", (Two,))


@row
def what_an_object_has():
    thing = Named()
    return lambda x: x + 1 if "k" in thing.__dir__() else x - 1, lambda: setattr(thing, "k", 1)


@row
def what_a_class_has():
    kind, _ = renamed()
    return lambda x: x + 1 if "k" in type.__dir__(kind) else x - 1, lambda: setattr(kind, "k", 1)


@row
def init_of_an_exception_added():
    class FailedError(Exception):
        pass

    def init(self, value):
        self.args = (value, value)
        seen.append(value)

    seen = []

    def f(x):
        FailedError(1)
        return x * (1 + len(seen))

    return f, lambda: setattr(FailedError, "__init__", init)


# ---- what is hashed


def equal_to_all(kind):
    def change():
        kind.__eq__ = lambda self, other: True
        kind.__hash__ = lambda self: 1

    return change


@row
def things_in_a_set():
    kind, _ = renamed()
    one, other = kind(), kind()
    return lambda x: x * len({one, other}), equal_to_all(kind)


@row
def keys_of_a_dict():
    kind, _ = renamed()
    one, other = kind(), kind()
    return lambda x: x * sum({one: 1, other: 2}.values()), equal_to_all(kind)


@row
def keys_in_a_comprehension():
    kind, _ = renamed()
    things = (kind(), kind())
    return lambda x: x * len({thing: i for i, thing in enumerate(things)}), equal_to_all(kind)


@row
def things_in_a_comprehension():
    kind, _ = renamed()
    things = (kind(), kind())
    return lambda x: x * len({thing for thing in things if things}), equal_to_all(kind)


# ---- modules


@row
def getattr_added_to_a_module():
    module = types.ModuleType("a")
    return lambda x: x * getattr(module, "k", 5.0), lambda: setattr(module, "__getattr__", lambda name: 3.0)


@row
def getattr_of_a_module_that_is_not_in_python():
    table = {"k": 2.0}
    module = types.ModuleType("a")
    module.__getattr__ = table.__getitem__
    return lambda x: x * module.k, lambda: table.update(k=7.0)


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    row.check(name, jit_compile)
