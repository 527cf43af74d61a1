"""mt.function: which calls run a kept program, and which are recorded each time, because Python could notice."""

from collections import namedtuple

import numpy as np
import pytest

import minitensor as mt
from minitensor.nn import functional as F
from minitensor_jit.functions.arguments import flatten

Pair = namedtuple("Pair", "first second")


OTHER = mt.Generator()
OTHER_MEMORY = mt.zeros(4)
OTHER_STREAM = "it draws random numbers from other generators than the CPU's default one"


def same(a, b):
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def equal(a, b):
    (one, structure), (other, expected) = flatten(a), flatten(b)
    assert structure == expected
    for x, y in zip(one, other, strict=True):
        same(x, y)


RESULTS = [
    lambda x: {"a": x + 1, "b": [x * 3, -0.0]},
    lambda x: ((x + 1, x * 3), [x - 4]),
    lambda x: (x + 1, None, 3, "text", 2.5, True, slice(1, None)),
    lambda x: Pair(x + 1, Pair(x * 2, ())),
    lambda x: [[], {}, x.exp()],
    lambda x: {1: x + 1, None: {"deep": (x * 2,)}},
]


@pytest.mark.parametrize("fn", RESULTS)
def test_nested_results_are_built_without_python(fn):
    f = mt.function(fn, jit_compile=True)
    for k in range(3):
        x = mt.rand(4)
        equal(f(x), fn(x))
        assert (f.programs, f.hits) == (1, k)
    # Every call has containers of its own.
    x = mt.rand(4)
    assert f(x) is not f(x)


def test_functions_that_return_nothing_have_programs():
    count = mt.zeros(())

    def update(x, *, rate=0.5):
        count.add_(1)
        x.mul_(rate)

    f = mt.function(update, jit_compile=True)
    x, expected = mt.rand(5), None
    for k in range(4):
        expected = x * 0.5
        assert f(x, rate=0.5) is None
        same(x, expected)
        assert (count.item(), f.hits) == (k + 1, k)


def test_gradients_that_are_read_may_be_others_at_the_next_call():
    w = mt.rand(4).requires_grad_()

    def update():
        with mt.no_grad():
            if w.grad is not None:
                w.sub_(0.1 * w.grad)
                w.grad = None

    f = mt.function(update, jit_compile=True)
    for k in range(1, 4):
        f()
        expected = w.detach() - 0.1 * k
        (w * k).sum().backward()
        f()
        same(w, expected)
        assert w.grad is None
    assert (f.programs, f.hits) == (2, 4)


def test_structures_with_too_few_or_too_many_tensors():
    _, structure = flatten([mt.ones(1), {"a": mt.ones(1)}])
    one, two = mt.ones(1), mt.zeros(1)
    assert mt._C.build_structure(structure, [one, two]) == [one, {"a": two}]
    with pytest.raises(TypeError, match="more tensors"):
        mt._C.build_structure(structure, [one])
    with pytest.raises(TypeError, match="fewer tensors"):
        mt._C.build_structure(structure, [one, two, one])


