"""minitensor.autograd.functional by each of its ways, against derivatives that are written down."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.autograd.functional import hessian, jacobian

X, Y = np.array([0.5, -1.25, 2.0]), np.array([[1.5, -0.5, 0.25], [2.0, 1.0, -1.0]])
WAYS = [
    {},
    {"create_graph": True},
    {"strict": True},
    {"vectorize": True},
    {"vectorize": True, "create_graph": True},
    {"strategy": "forward-mode"},
]

STRATEGIES = [("reverse-mode", False), ("reverse-mode", True), ("forward-mode", False)]  # forward there is no graph


def several(x, y):
    """Results that share what their gradients need, of different ranks; the last doesn't depend on y."""
    e = x.exp()
    return e * y, (e * y).sum(), e


def derivatives():
    """Of `several`: for each result the derivative by x and by y."""
    e = np.exp(X)
    by_x, by_y = np.zeros((2, 3, 3)), np.zeros((2, 3, 2, 3))
    for i, j in itertools.product(range(2), range(3)):
        by_x[i, j, j] = e[j] * Y[i, j]
        by_y[i, j, i, j] = e[j]
    return [[by_x, by_y], [by_x.sum((0, 1)), by_y.sum((0, 1))], [np.diag(e), np.zeros((3, 2, 3))]]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_jacobians_of_several_results_by_several_inputs(way):
    function = several if not way.get("strict") else lambda x, y: several(x, y)[:2]
    found = jacobian(function, (mt.tensor(X), mt.tensor(Y)), **way)
    assert len(found) == len(function(mt.tensor(X), mt.tensor(Y)))
    for row, wanted in zip(found, derivatives(), strict=False):
        for one, array in zip(row, wanted, strict=True):
            np.testing.assert_allclose(one.detach().numpy(), array, rtol=1e-14)
            assert one.requires_grad is way.get("create_graph", False) or not array.any()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_jacobians_of_one_result_and_of_none(way):
    x = mt.tensor(X)
    np.testing.assert_allclose(jacobian(lambda t: t**3, x, **way).detach().numpy(), np.diag(3 * X**2), rtol=1e-14)
    (alone,) = jacobian(lambda t: (t**3,), x, **way)
    np.testing.assert_allclose(alone.detach().numpy(), np.diag(3 * X**2), rtol=1e-14)
    assert jacobian(lambda t: t[:0] * 2, x, **way).shape == (0, 3)


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize(("outer", "create_graph"), STRATEGIES)
def test_hessians_of_several_inputs(outer, vectorize, create_graph):
    ways = {"outer_jacobian_strategy": outer, "vectorize": vectorize, "create_graph": create_graph}
    (xx, xy), (yx, yy) = hessian(lambda x, y: (x**3 * y).sum(), (mt.tensor(X), mt.tensor(Y)), **ways)
    sides = np.zeros((3, 2, 3))
    for i, j in itertools.product(range(2), range(3)):
        sides[j, i, j] = 3 * X[j] ** 2
    wanted = [np.diag(6 * X * Y.sum(0)), sides, np.moveaxis(sides, 0, -1), np.zeros((2, 3, 2, 3))]
    for one, array in zip((xx, xy, yx, yy), wanted, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), array, rtol=1e-14)
