"""Transforms: inverses, Jacobians beside those of autograd, shapes, and what constraints they lead to."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.distributions import constraints, transforms
from minitensor.distributions.constraint_registry import biject_to, transform_to
from minitensor.distributions.parameters import tril_matrix_to_vec, vec_to_tril_matrix

D = mt.distributions


def t(values):
    return mt.tensor(values, dtype=mt.float64)


# A transform, an argument, and whether it has a Jacobian.
CASES = {
    "exp": (transforms.ExpTransform(), [-1.0, 0.3, 2.0]),
    "power": (transforms.PowerTransform(t([2.0, -1.5, 0.5])), [0.4, 1.3, 2.0]),
    "sigmoid": (transforms.SigmoidTransform(), [-3.0, 0.3, 2.0]),
    "softplus": (transforms.SoftplusTransform(), [-3.0, 0.3, 2.0]),
    "tanh": (transforms.TanhTransform(), [-3.0, 0.3, 2.0]),
    "affine": (transforms.AffineTransform(t([1.0, 2.0, 0.0]), t([-2.0, 0.5, 3.0])), [-3.0, 0.3, 2.0]),
    "affine number": (transforms.AffineTransform(1.0, -2.0), [-3.0, 0.3, 2.0]),
    "affine vector": (transforms.AffineTransform(1.0, t([-2.0, 0.5, 3.0]), event_dim=1), [[-3.0, 0.3, 2.0], [1, 2, 3]]),
    "cdf": (transforms.CumulativeDistributionTransform(D.Normal(t(0.5), t(2.0))), [-3.0, 0.3, 2.0]),
    "composed": (
        transforms.ComposeTransform([transforms.AffineTransform(0.0, 2.0), transforms.SigmoidTransform()]),
        [-1.0, 0.3, 1.0],
    ),
    "composed of vectors": (
        transforms.ComposeTransform([transforms.AffineTransform(0.0, 2.0), transforms.StickBreakingTransform()]),
        [[-1.0, 0.3, 1.0], [0.2, 0.1, -2.0]],
    ),
    "independent": (transforms.IndependentTransform(transforms.ExpTransform(), 1), [[-1.0, 0.3], [1.0, 2.0]]),
    "reshape": (transforms.ReshapeTransform((2, 3), (6,)), [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]),
    "stick breaking": (transforms.StickBreakingTransform(), [[-1.0, 0.3, 1.0], [0.0, 0.0, 0.0]]),
    "correlations": (transforms.CorrCholeskyTransform(), [[-1.0, 0.3, 1.0, 0.2, -0.4, 0.1]]),
    "cat": (
        transforms.CatTransform([transforms.ExpTransform(), transforms.AffineTransform(1.0, 3.0)], 0, [2, 1]),
        [-1.0, 0.3, 1.0],
    ),
    "stack": (
        transforms.StackTransform([transforms.ExpTransform(), transforms.TanhTransform()], -1),
        [[-1.0, 0.3], [0.2, 0.4]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_inverses_and_jacobians(name):
    transform, given = CASES[name]
    x = t(given)
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-9, atol=1e-9)
    assert transform.codomain.check(y).all()
    assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
    assert transform.inv.inv == transform
    assert transform.inv.domain.event_dim == transform.codomain.event_dim
    slope = transform.log_abs_det_jacobian(x, y)
    backwards = transform.inv.log_abs_det_jacobian(y, x)
    np.testing.assert_allclose(backwards.numpy(), -slope.numpy(), rtol=1e-12)
    dims = transform.domain.event_dim
    batch = tuple(x.shape[: x.ndim - dims])
    if name in ("cat", "stack"):
        dims, batch = 0, tuple(x.shape)
    assert tuple(slope.shape) == batch
    for place in itertools.product(*map(range, batch)):
        if dims == 0:
            value = x.clone().requires_grad_()
            derived = mt.autograd.grad(transform(value)[place], value)[0][place]
            expected = derived.abs().log()
        else:
            jacobian = mt.autograd.functional.jacobian(lambda v: independent_part(transform, transform(v)), x[place])
            expected = mt.linalg.slogdet(jacobian.reshape(-1, x[place].numel())).logabsdet
        assert slope[place].item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-9)


def independent_part(transform, y):
    """As many numbers of an event as its argument has."""
    if isinstance(transform.codomain, type(constraints.simplex)):
        return y[..., :-1]
    if isinstance(transform.codomain, type(constraints.corr_cholesky)):
        return tril_matrix_to_vec(y, -1)
    return y


def test_what_has_no_inverse_still_comes_back():
    y = t([[0.2, 0.3, 0.5]])
    softmax = transforms.SoftmaxTransform()
    np.testing.assert_allclose(softmax(softmax.inv(y)).numpy(), y.numpy(), rtol=1e-12)
    definite = t([[2.0, 0.3], [0.3, 1.0]])
    for transform, value in (
        (transforms.PositiveDefiniteTransform(), definite),
        (transforms.LowerCholeskyTransform(), mt.linalg.cholesky(definite)),
    ):
        np.testing.assert_allclose(transform(transform.inv(value)).numpy(), value.numpy(), rtol=1e-12)
    assert transforms.AbsTransform().inv(t([1.0])).tolist() == [1.0]
    for call in (
        lambda: transforms.AbsTransform().log_abs_det_jacobian(t(1.0), t(1.0)),
        lambda: transforms.AbsTransform().sign,
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_a_cache_returns_the_argument_itself():
    transform = transforms.TanhTransform(cache_size=1)
    x = t([30.0])
    assert transform.inv(transform(x)) is x
    assert transform(x) is transform(x)
    assert transforms.TanhTransform().inv(transforms.TanhTransform()(x)).isinf().all()
    for other, _ in CASES.values():
        assert other.with_cache(1)._cache_size == 1
    with pytest.raises(ValueError, match="cache_size"):
        transforms.ExpTransform(2)


def test_equal_transforms():
    assert transforms.ExpTransform() == transforms.ExpTransform()
    assert transforms.ExpTransform() != transforms.TanhTransform()
    assert transforms.AffineTransform(0.0, 1.0) == transforms.AffineTransform(0.0, 1.0)
    assert transforms.AffineTransform(0.0, 1.0) != transforms.AffineTransform(0.0, 2.0)
    assert transforms.ExpTransform().inv == transforms.ExpTransform().inv
    assert transforms.PowerTransform(t(2.0)) != transforms.PowerTransform(t(3.0))
    assert transforms.ComposeTransform([transforms.ExpTransform()]) == transforms.ComposeTransform(
        [transforms.ExpTransform()]
    )


CONSTRAINTS = [
    constraints.real, constraints.positive, constraints.nonnegative, constraints.greater_than(2.0),
    constraints.greater_than_eq(-1.0), constraints.less_than(3.0), constraints.unit_interval,
    constraints.interval(1.0, 3.0), constraints.half_open_interval(-1.0, 2.0), constraints.simplex,
    constraints.corr_cholesky, constraints.independent(constraints.positive, 1),
    constraints.cat([constraints.positive, constraints.less_than(0.0)], -1, [2, 4]),
    constraints.stack([constraints.positive] * 6, -1), constraints.lower_cholesky, constraints.positive_definite,
    constraints.positive_semidefinite,
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_transforms_to_constraints(constraint):
    mt.manual_seed(0)
    shape = (4, 3, 3) if constraint.event_dim == 2 and constraint is not constraints.corr_cholesky else (4, 6)
    x = mt.randn(shape, dtype=mt.float64)
    for registry in (transform_to, biject_to):
        try:
            transform = registry(constraint)
        except NotImplementedError:
            assert registry is biject_to
            assert constraint in CONSTRAINTS[-3:]
            continue
        y = transform(x)
        assert constraint.check(y).all()
        if registry is biject_to:
            assert transform.bijective
            np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-8, atol=1e-9)


def test_registering_factories():
    registry = D.constraint_registry.ConstraintRegistry()

    class Even(constraints.Constraint):
        pass

    with pytest.raises(NotImplementedError, match="Even"):
        registry(Even())

    @registry.register(Even)
    def factory(constraint):
        return transforms.ExpTransform()

    assert registry(Even()) == transforms.ExpTransform()
    with pytest.raises(TypeError, match="constraint"):
        registry.register(3, factory)


def test_what_constraints_check():
    yes_no = [
        (constraints.boolean, [0.0, 1.0, 0.5], [True, True, False]),
        (constraints.nonnegative_integer, [0.0, 2.0, -1.0, 0.5], [True, True, False, False]),
        (constraints.positive_integer, [0.0, 2.0, 0.5], [False, True, False]),
        (constraints.integer_interval(1, 3), [0.0, 1.0, 3.0, 2.5], [False, True, True, False]),
        (constraints.real, [0.0, np.inf, np.nan], [True, True, False]),
        (constraints.positive, [0.0, 1.0, np.nan], [False, True, False]),
        (constraints.half_open_interval(0.0, 1.0), [0.0, 1.0], [True, False]),
        (constraints.interval(0.0, 1.0), [0.0, 1.0, 1.1], [True, True, False]),
        (constraints.simplex, [[0.5, 0.5], [0.5, 0.6], [1.5, -0.5]], [True, False, False]),
        (constraints.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]], [True, False, False]),
        (constraints.multinomial(3), [[1.0, 2.0], [3.0, 1.0], [-1.0, 2.0]], [True, False, False]),
        (constraints.real_vector, [[1.0, 2.0], [np.nan, 1.0]], [True, False]),
        (constraints.lower_triangular, [[[1.0, 0.0], [2.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]], [True, False]),
        (constraints.lower_cholesky, [[[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 1.0]]], [False, True]),
        (constraints.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.7]]], [True, False]),
        (constraints.symmetric, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [0.0, 1.0]]], [True, False]),
        (constraints.positive_definite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]], [True, False]),
        (constraints.positive_semidefinite, [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]]], [True, False]),
        (constraints.square, [[[1.0, 2.0]]], [False]),
    ]
    for constraint, values, expected in yes_no:
        assert constraint.check(t(values)).tolist() == expected, constraint
    assert constraints.is_dependent(constraints.dependent)
    assert not constraints.is_dependent(constraints.real)
    assert constraints.is_dependent(D.Categorical.support)
    with pytest.raises(ValueError, match="dependent"):
        constraints.dependent.check(t(1.0))
    with pytest.raises(NotImplementedError):
        _ = constraints.dependent.event_dim
    assert constraints.dependent(event_dim=2).event_dim == 2
    assert repr(constraints.greater_than(2)) == "GreaterThan(lower_bound=2)"
    assert repr(constraints.independent(constraints.real, 1)) == "IndependentConstraint(Real(), 1)"


def test_triangles_as_vectors():
    for n, diagonal in itertools.product((1, 2, 4), (0, -1, 1)):
        if not -n <= diagonal < n:
            with pytest.raises(ValueError, match="diag"):
                tril_matrix_to_vec(mt.ones(n, n), diagonal)
            continue
        matrix = t(np.random.default_rng(0).normal(size=(2, n, n)).tolist()).tril(diagonal)
        vector = tril_matrix_to_vec(matrix, diagonal)
        if vector.shape[-1]:
            assert mt.equal(vec_to_tril_matrix(vector, diagonal), matrix)
    with pytest.raises(ValueError, match="triangular"):
        vec_to_tril_matrix(mt.ones(4))