def test_keywords_in_another_order_and_positional_ones():
    f = mt.function(lambda x, a=1.0, b=2.0: x * a + b, jit_compile=True)
    x = mt.rand(3)
    for _ in range(3):
        same(f(x, a=3.0, b=4.0), x * 3.0 + 4.0)
        same(f(x, b=4.0, a=3.0), x * 3.0 + 4.0)
        same(f(x, 3.0, b=5.0), x * 3.0 + 5.0)
        same(f(x, a=3.0), x * 3.0 + 2.0)
        same(f(x=x, a=-0.0), x * -0.0 + 2.0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        f(x, c=3.0)
    f.clear()
    assert f.programs == 0
    same(f(x, a=3.0), x * 3.0 + 2.0)


def test_an_argument_with_a_history():
    def fn(h):
        (g,) = mt.autograd.grad((h * h).sum(), h)
        return g, (h * 3).detach()

    f = mt.function(fn, jit_compile=True)
    for k in range(4):
        h = mt.rand(4).requires_grad_() * (k + 1.0)
        for got, want in zip(f(h), fn(h), strict=True):
            same(got, want)
            assert not got.requires_grad
        assert f.hits == k
    # A leaf is of another kind: functions can ask for that.
    leaf = mt.rand(4).requires_grad_()
    same(f(leaf)[0], leaf * 2)
    assert (f.hits, f.programs) == (3, 2)


def test_gradients_through_the_history_of_an_argument_are_its_own():
    w = mt.rand(4).requires_grad_()
    f = mt.function(lambda h: mt.autograd.grad((h * h).sum(), w)[0], jit_compile=True)
    for make in (lambda: w * 2.0, lambda: w.exp(), lambda: w * w.sum(), lambda: w * 2.0):
        same(f(make()), mt.autograd.grad((make() ** 2).sum(), w)[0])
    assert f.hits == 0


def test_an_update_of_an_argument_with_a_history():
    f = mt.function(lambda h: h.mul_(3.0).detach(), jit_compile=True)
    for _ in range(3):
        w = mt.rand(4).requires_grad_()
        h = w * 2.0
        same(f(h), w * 6.0)
        h.sum().backward()
        assert w.grad.tolist() == [6.0] * 4
    assert f.hits == 0
    # Without gradients it has no history to change.
    f = mt.function(lambda h: h.mul_(3.0).sum(), jit_compile=True)
    for k in range(3):
        h = mt.rand(4).requires_grad_() * 2.0
        expected = h.detach() * 3.0
        with mt.no_grad():
            same(f(h), expected.sum())
        same(h, expected)
        assert f.hits == k


@pytest.mark.parametrize("history", [False, True])
def test_hooks_of_arguments_are_called_each_time(history):
    f = mt.function(lambda h: mt.autograd.grad((h * h).sum(), h)[0], jit_compile=True)

    def argument():
        w = mt.rand(4).requires_grad_()
        return w * 2.0 if history else w

    f(argument())
    seen = []
    for k in range(3):
        h = argument()
        h.register_hook(lambda g: seen.append(g) or g * 10)
        same(f(h), 20 * h)
        assert len(seen) == k + 1
    assert f.hits == 0
    same(f(plain := argument()), 2 * plain)
    assert f.hits == 1


def test_a_gradient_that_is_to_be_kept():
    f = mt.function(lambda h: (h * h).sum().backward(), jit_compile=True)
    for _ in range(3):
        w = mt.rand(4).requires_grad_()
        h = w * 2.0
        h.retain_grad()
        assert f(h) is None
        same(h.grad, 2 * h)
        same(w.grad, 4 * h)
    assert f.hits == 0


def several(x):
    mt.rand(7)  # takes its place, though nobody reads it
    noise = mt.randn(3, 4)
    return F.dropout(x, 0.3) + noise, x.clone().bernoulli_(0.5), mt.randint(0, 9, (4,)), noise.clone().normal_()


@pytest.mark.parametrize("fn", [several, lambda x: (x * mt.rand(4), mt.randperm(5)), lambda x: x.uniform_().clone()])
def test_random_numbers_of_kept_programs_are_those_of_eager_calls(fn):
    f = mt.function(fn, jit_compile=True)

    def run(call):
        mt.manual_seed(11)
        results = []
        for k in range(4):
            if k == 3:
                mt.manual_seed(5)
            results += [call(mt.ones(3, 4)), mt.rand(2)]
        return results

    equal(run(f), run(fn))
    assert f.hits == 3
    equal(run(f), run(fn))
    assert f.hits == 7


def test_dropout_in_a_step_that_is_kept():
    w = mt.rand(6, 6)

    def step(w, x):
        p = w.detach().requires_grad_()
        loss = F.dropout((x @ p).tanh(), 0.5).pow(2).mean()
        w.sub_(0.5 * mt.autograd.grad(loss, p)[0])
        return loss.detach()

    f = mt.function(step, jit_compile=True)
    compiled, eager = w.clone(), w.clone()
    x = mt.rand(5, 6)
    for k in range(4):
        mt.manual_seed(k)
        loss = f(compiled, x)
        mt.manual_seed(k)
        same(loss, step(eager, x))
        same(compiled, eager)
        assert f.hits == k


def test_seeds_that_a_function_sets_hold_in_every_call():
    def fn(x):
        mt.manual_seed(3)
        return x + mt.rand(4)

    f = mt.function(fn, jit_compile=True)
    x = mt.zeros(4)
    mt.manual_seed(3)
    first = f(x)
    for _ in range(2):
        same(f(x), first)
        same(mt.rand(2), (fn(x), mt.rand(2))[1])
    assert f.hits == 0


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (lambda w, x: x * 2.0, None),
        (lambda w, x: (w * x).sum(), None),
        (lambda w, x: setattr(w, "grad", None) or (w * x).sum().backward(), None),
        (lambda w, x: x + mt.rand(4), None),
        (lambda w, x: x + mt.rand(4, generator=mt.Generator()), "it sets the state of a generator"),
        (lambda w, x: x + mt.rand(4, generator=OTHER), OTHER_STREAM),
        (lambda w, x: mt.default_generator._reserve() and x * 2, OTHER_STREAM),
        (lambda w, x: (w.grad, x * 2)[1], None),
        (lambda w, x: setattr(w, "grad", None) or x * 2, None),
        (lambda w, x: setattr(w, "data", w.data * 2.0) or x * 2, "it sets the data of a tensor"),
        (lambda w, x: (x * 2, x[1:]), None),
        (lambda w, x: OTHER_MEMORY.add_(x)[1:], "a result is a view of memory that the function writes"),
        (lambda w, x: (x * 2, object()), "its result has things whose contents can't be compared"),
    ],
)
def test_explain_says_why_calls_are_recorded(fn, why):
    w, x = mt.rand(4).requires_grad_(), mt.rand(4)
    f = mt.function(fn, jit_compile=True)
    for _ in range(2):
        f(w, x)
    assert f.hits == (why is None)
    flushes = mt.jit.explain(f)(w, x).to_json()["flushes"]
    expected = "the end of a function" + (f" that is recorded at every call: {why}" if why else "")
    assert [entry["reason"] for entry in flushes] == [expected]
    assert flushes[0]["file"] == __file__
