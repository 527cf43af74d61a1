"""Arguments of compiled functions that these reach by themselves too: by closures, defaults, attributes, modules."""

import contextlib
import types

import pytest

import minitensor as mt


class Holder:
    def __init__(self, weight):
        self.parts = {"weights": [weight]}

    def call(self, w):
        return (w * self.parts["weights"][0]).sum()


def by_closure(p):
    return lambda w: (w * p).sum()


def by_default(p):
    return lambda w, q=p: (w * q).sum()


def by_helper(p):
    def helper(w):
        return w * p

    return lambda w: helper(w).sum()


def by_module(p):
    settings = types.ModuleType("settings")
    settings.inner = types.ModuleType("settings.inner")
    settings.inner.weight = p
    return lambda w: (w * settings.inner.weight).sum()


def by_slot(p):
    class Slots:
        __slots__ = ("weight",)

    slots = Slots()
    slots.weight = p
    return lambda w: (w * slots.weight).sum()


def by_class(p):
    class Settings:
        weight = p

    return lambda w: (w * Settings.weight).sum()


def by_class_of_object(p):
    class Settings:
        weight = p

    settings = Settings()
    return lambda w: (w * settings.weight).sum()


class Base:
    def scaled(self, w):
        raise NotImplementedError


def by_method(p):
    class Model(Base):
        def scaled(self, w):
            return w * p

    model = Model()
    return lambda w: model.scaled(w).sum()


def by_method_of_a_method(p):
    class Model(Base):
        def scaled(self, w):
            return w * p

        def call(self, w):
            return self.scaled(w).sum()

    return Model().call


def by_property(p):
    class Settings:
        @property
        def weight(self):
            return p

    settings = Settings()
    return lambda w: (w * settings.weight).sum()


def by_operator(p):
    class Factor:
        def __rmul__(self, other):
            return other * p

        def __rmatmul__(self, other):
            return other * p

    factor = Factor()
    return lambda w: factor.__rmul__(w).sum()


def by_class_method(p):
    class Settings:
        @classmethod
        def scaled(cls, w):
            return w * p

    return lambda w: Settings.scaled(w).sum()


def by_attribute_of_any_name(p):
    class Settings:
        def weight(self):
            return p

    settings, name = Settings(), "".join(["wei", "ght"])
    return lambda w: (w * getattr(settings, name)()).sum()


def by_module_of_layers(p):
    class Layer(mt.nn.Module):
        def forward(self, w):
            return w * p

    layer = Layer()
    return lambda w: layer(w).sum()


WAYS = [by_closure, by_default, by_helper, by_module, by_slot, by_class, by_class_of_object, lambda p: Holder(p).call]
WAYS += [by_method, by_method_of_a_method, by_property, by_operator, by_class_method, by_attribute_of_any_name]
WAYS += [by_module_of_layers]


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("wants", [False, True])
def test_an_argument_that_the_function_reaches_by_itself_too_is_not_taken_for_it(make, wants):
    """Of the first call nobody could tell which of the two was read."""
    p = mt.arange(1.0, 4.0).requires_grad_(wants)
    fn = make(p)
    f = mt.function(fn, jit_compile=True)
    assert f(p).item() == 14
    assert f.programs == 0
    for _ in range(2):
        w = mt.ones(3).requires_grad_(wants)
        assert f(w).item() == 6
    assert f.hits == 1
    assert f(p).item() == 14
    if wants:
        f(w).backward()
        assert w.grad.tolist() == [1, 2, 3]
        assert p.grad.tolist() == [1, 1, 1]


def test_a_function_may_reach_an_argument_that_it_does_not_read():
    """As the last batch, which a trainer keeps."""

    class Trainer:
        def step(self, w):
            return w * self.factor

    trainer = Trainer()
    trainer.factor, trainer.last = 3.0, mt.ones(2)
    trainer.more = [object() for _ in range(30_000)] + [trainer.last]
    f = mt.function(trainer.step, jit_compile=True)
    for k in range(3):
        trainer.last = mt.full((2,), float(k))
        assert f(trainer.last).tolist() == [k * 3.0] * 2
    assert (f.programs, f.hits) == (1, 2)


def test_parts_of_data_that_a_function_reaches_are_no_such_arguments():
    holder = Holder(mt.rand(10, 3))
    f = mt.function(lambda x: x * 2 + holder.parts["weights"][0].shape[0], jit_compile=True)
    for k in range(3):
        f(holder.parts["weights"][0][k : k + 2])
    assert f.hits == 2


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("no_grad", [False, True])
@pytest.mark.parametrize(
    "own",
    [
        lambda data: data.sum(),
        lambda data: data[0:2].sum(),
        lambda data: data.detach()[0:2].sum(),
        lambda data: data[2:4].t().reshape(-1)[0:4].sum(),
    ],
)
def test_memory_of_an_argument_that_the_function_also_reads_by_another_tensor(own, wants, no_grad):
    data, other = mt.rand(6, 3), mt.rand(6, 3)
    data.requires_grad_(wants)
    fn = lambda x: (x * 2).sum() + own(data)  # noqa: E731
    f = mt.function(fn, jit_compile=True)
    with mt.no_grad() if no_grad else contextlib.nullcontext():
        for rows in (data[0:2], other[0:2], data[2:4], other[2:4], mt.rand(2, 3), data.detach()):
            assert f(rows).item() == fn(rows).item()


def test_an_argument_whose_parts_are_elsewhere():
    """The function reads its own view of the memory, the argument is all of it."""
    data = mt.rand(6)
    part = data[1:3]
    f = mt.function(lambda x: x[1:3] * part, jit_compile=True)
    for x in (data, mt.rand(6), data, mt.rand(6)):
        assert f(x).tolist() == (x[1:3] * part).tolist()
    assert f.hits == 1
