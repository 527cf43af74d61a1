"""mt.function: settings of the framework's own that are made between two calls, or around one; copies of tensors."""

import contextlib

import pytest
from function_rows import Rows

import minitensor as mt
from minitensor import nn
from minitensor.nn.utils import parametrize
from minitensor.utils import _pytree as pytree

row = Rows()
OPEN = contextlib.ExitStack()


def entered_and_left(context, then=lambda: None):
    """Enters what `context` gives, does `then`, and leaves it the next time."""
    OPEN.close()
    is_open = []

    def change():
        if is_open:
            is_open.clear()
            OPEN.close()
        else:
            is_open.append(OPEN.enter_context(context()) or True)
            then()

    return change


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    OPEN.close()


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight + weight.T


def layer():
    mt.manual_seed(0)
    made = nn.Linear(3, 3, bias=False)
    parametrize.register_parametrization(made, "weight", Symmetric())
    return made


def is_kept(made):
    made.weight  # noqa: B018
    with mt.no_grad():
        made.parametrizations.weight.original.mul_(2)


@row
def a_cache_of_parametrized_tensors():
    made = layer()
    return lambda x: made.weight.detach() @ x, entered_and_left(parametrize.cached, lambda: is_kept(made))


@row
def a_cache_that_a_layer_reads():
    made = layer()
    return lambda x: made(x).detach(), entered_and_left(parametrize.cached, lambda: is_kept(made))


@row
def a_class_that_is_registered_as_a_container():
    class Pair:
        def __init__(self, *parts):
            self.parts = parts

    pair, registered = Pair(2.0, 3.0), []

    def change():
        if not registered:
            pytree.register_pytree_node(Pair, lambda p: (list(p.parts), None), lambda parts, _: Pair(*parts))
            registered.append(True)

    return lambda x: x * len(pytree.tree_leaves([pair, 1.0])), change


@row
def torch_function_added_to_a_class():
    class Other:
        def __radd__(self, other):
            return other + 1

    other = Other()

    def change():
        Other.__torch_function__ = classmethod(lambda *_: mt.ones(3) * 9)

    return lambda x: x + other, change


@row
def hooks_for_saved_tensors_around_gradients_that_are_taken_inside():
    w = mt.ones(3, requires_grad=True)
    change = entered_and_left(lambda: mt.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t))
    return lambda x: mt.autograd.grad((w * x).sin().sum(), w)[0], change


@row
def the_class_of_a_tensor():
    class Other(mt.Tensor):
        pass

    t = mt.ones(3)
    return lambda x: x + 1 if type(t) is mt.Tensor else x - 1, lambda: setattr(t, "__class__", Other)


@row
def a_class_with_torch_function_of_a_tensor():
    class Other(mt.Tensor):
        @classmethod
        def __torch_function__(cls, func, kinds, args=(), kwargs=None):
            return mt.ones(3) * 9

    t = mt.ones(3)
    return lambda x: mt.mul(x, t), lambda: setattr(t, "__class__", Other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("jit_compile", [True, None])
def test_anomalies_are_looked_for_in_gradients_that_are_taken_inside(jit_compile):
    w = mt.zeros(3, requires_grad=True)
    f = mt.function(lambda x: mt.autograd.grad((w * x).sqrt().sum(), w)[0], jit_compile=jit_compile)
    for _ in range(3):
        assert f(mt.zeros(3)).isnan().all()
    error = mt.InvalidArgumentError if jit_compile else RuntimeError  # it reads values
    with mt.autograd.detect_anomaly(check_nan=True), pytest.raises(error):
        f(mt.zeros(3))
    assert f(mt.zeros(3)).isnan().all()


COPIES = {
    "tensor": lambda x, t: mt.tensor(x),
    "tensor of a dtype": lambda x, t: mt.tensor(x, dtype=mt.float64),
    "tensor of what is computed": lambda x, t: mt.tensor(x * 2) + 1,
    "tensor from outside": lambda x, t: x * 0 + mt.tensor(t),
    "new_tensor": lambda x, t: x.new_tensor(x),
    "asarray": lambda x, t: mt.asarray(x, copy=True),
    "Parameter": lambda x, t: mt.nn.Parameter(mt.tensor(x)).detach(),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("way", COPIES)
def test_copies_have_the_values_of_each_call(way, jit_compile):
    t = mt.zeros(3)
    f = mt.function(lambda x: COPIES[way](x, t), jit_compile=jit_compile)
    kept = []
    for k in range(4):
        t.fill_(k)
        x = mt.arange(3.0) + k
        kept.append((f(x), COPIES[way](x, t)))
    for got, wanted in kept:
        assert got.dtype == wanted.dtype
        assert got.tolist() == wanted.tolist()


def test_a_copy_is_no_view_of_what_it_was_made_of():
    def body(x):
        made = mt.tensor(x)
        x.add_(1)
        made.mul_(2)
        return made

    f = mt.function(body, jit_compile=True)
    for k in range(3):
        x = mt.ones(2) * k
        assert f(x).tolist() == [2.0 * k] * 2
        assert x.tolist() == [k + 1.0] * 2


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    row.check(name, jit_compile)
