"""`_foreach_*`: an op on every tensor of a list."""

import numpy as np
import pytest

import minitensor as mt


def lists():
    return [mt.tensor([1.5, 2.5]), mt.tensor([[0.5], [3.0]])]


def values(tensors):
    return [t.tolist() for t in tensors]


@pytest.mark.parametrize(
    "name", ["abs", "ceil", "exp", "floor", "log", "neg", "reciprocal", "round", "sign", "sqrt", "tanh"]
)
def test_of_one_list(name):
    expected = [getattr(mt, name)(t) for t in lists()]
    result = getattr(mt, f"_foreach_{name}")(lists())
    assert isinstance(result, tuple)
    assert values(result) == values(expected)
    given = lists()
    held = list(given)
    assert getattr(mt, f"_foreach_{name}_")(given) is given
    assert all(a is b for a, b in zip(given, held, strict=True))
    assert values(given) == values(expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min"])
def test_of_two(name):
    bound = {"clamp_max": "max", "clamp_min": "min", "maximum": "min", "minimum": "max"}.get(name)

    def one(x, y):
        return x.clamp(**{bound: y}) if bound else getattr(mt, name)(x, y)

    for other in (2.0, [1.0, 2.0], [t + 1 for t in lists()]):
        each = other if isinstance(other, list) else [other] * 2
        expected = [one(x, y) for x, y in zip(lists(), each, strict=True)]
        assert values(getattr(mt, f"_foreach_{name}")(lists(), other)) == values(expected)
        given = lists()
        getattr(mt, f"_foreach_{name}_")(given, other)
        assert values(given) == values(expected)


def test_of_three():
    a, b, c = lists(), lists(), [t + 1 for t in lists()]
    for name in ("addcmul", "addcdiv"):
        op = getattr(mt, name)
        for options, factors in (({}, (1, 1)), ({"value": 2}, (2, 2)), ({"scalars": [1.0, 3.0]}, (1.0, 3.0))):
            expected = [op(x, y, z, value=f) for x, y, z, f in zip(a, b, c, factors, strict=True)]
            assert values(getattr(mt, f"_foreach_{name}")(a, b, c, **options)) == values(expected)
    assert values(mt._foreach_lerp(a, c, 0.25)) == values([mt.lerp(x, y, 0.25) for x, y in zip(a, c, strict=True)])


def test_the_others():
    given = lists()
    np.testing.assert_allclose([t.item() for t in mt._foreach_norm(given)], [np.hypot(1.5, 2.5), np.hypot(0.5, 3)])
    assert [t.item() for t in mt._foreach_norm(given, 1)] == [4, 3.5]
    assert [t.item() for t in mt._foreach_max(given)] == [2.5, 3]
    assert values(mt._foreach_clone(given)) == values(given)
    mt._foreach_copy_(given, [t * 2 for t in given])
    assert given[0].tolist() == [3, 5]
    mt._foreach_zero_(given)
    assert values(given) == [[0, 0], [[0], [0]]]
    assert mt._foreach_add(lists(), lists(), alpha=3)[0].tolist() == [6, 10]


def test_gradients():
    x = [t.requires_grad_() for t in lists()]
    sum(t.sum() for t in mt._foreach_mul(x, 3)).backward()
    assert values(t.grad for t in x) == [[3, 3], [[3], [3]]]


def test_wrong_calls():
    with pytest.raises(RuntimeError, match="got 2 and 1"):
        mt._foreach_add(lists(), lists()[:1])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        mt._foreach_add(lists(), [1.0])
    with pytest.raises(RuntimeError, match="must have at least one tensor"):
        mt._foreach_exp([])
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        mt._foreach_exp(mt.ones(2))
