"""mt.function: forms of Python's state that programs seldom have, each changed between calls."""

import collections
import contextvars
import functools
import gc
import importlib
import itertools
import sys
import types
import weakref

import pytest
from function_rows import Rows

row = Rows()
count = itertools.count()
FOLDER = []  # of modules that rows write


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


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_changed_forms_are_noticed(name, jit_compile, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    FOLDER[:] = [tmp_path]
    row.check(name, jit_compile)
    for module in [module for module in sys.modules if module.startswith("made_for_a_row_")]:
        del sys.modules[module]
