"""Calls of autograd, and assignments of parts, that a class takes over by `__torch_function__`.

Each test runs here and, where it is installed, in PyTorch.
"""

import pytest
from leaves import leaf

pytestmark = pytest.mark.filterwarnings("ignore")


class Other:
    """No tensor, but a class that takes calls over."""

    def __init__(self):
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func.__name__, args, kwargs or {}))
        return "taken"


def test_gradients_of_a_subclass_are_its(lib):
    class Sub(lib.Tensor):
        pass

    x = leaf(lib, 1.0, 2.0)
    z = (x * 2).as_subclass(Sub).sum()
    (found,) = lib.autograd.grad(z, x, retain_graph=True)
    assert type(found) is Sub
    assert found.tolist() == [2.0, 2.0]
    named = lib.autograd.grad(z, {"x": x}, retain_graph=True)
    assert type(named["x"]) is Sub
    assert lib.autograd.backward(z) is None
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("several", [False, True])
def test_who_is_asked_for_gradients(lib, several):
    x, other = leaf(lib, 1.0, 2.0), Other()
    given = [other] if several else other
    assert lib.autograd.grad(given, x, create_graph=True) == "taken"
    assert lib.autograd.grad(x.sum(), given) == "taken"
    assert lib.autograd.backward(given) == "taken"
    assert lib.autograd.backward(x.sum(), inputs=[other]) == "taken"
    assert [name for name, _, _ in other.calls] == ["grad", "grad", "backward", "backward"]
    assert other.calls[0][1] == ((other,), (x,))
    assert other.calls[0][2]["create_graph"] is True
    assert other.calls[2][1] == ((other,),)
    assert other.calls[2][2]["inputs"] is None
    assert other.calls[3][2]["inputs"] == (other,)
    assert x.grad is None


def test_a_mode_sees_gradients(lib):
    from importlib import import_module

    class Seen(import_module(f"{lib.__name__}.overrides").TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names = []
    x = leaf(lib, 1.0, 2.0)
    z = x.sum()
    with Seen():
        lib.autograd.grad(z, x, retain_graph=True)
        lib.autograd.backward(z)
    assert names == ["grad", "backward"]
    assert x.grad.tolist() == [1.0, 1.0]


def test_who_is_asked_for_an_assignment(lib):
    x, other = lib.zeros(2), Other()
    x[0] = other
    x[other] = 1.0
    x[:, other] = 1.0
    assert [name for name, _, _ in other.calls] == ["__setitem__"] * 3
    assert other.calls[0][1][1:] == (0, other)
    assert x.tolist() == [0.0, 0.0]
    with pytest.raises(TypeError):
        x[0] = object()
