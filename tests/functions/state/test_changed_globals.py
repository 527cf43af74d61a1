"""mt.function: Python's state that changes between two calls is noticed, whatever it is and however it is read."""

import builtins
import itertools

import pytest
from changes import Changes, helper, other_helper

import minitensor as mt

row = Changes(globals())

NUMBER = 1.0
FLAG = True
NOTHING = None
TENSOR = mt.ones(3)


# ---- globals


@row
def a_global_number():
    return lambda x: x * NUMBER, row.setting(NUMBER=3.0)


@row
def a_global_flag():
    return lambda x: x + 1 if FLAG else x - 1, row.setting(FLAG=False)


@row
def a_global_none():
    return lambda x: x if NOTHING is None else x * NOTHING, row.setting(NOTHING=4.0)


@row
def a_global_text():
    globals()["MODE"] = "add"
    return lambda x: x + 1 if MODE == "add" else x - 1, row.setting(MODE="sub")  # noqa: F821


@row
def a_global_tensor_replaced():
    return lambda x: x + TENSOR, row.setting(TENSOR=mt.full((3,), 9.0))


@row
def the_shape_of_a_global_tensor():
    return lambda x: x * TENSOR.shape[0], row.setting(TENSOR=mt.ones(7))


@row
def a_global_function_replaced():
    return lambda x: helper(x), row.setting(helper=other_helper)


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
    return lambda x: x * abs(-2), row.setting(abs=lambda v: 10.0)


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


@row
def evaluated_code():
    return lambda x: x * eval("NUMBER"), row.setting(NUMBER=6.0)


@row
def the_globals_themselves():
    return lambda x: x * globals()["NUMBER"], row.setting(NUMBER=6.0)


@row
def how_classes_are_built():
    values = itertools.count(2)
    space = {"__builtins__": {**vars(builtins)}, "__name__": "made_up"}
    exec("def f(x):\n    class Made:\n        value = 1\n    return x * Made.value", space)

    def change():
        value = next(values)
        space["__builtins__"]["__build_class__"] = lambda body, name, *bases: type(name, bases, {"value": value})

    return space["f"], change


@pytest.mark.parametrize("jit_compile", [True, None, False])
@pytest.mark.parametrize("name", row)
def test_changed_globals_are_noticed(name, jit_compile):
    row.check(name, jit_compile)
