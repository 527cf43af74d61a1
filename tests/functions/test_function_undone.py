"""mt.function: state that a function changes and puts back, as libraries do with scopes, is no change."""

import threading

import pytest

import minitensor as mt
from minitensor import nn

LOCAL = threading.local()
STACK = []
NUMBER = 1.0


class Thing:
    def __init__(self):
        self.called = False
        self.factor = 2.0
        self.table = {"a": 1}


def kept(function, *args):
    """How many calls of five had a program, and whether all gave what plain Python gives."""
    compiled = mt.function(function, jit_compile=True)
    for _ in range(5):
        assert compiled(*args).tolist() == function(*args).tolist()
    return compiled.hits


def scoped(x):
    STACK.append("scope")
    try:
        return x * len(STACK)
    finally:
        STACK.pop()


def an_attribute(thing):
    def function(x):
        thing.called = True
        before, thing.factor = thing.factor, 3.0
        found = x * thing.factor
        thing.factor = before
        return found + thing.factor

    return function


def a_global(x):
    global NUMBER
    before, NUMBER = NUMBER, 5.0
    found = x * NUMBER
    NUMBER = before
    return found


def a_thread_local(x):
    before = getattr(LOCAL, "depth", 0)
    LOCAL.depth = before + 1
    found = x * LOCAL.depth
    LOCAL.depth = before
    return found


def a_dict(thing):
    def function(x):
        thing.table["b"] = 2
        found = x * len(thing.table)
        del thing.table["b"]
        return found

    return function


def an_outer_variable():
    n = 1

    def function(x):
        nonlocal n
        n = n + 1
        found = x * n
        n = 1
        return found

    return function


def a_module():
    module = nn.Linear(3, 3)
    module.ready = False

    def function(x):
        module.ready = True
        return module(x).detach()

    return function


@pytest.mark.parametrize(
    ("function", "hits"),
    [
        (scoped, 4), (an_attribute(Thing()), 3), (a_global, 4), (a_thread_local, 3), (a_dict(Thing()), 4),
        (an_outer_variable(), 4), (a_module(), 3),
    ],
)  # fmt: skip
def test_what_is_put_back_keeps_the_program(function, hits):
    assert kept(function, mt.ones(3)) >= hits


def test_what_stays_is_found_again():
    thing = Thing()

    @mt.function(jit_compile=True)
    def f(x):
        thing.last = x.shape[0]
        return x * 2

    for n in (2, 2, 2, 3, 2, 3, 3, 3, 2):
        f(mt.ones(n))
        assert thing.last == n

    def counts(x):
        thing.factor += 1
        return x * thing.factor

    compiled = mt.function(counts, jit_compile=True)
    assert [compiled(mt.ones(1)).item() for _ in range(4)] == [3, 4, 5, 6]
    assert compiled.hits == 0


def test_the_state_of_before_is_guarded():
    thing = Thing()
    function = an_attribute(thing)
    compiled = mt.function(function, jit_compile=True)
    for factor in (2.0, 2.0, 2.0, 7.0, 7.0, 2.0):
        thing.factor = factor
        assert compiled(mt.ones(1)).item() == 3 + factor
    STACK.append("outer")
    try:
        assert mt.function(scoped, jit_compile=True)(mt.ones(1)).item() == 2
    finally:
        STACK.pop()


def test_threads_have_locals_of_their_own():
    local = threading.local()
    local.value = 2.0

    @mt.function(jit_compile=True)
    def f(x):
        return x * getattr(local, "value", 5.0)

    found = []
    assert [f(mt.ones(1)).item() for _ in range(3)] == [2, 2, 2]
    thread = threading.Thread(target=lambda: found.append(f(mt.ones(1)).item()))
    thread.start()
    thread.join()
    assert found == [5]
    local.value = 3.0
    assert f(mt.ones(1)).item() == 3
    assert f.hits >= 2


def test_attributes_of_arguments():
    @mt.function(jit_compile=True)
    def f(x, y):
        return x * getattr(x, "scale", 2.0) + y

    x, y = mt.ones(1), mt.zeros(1)
    assert [f(x, y).item() for _ in range(3)] == [2, 2, 2]
    assert f.hits == 2
    x.scale = 4.0
    assert f(x, y).item() == 4
    x.scale = 5.0
    assert f(x, y).item() == 5
    del x.scale
    assert f(x, y).item() == 2
    y.title = "y"
    assert f(x, y).item() == 2


def test_attributes_of_arguments_that_hide_methods():
    @mt.function(jit_compile=True)
    def f(x):
        return x.exp() * 1

    plain, other, hides = (mt.zeros(1) for _ in range(3))
    other.title = hides.title = "something"
    hides.exp = lambda: mt.full((1,), 7.0)
    for _ in range(3):
        assert [f(x).item() for x in (plain, other, hides)] == [1, 1, 7]
    assert f.hits >= 2
    del hides.exp
    assert f(hides).item() == 1


def test_id_of_what_was_there_before():
    things = [Thing(), Thing()]
    places = {id(thing): i for i, thing in enumerate(things)}

    @mt.function(jit_compile=True)
    def f(x):
        return x * sum(places[id(thing)] + 1 for thing in things)

    assert [f(mt.ones(1)).item() for _ in range(3)] == [3, 3, 3]
    assert f.hits == 2
    things.pop()
    assert f(mt.ones(1)).item() == 1

    @mt.function(jit_compile=True)
    def fresh(x):
        return x * (id(Thing()) > 0)

    for _ in range(3):
        fresh(mt.ones(1))
    assert fresh.hits == 0


def test_parameters_in_a_new_container():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = [nn.Parameter(mt.ones(2))]
            self.held = nn.ParameterDict({"weight": self.weight[0]})

    model = Model()

    @mt.function(jit_compile=True)
    def step(x):
        model.zero_grad()
        (model.weight[0] * x).sum().backward()
        return model.weight[0].grad * 1

    for _ in range(6):
        model.train()
        model.held = nn.ParameterDict({"weight": model.weight[0]})
        assert step(mt.ones(2)).tolist() == [1, 1]
        model.eval()
    assert step.hits >= 3
    hits, other = step.hits, nn.Parameter(mt.ones(3))
    other.grad = mt.ones(3)
    model.train()
    model.held = nn.ParameterDict({"weight": model.weight[0], "other": other})
    step(mt.ones(2))
    assert step.hits == hits
    assert other.grad is None


def test_dicts_that_c_made_while_it_called_python():
    def f(x):
        made = dict(map(tuple, [["a", x.shape[0]]]))
        made["a"] = 2.0
        return x * made.pop("a")

    assert kept(f, mt.ones(2)) >= 3
