"""mt.function: what the framework's own code reads and programs switch between calls: checks, hooks, registries."""

import contextlib
import itertools

import pytest
from function_rows import Rows

import minitensor as mt
import minitensor.distributions as D
from minitensor.optim.optimizer import _global_optimizer_post_hooks, register_optimizer_step_post_hook

row = Rows()
count = itertools.count()


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


@row
def an_attribute_of_a_context_that_is_kept():
    context, weight = mt.autocast("cpu", dtype=mt.bfloat16), mt.full((3, 3), 1.01)

    def f(x):
        with context:
            return x @ weight

    dtypes = itertools.cycle([mt.float16, mt.bfloat16])
    return f, lambda: setattr(context, "fast_dtype", next(dtypes))


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_changed_switches_are_noticed(name, jit_compile):
    row.check(name, jit_compile)


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
