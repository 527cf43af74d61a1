"""mt.function: settings of the framework's own that are made between two calls, or around one."""

import pytest
from function_rows import Rows

import minitensor as mt
from minitensor import nn
from minitensor.nn.utils import parametrize
from minitensor.utils import _pytree as pytree

row = Rows()


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight + weight.T


def layer():
    mt.manual_seed(0)
    made = nn.Linear(3, 3, bias=False)
    parametrize.register_parametrization(made, "weight", Symmetric())
    return made


@row
def a_cache_of_parametrized_tensors():
    made, open_ = layer(), []

    def change():
        if open_:
            open_.pop().__exit__(None, None, None)
        else:
            open_.append(parametrize.cached())
            open_[0].__enter__()
            made.weight  # noqa: B018  (it is kept)
            with mt.no_grad():
                made.parametrizations.weight.original.mul_(2)

    return lambda x: made.weight.detach() @ x, change


@row
def a_cache_that_a_layer_reads():
    made, open_ = layer(), []

    def change():
        if open_:
            open_.pop().__exit__(None, None, None)
        else:
            open_.append(parametrize.cached())
            open_[0].__enter__()
            made.weight  # noqa: B018  (it is kept)
            with mt.no_grad():
                made.parametrizations.weight.original.mul_(2)

    return lambda x: made(x).detach(), change


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


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    row.check(name, jit_compile)
