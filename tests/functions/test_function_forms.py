"""mt.function: forms of Python's state that programs seldom have, each changed between calls."""

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import gc
import importlib
import itertools
import math
import sys
import types
import weakref

import pytest
from function_rows import Rows

import minitensor as mt
import minitensor.distributions as D
from minitensor.optim.optimizer import _global_optimizer_post_hooks, register_optimizer_step_post_hook

row = Rows()
count = itertools.count()
FOLDER = []  # of modules that rows write


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


@row
def what_a_named_tuple_holds():
    holder = collections.namedtuple("holder", "items")([1.0])

    def change():
        holder.items[0] += 1

    return lambda x: x * holder.items[0], change


# ---- contexts, partial functions, caches, generators


@row
def a_variable_of_another_context():
    variable = contextvars.ContextVar("variable", default=1.0)
    context = contextvars.copy_context()
    return lambda x: x * context.run(variable.get), lambda: context.run(lambda: variable.set(variable.get() + 1))


@row
def the_keywords_of_a_partial_function():
    scaled = functools.partial(lambda x, scale: x * scale, scale=1.0)

    def change():
        scaled.keywords["scale"] += 1

    return scaled, change


@row
def the_state_of_a_partial_function():
    def scale_by(x, scale):
        return x * scale

    scaled, scale = functools.partial(scale_by, scale=1.0), itertools.count(2)
    return lambda x: scaled(x), lambda: scaled.__setstate__((scale_by, (), {"scale": float(next(scale))}, {}))


@row
def a_cached_property():
    class Config:
        base = 1.0

        @functools.cached_property
        def scale(self):
            return self.base * 2

    config = Config()

    def change():
        vars(config).pop("scale", None)
        Config.base += 1

    return lambda x: x * config.scale, change


@row
def a_function_that_is_registered_for_a_type():
    @functools.singledispatch
    def scaled(number, x):
        return x

    scale = itertools.count(2)

    def change():
        by = next(scale)
        scaled.register(int, lambda number, x: x * by)

    return lambda x: scaled(3, x), change


@row
def a_generator_that_goes_on():
    def numbers():
        number = 1.0
        while True:
            number += 1
            yield number

    generator = numbers()
    return lambda x: x * next(generator), lambda: None


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


# ---- weak references, modules


@row
def a_weak_reference():
    class Thing:
        scale = 3.0

    things = [Thing()]
    reference = weakref.ref(things[0])
    return lambda x: x * (7.0 if reference() is None else reference().scale), things.clear


@row
def a_dict_of_weak_references():
    class Thing:
        scale = 3.0

    things = [Thing()]
    table = weakref.WeakValueDictionary(a=things[0])
    return lambda x: x * (table["a"].scale if "a" in table else 7.0), things.clear


@row
def another_object_at_the_same_address():
    class Thing:
        pass

    things = [Thing()]
    things[0].scale = 1.0

    def change():
        scale = things.pop().scale + 1
        gc.collect()
        things.append(Thing())
        things[0].scale = scale

    return lambda x: x * things[0].scale, change


@row
def a_module_that_is_loaded_again():
    path = FOLDER[0] / f"made_for_a_row_{next(count)}.py"
    numbers = itertools.count(1)

    def write():
        number = next(numbers)
        path.write_text(f"SCALE = {number}.0\ndef scaled(x):\n    return x * SCALE + {number}\n{'#' * number}\n")
        importlib.invalidate_caches()

    write()
    module = importlib.import_module(path.stem)

    def change():
        write()
        importlib.reload(module)

    return lambda x: module.scaled(x), change


@row
def a_module_that_takes_the_place_of_another():
    name = f"made_for_a_row_{next(count)}"
    scales = itertools.count(1)

    def change():
        module = types.ModuleType(name)
        module.SCALE = float(next(scales))
        sys.modules[name] = module

    change()
    space = {}
    exec(f"def scaled(x):\n    from {name} import SCALE\n    return x * SCALE\n", space)
    return space["scaled"], change


# ---- statements


@row
def a_match_of_a_mapping():
    message = {"kind": "scale", "by": 1.0}

    def f(x):
        match message:
            case {"kind": "scale", "by": by}:
                return x * by
            case {"kind": kind, **others}:
                return x * len(kind) + sum(others.values())

    def change():
        message["by"] += 1
        message["kind"] = "shift" if message["by"] == 3 else "scale"

    return f, change


@row
def a_match_by_position():
    class Point:
        __match_args__ = ("x", "y")
        x, y = 1.0, 2.0

    point = Point()

    def f(tensor):
        match point:
            case Point(first, second):
                return tensor * first + second * 10

    def change():
        Point.__match_args__ = Point.__match_args__[::-1]

    return f, change


@row
def a_match_with_a_guard():
    numbers, bound = [2], [3]

    def f(x):
        match numbers[0]:
            case 1 | 2 if numbers[0] < bound[0]:
                return x * 2
            case int(number):
                return x * number * 10

    def change():
        bound[0] -= 1

    return f, change


@row
def an_assignment_inside_an_expression():
    numbers = [1.0, 2.0]

    def f(x):
        if (length := len(numbers)) > 2 and (last := numbers[-1]):
            return x * length + last
        return x

    return f, lambda: numbers.append(float(len(numbers)))


