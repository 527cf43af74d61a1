"""Derivatives that go forward, of tensors that are written to after an op has read them: they are of what it read.

Each test runs here and, where it is installed, in PyTorch, which must have the values that are stored.
"""

import math

import pytest

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["minitensor", pytest.param("torch", marks=pytest.mark.torch)])
def lib(request):
    return minitensor if request.param == "minitensor" else pytest.importorskip("torch")


def row(lib, *values):
    return lib.tensor(values, dtype=lib.float64)


def dual(lib, values=(1.0, 2.0, 3.0), along=(1.0, 1.0, 2.0)):
    return lib.autograd.forward_ad.make_dual(row(lib, *values), row(lib, *along))


def tangent(lib, tensor):
    return lib.autograd.forward_ad.unpack_dual(tensor).tangent.tolist()


@pytest.fixture
def level(lib):
    with lib.autograd.forward_ad.dual_level():
        yield


@pytest.mark.usefixtures("level")
def test_a_dual_number_is_written_after_it_was_read(lib):
    x = dual(lib)
    square = x * x
    assert tangent(lib, square) == [2.0, 4.0, 12.0]
    x.mul_(2)
    assert tangent(lib, square) == [2.0, 4.0, 12.0]
    assert tangent(lib, x) == [2.0, 2.0, 4.0]
    assert tangent(lib, x * x) == [8.0, 16.0, 48.0]


@pytest.mark.usefixtures("level")
def test_written_under_no_grad_after_it_was_read(lib):
    x = dual(lib)
    square = x * x
    with lib.no_grad():
        x.mul_(2)
    assert tangent(lib, square) == [2.0, 4.0, 12.0]
    assert tangent(lib, x) == [2.0, 2.0, 4.0]


@pytest.mark.usefixtures("level")
def test_the_tensor_that_it_was_made_of_is_written(lib):
    values, along = row(lib, 1, 2, 3), row(lib, 1, 1, 2)
    square = lib.autograd.forward_ad.make_dual(values, along) ** 2
    values.add_(1)
    assert tangent(lib, square) == [2.0, 4.0, 12.0]


@pytest.mark.usefixtures("level")
def test_a_saved_result_is_written(lib):
    x = dual(lib, (0.0, 0.0), (1.0, 3.0))
    grown = x.exp()
    grown.mul_(2)
    waves = grown.sin()
    grown.add_(1)
    assert tangent(lib, grown) == [2.0, 6.0]
    assert tangent(lib, waves) == pytest.approx([-0.8322936730942848, -2.4968810192828543])


@pytest.mark.usefixtures("level")
def test_contents_are_written_by_data_and_detached_tensors(lib):
    x = dual(lib)
    square = x * x
    x.data.mul_(3)
    x.detach().mul_(3)
    assert tangent(lib, square) == [2.0, 4.0, 12.0]
    assert square.tolist() == [1.0, 4.0, 9.0]


@pytest.mark.usefixtures("level")
def test_a_buffer_is_used_again(lib):
    x = dual(lib)
    buffer, squares = lib.zeros(3, dtype=lib.float64), []
    for factor in (1, 2, 3):
        buffer.zero_()
        buffer.add_(x * factor)
        squares.append(buffer * buffer)
    assert [tangent(lib, s) for s in squares] == [[2.0, 4.0, 12.0], [8.0, 16.0, 48.0], [18.0, 36.0, 108.0]]


def jvp(lib, function, values, along):
    return [r.tolist() for r in lib.func.jvp(function, (row(lib, *values),), (row(lib, *along),))]


def test_parts_of_one_tensor(lib):
    def function(x):
        y = x.clone()
        first, second = y[:2], y[2:]
        first.mul_(second)
        second.mul_(second.clone())
        return y

    assert jvp(lib, function, (2, 3, 4, 5), (1, 5, 1, 2)) == [[8.0, 15.0, 16.0, 25.0], [6.0, 31.0, 8.0, 20.0]]


def test_a_chain_in_place(lib):
    def function(x):
        return x.clone().addcmul_(x, x, value=2).lerp_(x, 0.5).exp_().log1p_()

    values, derivatives = jvp(lib, function, (0.0, 0.5), (1.0, 3.0))
    assert values == pytest.approx([math.log(2), math.log1p(math.exp(0.75))])
    # The logistic function of u = x + x^2, and (1 + 2x) of its derivative.
    assert derivatives == pytest.approx([0.5, 6 / (1 + math.exp(-0.75))])


def test_mapped(lib):
    def function(x, along):
        def inner(y):
            z = y * 1
            square = z * z
            z.mul_(5)
            return square + z

        return lib.func.jvp(inner, (x,), (along,))[1]

    x = lib.arange(4, dtype=lib.float64).reshape(2, 2)
    assert lib.func.vmap(function)(x, x + 1).tolist() == [[5.0, 14.0], [27.0, 44.0]]


def test_jacobians_through_writes(lib):
    def function(x):
        y = x * x
        z = y.sin()
        y.mul_(2)
        y[0] = 0
        return z * y

    x = row(lib, 0.5, 1.0)
    forward = lib.func.jacfwd(function)(x)
    assert forward[0].tolist() == [0.0, 0.0]
    assert forward[1].tolist() == pytest.approx([0.0, 4 * 0.8414709848078965 + 4 * 0.5403023058681398])


@pytest.mark.usefixtures("level")
def test_the_jvp_of_a_function_writes_to_its_tangent(lib):
    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(2)

    x = dual(lib).clone()
    assert Doubled.apply(x) is x
    assert [tangent(lib, x), tangent(lib, x)] == [[2.0, 2.0, 4.0], [2.0, 2.0, 4.0]]


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("name", ["t_", "unsqueeze_", "squeeze_", "transpose_"])
def test_shapes_are_changed_in_place_after_it_was_read(lib, name):
    x = dual(lib).view(1, 3).clone()
    square = x * x
    getattr(x, name)(*{"t_": (), "unsqueeze_": (0,), "squeeze_": (), "transpose_": (0, 1)}[name])
    assert tangent(lib, square) == [[2.0, 4.0, 12.0]]
    assert lib.autograd.forward_ad.unpack_dual(x * 2).tangent.flatten().tolist() == [2.0, 2.0, 4.0]
