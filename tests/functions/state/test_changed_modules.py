"""mt.function: modules, parameters and hooks that change between two calls are noticed."""

import functools
import itertools

import pytest
from changes import Changes, other_helper

import minitensor as mt
from minitensor import nn

row = Changes(globals())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.extra = None
        self.factor = 1.0
        self.layers = nn.ModuleList([nn.Tanh()])
        self.sequence = nn.Sequential(nn.Tanh(), nn.Sigmoid())
        self.names = ["a"]
        self.register_buffer("scale", None)
        self.register_parameter("shift", None)

    def forward(self, x):
        x = self.linear(x) * self.factor + len(self.names)
        for layer in self.layers:
            x = layer(x)
        x = self.sequence(x)
        if self.scale is not None:
            x = x * self.scale
        if self.shift is not None:
            x = x + self.shift
        if self.extra is not None:
            x = self.extra(x)
        if self.training:
            x = x + 1
        return x


def with_net(change):
    def make():
        mt.manual_seed(0)
        net = Net()
        return net, lambda: change(net)

    return make


def removes_hook(net):
    for handle in net.__dict__.setdefault("handles", []):
        handle.remove()


def twice(module, args, result):
    return result * 2


NET_CHANGES = {
    "a bias that was None": lambda net: setattr(net, "shift", nn.Parameter(mt.full((3,), 3.0))),
    "a buffer that was None": lambda net: setattr(net, "scale", mt.full((3,), 3.0)),
    "a child that was None": lambda net: setattr(net, "extra", nn.Tanh()),
    "a weight replaced": lambda net: setattr(net.linear, "weight", nn.Parameter(mt.ones(3, 3))),
    "a bias removed": lambda net: setattr(net.linear, "bias", None),
    "a child replaced": lambda net: setattr(net, "linear", nn.Linear(3, 3, bias=False)),
    "a child removed": lambda net: net.layers.__delitem__(0) if len(net.layers) else None,
    "a child appended": lambda net: net.layers.append(nn.Tanh()),
    "a child of a sequence appended": lambda net: net.sequence.append(nn.Tanh()),
    "a child of a sequence deleted": lambda net: net.sequence.__delitem__(0) if len(net.sequence) > 1 else None,
    "a child of a sequence replaced": lambda net: net.sequence.__setitem__(0, nn.ReLU()),
    "a child added by name": lambda net: net.sequence.add_module("late", nn.Tanh()),
    "an attribute": lambda net: setattr(net, "factor", 3.0),
    "a list": lambda net: net.names.append("b"),
    "evaluation": lambda net: net.eval(),
    "the mode of one": lambda net: setattr(net, "training", False),
    "a hook": lambda net: net.linear.register_forward_hook(twice),
    "a hook of the whole": lambda net: net.register_forward_hook(twice),
    "a hook before": lambda net: net.linear.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "forward of a child replaced": lambda net: setattr(net.linear, "forward", other_helper),
    "forward of its own replaced": lambda net: setattr(net, "forward", other_helper),
    "a method of a container": lambda net: setattr(net.sequence, "forward", other_helper),
    "a parameter written past setattr": lambda net: net.linear.__dict__.update(in_features=3, note=1),
    "the data of a weight": lambda net: setattr(net.linear.weight, "data", mt.ones(3, 3)),
    "a weight in place": lambda net: net.linear.weight.data.fill_(0.5),
}
for name, change in NET_CHANGES.items():
    row["a module: " + name] = with_net(change)


class HasParameters:
    def __init__(self, parameters):
        self.value = parameters


PLACES_OF_PARAMETERS = {
    "attribute": lambda p: functools.partial(getattr, HasParameters(p), "value"),
    "item": lambda p: functools.partial({"value": p}.get, "value"),
    "cell": lambda p: lambda: p,
}


def with_parameters(kind, place):
    def make():
        held = kind({"a": mt.ones(3)} if kind is nn.ParameterDict else [mt.ones(3)])
        find = PLACES_OF_PARAMETERS[place](held)

        def change():
            key = str(len(held)) if kind is nn.ParameterDict else None
            held.append(mt.ones(3)) if key is None else held.update({key: mt.ones(3)})

        return lambda x: x * len(find()), change

    return make


def with_other_parameters(kind, count):
    """A container that is made anew, of as many parameters; the last one is another."""

    def make():
        def made(value):
            parameters = [nn.Parameter(mt.full((3,), float(n))) for n in (*range(count - 1), value)]
            return kind({str(k): p for k, p in enumerate(parameters)} if kind is nn.ParameterDict else parameters)

        holder, values = HasParameters(made(5)), itertools.count(6)

        def change():
            holder.value = made(next(values))

        return lambda x: x * list(holder.value.parameters())[-1], change

    return make