@row
def closures_over_the_variable_of_a_loop():
    numbers = [1.0, 2.0]

    def f(x):
        functions = []
        for number in numbers:
            functions.append(lambda y: y * number)  # noqa: B023  (the last one is meant)
        return functions[0](x) + functions[1](x)

    def change():
        numbers[-1] += 1

    return f, change


@row
def a_group_of_exceptions():
    numbers = [1.0]

    def f(x):
        try:
            raise ExceptionGroup("all", [ValueError(numbers[0])])
        except* ValueError as error:
            scale = error.exceptions[0].args[0]
        return x * scale

    def change():
        numbers[0] += 1

    return f, change


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


# ---- what the framework's own code reads


@pytest.fixture(autouse=True)
def checks_as_they_were():
    before = D.Distribution._validate_args
    yield
    D.Distribution.set_default_validate_args(before)
    mt.sparse.check_sparse_tensor_invariants.disable()
    _global_optimizer_post_hooks.clear()


def switch(set_to, first=False):
    """Switches something on and off."""
    states = itertools.cycle([not first, first])
    set_to(first)
    return lambda: set_to(next(states))


def refused_or_mean(make):
    """What a distribution that may refuse its arguments has as its mean."""

    def f(x):
        try:
            return x * 0 + make(x).mean
        except ValueError:
            return x * 5

    return f


def whether_distributions_are_checked():
    return refused_or_mean(lambda x: D.Normal(0.0, -1.0)), switch(D.Distribution.set_default_validate_args)


def whether_distributions_of_the_users_are_checked():
    class Own(D.Normal):
        pass

    return refused_or_mean(lambda x: Own(0.0, -1.0)), switch(lambda on: setattr(Own, "_validate_args", on))


def what_is_checked_of_a_distribution_of_the_users():
    class Own(D.Normal):
        pass

    D.Distribution.set_default_validate_args(True)
    positive = {"scale": D.constraints.positive}
    return refused_or_mean(lambda x: Own(0.0, -1.0)), switch(
        lambda on: setattr(Own, "arg_constraints", positive if on else {})
    )


@row
def a_divergence_that_is_registered():
    class Own(D.Normal):
        pass

    own, scale = Own(mt.ones(3), mt.ones(3)), itertools.count(2)

    def change():
        by = next(scale)
        D.register_kl(Own, Own)(lambda p, q: p.loc * by)

    return lambda x: x * D.kl_divergence(own, own), change


@row
def a_hook_of_all_optimizers():
    weight = mt.ones(3, requires_grad=True)
    optimizer = mt.optim.SGD([weight], lr=0.1)
    hooks = []

    def f(x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()
        return weight.detach().clone()

    def add(optimizer, args, kwargs):
        with mt.no_grad():
            weight.add_(1)

    def change():
        if hooks:
            hooks.pop().remove()
        else:
            hooks.append(register_optimizer_step_post_hook(add))

    return f, change


@row
def an_attribute_of_a_transform():
    transform = D.AffineTransform(0.0, 2.0)

    def change():
        transform.scale += 1

    return lambda x: transform(x), change


@row
def the_parts_of_a_transform():
    transform = D.ComposeTransform([D.AffineTransform(0.0, 2.0)])
    return lambda x: transform(x), lambda: transform.parts.append(D.AffineTransform(1.0, 2.0))


@row
def the_kernel_of_a_custom_op():
    @mt.library.custom_op(f"test_forms::kernel{next(count)}", mutates_args=())
    def op(x: mt.Tensor) -> mt.Tensor:
        return x * 2

    scale = itertools.count(3)

    def change():
        by = next(scale)
        op.register_kernel("cpu")(lambda x: x * by)

    return lambda x: op(x), change


@row
def whether_sparse_tensors_are_checked():
    checks = mt.sparse.check_sparse_tensor_invariants

    def set_to(on):
        (checks.enable if on else checks.disable)()

    return lambda x: x * (2 if checks.is_enabled() else 5), switch(set_to)


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_each_call_gives_what_python_gives(name, jit_compile, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    FOLDER[:] = [tmp_path]
    row.check(name, jit_compile)
    for module in [module for module in sys.modules if module.startswith("made_for_a_row_")]:
        del sys.modules[module]


CHECKS = [
    whether_distributions_are_checked,
    whether_distributions_of_the_users_are_checked,
    what_is_checked_of_a_distribution_of_the_users,
]


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("make", CHECKS)
def test_a_check_that_is_switched_on_is_made(make, jit_compile):
    """It reads values, so that what must be compiled is refused then."""
    f, change = make()
    compiled, x = mt.function(f, jit_compile=jit_compile), mt.arange(3.0)
    answers = []
    for _ in range(6):
        answers.append(f(x).tolist())
        refused = contextlib.nullcontext()
        if jit_compile and answers[-1] == (x * 5).tolist():
            refused = pytest.raises(mt.InvalidArgumentError)
        with refused:
            assert compiled(x).tolist() == answers[-1]
        change()
    assert answers[:2] == [[0.0, 0.0, 0.0], [0.0, 5.0, 10.0]]
