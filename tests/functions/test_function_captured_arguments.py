"""Arguments of compiled functions that these reach by themselves too: by closures, defaults, attributes, modules."""

import contextlib
import operator
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


def accumulated(w, buffer, x):
    (w * x).sum().backward()
    return buffer * 1


def read_before(w, buffer, x):
    before = buffer * 1
    (w * x).sum().backward()
    return before + w.grad


def written_before(w, buffer, x):
    buffer.add_(1)
    (w * x).sum().backward()
    return w.grad * 1


def returned(w, buffer, x):
    (w * x).sum().backward()
    return buffer


def told_apart(w, buffer, x):
    (w * x).sum().backward()
    return x * (2 if w.grad is buffer else 3)


def zeroed(w, buffer, x):
    if w.grad is not None:
        w.grad.zero_()
    (w * x).sum().backward()
    return buffer * 1


def put_there(w, buffer, x):
    w.grad = buffer
    (w * x).sum().backward()
    return buffer * 1


GRADIENTS = {
    "other": lambda buffer: mt.ones(3), "it": lambda buffer: buffer, "none": lambda buffer: None,
    "view": lambda buffer: buffer[:],
}  # fmt: skip


@pytest.mark.parametrize("first", ["it", "none"])
@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["function", "jit_compile"])
@pytest.mark.parametrize(
    "body",
    [accumulated, read_before, written_before, returned, told_apart, zeroed, put_there],
    ids=lambda body: body.__name__,
)
def test_a_gradient_that_the_function_reaches_by_itself_too_is_not_any_gradient(body, options, first):
    def run(wrap):
        w, buffer, calls, found = mt.nn.Parameter(mt.ones(3)), mt.zeros(3), 0, []
        step = wrap(lambda x: body(w, buffer, x))
        for name in (first, *GRADIENTS, *GRADIENTS):
            w.grad = GRADIENTS[name](buffer)
            for _ in range(3):
                calls += 1
                result = step(mt.full((3,), float(calls)))
                found.append((result.tolist(), buffer.tolist(), w.grad.tolist(), w.grad is buffer))
        return found

    assert run(lambda step: mt.function(step, **options)) == run(lambda step: step)


def test_gradients_in_a_buffer_that_stays_keep_the_program():
    w, buffer = mt.nn.Parameter(mt.ones(3)), mt.zeros(3)
    w.grad = buffer
    step = mt.function(lambda x: accumulated(w, buffer, x), jit_compile=True)
    for calls in range(1, 5):
        assert step(mt.ones(3)).tolist() == [calls] * 3
    assert (step.programs, step.hits) == (1, 3)


class Marked(mt.Tensor):
    pass


def with_mark(number):
    gradient = mt.ones(3)
    gradient.mark = number
    return gradient


ASKED = {
    "id": lambda g, buffer, mark: 2 if id(g) == mark else 3,
    "ids": lambda g, buffer, mark: len({id(g), id(buffer)}),
    "is by map": lambda g, buffer, mark: sum(map(operator.is_, [g], [buffer])),
    "attribute": lambda g, buffer, mark: getattr(g, "mark", 1.0),
    "attributes": lambda g, buffer, mark: len(vars(g)),
    "class": lambda g, buffer, mark: 2 if isinstance(g, Marked) else 3,
    "name of the class": lambda g, buffer, mark: len(type(g).__name__),
    "what it gives": lambda g, buffer, mark: (g * 2).detach(),
    "memory": lambda g, buffer, mark: 2 if g.is_set_to(buffer) else 3,
}
BECOMES = {
    "other": lambda buffer: mt.ones(3), "it": lambda buffer: buffer, "view": lambda buffer: buffer[:],
    "2": lambda buffer: with_mark(2.0), "3": lambda buffer: with_mark(3.0),
    "marked": lambda buffer: mt.ones(3).as_subclass(Marked),
}  # fmt: skip


@pytest.mark.parametrize("sums", [True, False], ids=["sums", "reads"])
@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["function", "jit_compile"])
@pytest.mark.parametrize("what", ASKED)
def test_what_a_function_asks_of_a_gradient_is_of_the_one_that_there_is(what, options, sums):
    def run(wrap):
        w, buffer, found = mt.nn.Parameter(mt.ones(3)), mt.zeros(3), []
        mark = id(buffer)

        def body(x):
            if sums:
                (w * x).sum().backward()
            return x * ASKED[what](w.grad, buffer, mark)

        step = wrap(body)
        for name in (*BECOMES, *BECOMES):
            w.grad = BECOMES[name](buffer)
            for _ in range(3):
                result = step(mt.ones(3))
                found.append((type(result), result.detach().as_subclass(mt.Tensor).tolist(), w.grad.tolist()))
        return found

    assert run(lambda step: mt.function(step, **options)) == run(lambda step: step)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["function", "jit_compile"])
def test_whether_tensors_are_set_to_the_same_memory_is_asked_at_each_call(options):
    a, b = mt.ones(3), mt.ones(3)

    def body(x):
        return x * (2 if a.is_set_to(b) else 3) * (5 if x.is_set_to(a) else 7)

    f = mt.function(body, **options)
    for change in (lambda: None, lambda: b.set_(a), lambda: b.set_(mt.ones(3))):
        change()
        for x in (mt.ones(3), mt.ones(3), a, mt.ones(3)):
            assert f(x).tolist() == body(x).tolist()