for kind in (nn.ParameterDict, nn.ParameterList):
    for count in (1, 2):
        row[f"a new {kind.__name__} of {count}"] = with_other_parameters(kind, count)
    for place in PLACES_OF_PARAMETERS:
        row[f"a {kind.__name__} by {place}"] = with_parameters(kind, place)


@row
def a_hook_that_is_removed():
    mt.manual_seed(0)
    net = Net()
    handle = net.linear.register_forward_hook(twice)
    return net, handle.remove


@row
def an_attribute_of_a_layer():
    flat = nn.Flatten(0)
    return lambda x: flat(x.reshape(3, 1)), lambda: setattr(flat, "start_dim", 1)


@row
def an_attribute_that_hides_a_tensors_method():
    w = mt.ones(3)
    return lambda x: x * w.sum(), lambda: setattr(w, "sum", lambda: 5.0)


@row
def an_attribute_that_hides_one_of_a_tensors_class():
    class Own(mt.Tensor):
        scale = 2.0

    w = mt.ones(3).as_subclass(Own)
    return lambda x: x * w.scale, lambda: setattr(w, "scale", 5.0)


@row
def a_method_of_a_module_class_replaced():
    class Own(nn.Module):
        def forward(self, x):
            return x + 1

    net = Own()
    return lambda x: net(x), lambda: setattr(Own, "forward", lambda self, x: x - 9)


@row
def a_list_of_modules():
    layers = [nn.Tanh()]

    def f(x):
        for layer in layers:
            x = layer(x)
        return x

    return f, lambda: layers.append(nn.Tanh())


@row
def a_property_that_hides_a_parameter():
    class Hidden(nn.Linear):
        pass

    mt.manual_seed(0)
    net, factors = Hidden(3, 3), itertools.count(2)

    def change():
        weight = mt.eye(3) * next(factors)
        Hidden.weight = property(lambda self: weight)

    return net, change


@row
def an_attribute_of_a_class_that_hides_a_layers():
    class Hidden(nn.LeakyReLU):
        @property
        def negative_slope(self):
            return slopes[0]

        @negative_slope.setter
        def negative_slope(self, slope):
            pass

    slopes = [0.5]
    net = Hidden()

    def change():
        Hidden.negative_slope = 0.25
        slopes[0] += 1

    net.__dict__["negative_slope"] = 0.125
    return lambda x: net(x - 2), change


@row
def attributes_of_a_layer_in_a_dict_that_others_have():
    layer, slopes = nn.LeakyReLU(0.5), itertools.count(2)

    def f(x):
        new = nn.LeakyReLU.__new__(nn.LeakyReLU)
        new.__dict__ = layer.__dict__
        return new(x - 2)

    return f, lambda: setattr(layer, "negative_slope", float(next(slopes)))


@row
def a_hook_of_a_leaf_whose_gradient_it_takes():
    weight, factors = mt.ones(3, requires_grad=True), itertools.count(2)

    def change():
        factor = next(factors)
        weight.register_hook(lambda gradient: gradient * factor)

    return lambda x: mt.autograd.grad((x * weight).sum(), weight)[0], change


@row
def a_hook_of_a_leaf_that_is_taken_away():
    weight = mt.ones(3, requires_grad=True)
    handle = weight.register_hook(lambda gradient: gradient * 2)
    return lambda x: mt.autograd.grad((x * weight).sum(), weight)[0], handle.remove


@row
def hooks_that_it_puts_on_a_leaf():
    weight = mt.ones(3, requires_grad=True)

    def f(x):
        weight.register_hook(lambda gradient: gradient * 2)
        return mt.autograd.grad((x * weight).sum(), weight)[0]

    return f, lambda: None


@row
def a_history_that_a_gradient_is_taken_through():
    leaf = mt.ones(3, requires_grad=True)
    result = leaf * 2

    def change():
        result.mul_(3)

    return lambda x: mt.autograd.grad((x * result).sum(), leaf, retain_graph=True)[0], change


@row
def a_history_that_is_another_by_the_leaf_itself():
    leaf = mt.ones(3, requires_grad=True)
    result = leaf.clone()

    def change():
        result.mul_(leaf)

    return lambda x: mt.autograd.grad((x * result).sum(), leaf, retain_graph=True)[0], change


@row
def a_leaf_whose_gradient_two_passes_take():
    weight, factors = mt.ones(3, requires_grad=True), itertools.count(2)

    def f(x):
        first = mt.autograd.grad((x * weight * weight).sum(), weight, create_graph=True)[0]
        return mt.autograd.grad(first.sum(), weight)[0]

    def change():
        factor = next(factors)
        weight.register_hook(lambda gradient: gradient * factor)

    return f, change


@pytest.mark.parametrize("jit_compile", [True, None, False])
@pytest.mark.parametrize("name", row)
def test_changed_modules_are_noticed(name, jit_compile):
    row.check(name, jit_compile)
