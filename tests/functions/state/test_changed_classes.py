"""mt.function: dataclasses, enumerations, metaclasses and code that change between calls."""

import collections
import dataclasses
import enum
import functools
import itertools
import math
import types

import pytest
from function_rows import Rows

import minitensor as mt

row = Rows()


# ---- dataclasses, enumerations, named tuples


@row
def a_dataclass_with_slots():
    @dataclasses.dataclass(slots=True)
    class Config:
        scale: float = 1.0
        shifts: list = dataclasses.field(default_factory=lambda: [1.0])

    config = Config()

    def change():
        config.scale += 1
        config.shifts[0] += 2

    return lambda x: x * config.scale + config.shifts[0], change


@row
def a_frozen_dataclass_that_is_written_all_the_same():
    @dataclasses.dataclass(frozen=True)
    class Config:
        scale: float = 1.0

    config = Config()
    return lambda x: x * config.scale, lambda: object.__setattr__(config, "scale", config.scale + 1)


@row
def the_defaults_of_a_dataclass():
    @dataclasses.dataclass
    class Config:
        scale: float = 1.0

    def change():
        Config.__init__.__defaults__ = (Config.__init__.__defaults__[0] + 1,)

    return lambda x: x * Config().scale, change


@row
def a_dataclass_as_a_key():
    @dataclasses.dataclass(unsafe_hash=True)
    class Key:
        number: int = 1

    key, table = Key(), {Key(1): 2.0, Key(2): 5.0}

    def change():
        key.number = 3 - key.number

    return lambda x: x * table[key], change


@row
def dataclasses_in_order():
    @dataclasses.dataclass(order=True)
    class Version:
        number: float

    one, other = Version(1.0), Version(2.0)

    def change():
        one.number = 4.0 - one.number

    return lambda x: x * (2 if one < other else 7), change


@row
def a_member_of_an_enumeration_by_value():
    class Kind(enum.Enum):
        SUM = 1
        MEAN = 2

    chosen = [1]

    def change():
        chosen[0] = 3 - chosen[0]

    return lambda x: x * (2 if Kind(chosen[0]) is Kind.SUM else 5), change


@row
def the_value_of_a_member():
    class Kind(enum.Enum):
        SUM = 1

    def change():
        Kind.SUM._value_ += 1

    return lambda x: x * Kind.SUM.value, change


@row
def flags():
    class Options(enum.Flag):
        FAST = 1
        EXACT = 2

    chosen = [Options.FAST]

    def change():
        chosen[0] ^= Options.EXACT

    return lambda x: x * (3 if Options.EXACT in chosen[0] else 1), change


@row
def the_fields_of_a_named_tuple():
    pair_type = collections.namedtuple("pair_type", "first second")
    pair = pair_type(1.0, 2.0)

    def change():
        pair_type.first, pair_type.second = pair_type.second, pair_type.first

    return lambda x: x * pair.first, change


# ---- metaclasses


@row
def an_attribute_of_a_metaclass():
    class Meta(type):
        scale = 1.0

    class Config(metaclass=Meta):
        pass

    def change():
        Meta.scale += 1

    return lambda x: x * Config.scale, change


@row
def an_attribute_that_hides_the_metaclass():
    class Meta(type):
        scale = 1.0

    class Config(metaclass=Meta):
        pass

    scale = itertools.count(5)

    def change():
        Config.scale = float(next(scale))

    return lambda x: x * Config.scale, change


@row
def a_metaclass_that_makes_attributes():
    table = {"scale": 1.0}

    class Meta(type):
        def __getattr__(cls, name):
            return table[name]

    class Config(metaclass=Meta):
        pass

    def change():
        table["scale"] += 1

    return lambda x: x * Config.scale, change


@row
def a_metaclass_that_says_what_an_instance_is():
    answer = [True]

    class Meta(type):
        def __instancecheck__(cls, thing):
            return answer[0]

    class Kind(metaclass=Meta):
        pass

    def change():
        answer[0] = not answer[0]

    return lambda x: x * (2 if isinstance(1.0, Kind) else 5), change


# ---- functions that are replaced


@row
def the_code_of_the_function_itself():
    def f(x):
        return x * 2

    def other(x):
        return x * 5

    def change():
        f.__code__, other.__code__ = other.__code__, f.__code__

    return f, change


@row
def the_same_code_with_other_global_variables():
    one, other = {"SCALE": 1.0}, {"SCALE": 5.0}
    exec("def scaled(x):\n    return x * SCALE\n", one)
    functions = [one["scaled"], types.FunctionType(one["scaled"].__code__, other)]
    return lambda x: functions[0](x), functions.reverse


@row
def the_bases_of_a_class():
    class One:
        def scale(self):
            return 1.0

    class Other:
        def scale(self):
            return 4.0

    class Config(One):
        def scale(self):
            return super().scale() * 2

    config = Config()

    def change():
        Config.__bases__ = (Other,) if Config.__bases__ == (One,) else (One,)

    return lambda x: x * config.scale(), change


@row
def what_equals_and_is_of_another_type():
    values = [1, True, 1.0]

    def f(x):
        return x * (2 if values[0] is True else 3 if isinstance(values[0], int) else 4)

    return f, lambda: values.append(values.pop(0))


@row
def zeros_of_both_signs_in_a_tuple():
    table = {"a": (0.0,)}

    def change():
        table["a"] = (-table["a"][0],)

    return lambda x: x * 0 + math.copysign(1.0, table["a"][0]), change


# ---- classes whose methods the framework's own code calls


class Doubling(mt.autograd.Function):
    @staticmethod
    def forward(*given):
        return given[-1] * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * getattr(ctx, "factor", 3)


class DoublingByVjp(mt.autograd.Function):
    """A class has one of `vjp` and `backward`."""

    forward, vjp = staticmethod(Doubling.forward), staticmethod(Doubling.backward)


def made_anew(ctx, inputs, output):
    ctx.factor = 5


# Each is the first that the class has of that name, so that nothing which it had before goes.
ADDED = {
    "backward": lambda ctx, gradient: gradient * 7, "vjp": lambda ctx, gradient: gradient * 9,
    "setup_context": made_anew, "forward": lambda *given: given[-1] * 4,
}  # fmt: skip
CALLED = {
    "apply": lambda kind, w: kind.apply(w), "map": lambda kind, w: next(map(kind.apply, [w])),
    "sorted": lambda kind, w: max([w], key=kind.apply) * 0 + kind.apply(w),
    "partial": lambda kind, w: functools.partial(kind.apply, w)(),
    "reduce": lambda kind, w: functools.reduce(lambda x, call: call(x), [kind.apply], w),
    "checkpoint": lambda kind, w: mt.utils.checkpoint.checkpoint(kind.apply, w, use_reentrant=False),
}  # fmt: skip


def method_added(name, call):
    def make():
        base = DoublingByVjp if name == "vjp" else Doubling
        kind, w = type("Derived", (base,), {}), mt.ones(3, requires_grad=True)

        def f(x):
            return mt.autograd.grad((call(kind, w) * x).sum(), w)[0]

        def change():
            delattr(kind, name) if name in vars(kind) else setattr(kind, name, staticmethod(ADDED[name]))

        return f, change

    return make


for name in ADDED:
    for how in CALLED if name == "vjp" else ("apply",):
        row.add(f"{name}_added_to_a_function_by_{how}", method_added(name, CALLED[how]))


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_changed_classes_are_noticed(name, jit_compile):
    row.check(name, jit_compile)
