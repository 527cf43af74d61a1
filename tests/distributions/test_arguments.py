"""What is refused, with which error; validation on and off; classes that users derive."""

import pickle

import pytest

import minitensor as mt
from minitensor.distributions.parameters import lazy_property

D = mt.distributions
t = mt.tensor

REFUSED = [
    (lambda: D.Normal(0.0, -1.0), ValueError, "parameter scale"),
    (lambda: D.Normal(t([0.0, float("nan")]), 1.0), ValueError, "parameter loc"),
    (lambda: D.Normal("a", 1.0), ValueError, "Number"),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), ValueError, "must be a Tensor"),
    (lambda: D.Normal(0.0, 1.0).log_prob(t(float("nan"))), ValueError, "within the support"),
    (lambda: D.Exponential(1.0).log_prob(t(-1.0)), ValueError, "within the support"),
    (lambda: D.GeneralizedPareto(0.0, 1.0, 0.1).log_prob(t(-1.0)), ValueError, "within the support"),
    (lambda: D.GeneralizedPareto(0.0, 1.0, 0.1).cdf(t(-1.0)), ValueError, "within the support"),
    (lambda: D.Normal(mt.zeros(3), 1.0).log_prob(mt.zeros(2)), ValueError, "not broadcastable"),
    (lambda: D.MultivariateNormal(mt.zeros(3), mt.eye(3)).log_prob(mt.zeros(2)), ValueError, "right-most"),
    (lambda: D.Bernoulli(), ValueError, "not both"),
    (lambda: D.Bernoulli(0.5, 0.5), ValueError, "not both"),
    (lambda: D.Categorical(), ValueError, "not both"),
    (lambda: D.Categorical(t(0.5)), ValueError, "one-dimensional"),
    (lambda: D.Multinomial(t([2.0]), t([0.5, 0.5])), NotImplementedError, "total_count"),
    (lambda: D.Dirichlet(t(1.0)), ValueError, "one-dimensional"),
    (lambda: D.MultivariateNormal(t(0.0), mt.eye(2)), ValueError, "one-dimensional"),
    (lambda: D.MultivariateNormal(mt.zeros(2)), ValueError, "Exactly one"),
    (lambda: D.MultivariateNormal(mt.zeros(2), mt.ones(2)), ValueError, "two-dimensional"),
    (lambda: D.MultivariateNormal(mt.zeros(2), -mt.eye(2)), ValueError, "PositiveDefinite"),
    (lambda: D.LowRankMultivariateNormal(mt.zeros(2), mt.zeros(3, 1), mt.ones(2)), ValueError, "cov_factor"),
    (lambda: D.LowRankMultivariateNormal(mt.zeros(2), mt.zeros(2, 1), mt.ones(3)), ValueError, "cov_diag"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), ValueError, "reinterpreted_batch_ndims"),
    (lambda: D.Uniform(1.0, 0.0), ValueError, "parameter low"),
    (lambda: D.LKJCholesky(1), ValueError, "dim"),
    (lambda: D.Wishart(t(0.5), mt.eye(2)), ValueError, "ndim - 1"),
    (lambda: D.Wishart(t(3.0)), AssertionError, "Exactly one"),
    (lambda: D.Geometric(t(0.0)), ValueError, "positive"),
    (lambda: D.MixtureSameFamily(1, 2), ValueError, "mixture distribution"),
    (lambda: D.MixtureSameFamily(D.Categorical(mt.ones(2)), 2), ValueError, "omponent distribution"),
    (lambda: D.MixtureSameFamily(D.Categorical(mt.ones(2)), D.Normal(mt.zeros(3), 1.0)), ValueError, "does not equal"),
    (lambda: D.MixtureSameFamily(D.Categorical(mt.ones(4, 2)), D.Normal(mt.zeros(3, 2), 1.0)), ValueError, "batch_sh"),
    (lambda: D.MixtureSameFamily(D.Categorical(mt.ones(4, 5, 2)), D.Normal(mt.zeros(3, 5, 2), 1.0)), ValueError,
     r"mixture_distribution.batch_shape` \(.*\[4, 5\].*component_distribution.batch_shape.*\[3, 5\]"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 1), ValueError, "Transform"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()), ValueError, "at least 1"),
    (lambda: D.ReshapeTransform((2,), (3, 1)), ValueError, "numbers of elements"),
    (lambda: D.CatTransform([D.ExpTransform()], 0, [1])(t([1.0, 2.0])), AssertionError, "length"),
    (lambda: D.register_kl(int, int), TypeError, "Distribution"),
    (lambda: D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0)), NotImplementedError, "Cauchy"),
    (lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0)), NotImplementedError, "Bregman"),
    (lambda: D.Binomial(t([3.0, 4.0]), t([0.5, 0.5])).enumerate_support(), NotImplementedError, "Inhomogeneous"),
    (lambda: D.Poisson(1.0).rsample(), NotImplementedError, None),
    (lambda: D.Multinomial(2, t([0.5, 0.5])).mode, NotImplementedError, "mode"),
    (lambda: D.Distribution.set_default_validate_args(3), ValueError, None),
    (lambda: D.biject_to(D.constraints.dependent), NotImplementedError, "_Dependent"),
    (lambda: D.constraints.independent(D.constraints.real, -1), AssertionError, ">= 0"),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_refusals(place):
    call, error, message = REFUSED[place]
    with pytest.raises(error, match=message):
        call()


def test_validation_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    assert D.Exponential(1.0, validate_args=False).log_prob(t(-1.0)).item() == 1.0
    assert D.LogNormal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    assert D.GeneralizedPareto(0.0, 1.0, 0.1, validate_args=False).cdf(t(float("nan"))).isnan()
    before = D.Distribution._validate_args
    try:
        D.Distribution.set_default_validate_args(False)
        assert D.Normal(0.0, -1.0).mean.item() == 0.0
        with pytest.raises(ValueError, match="scale"):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(before)
    # What is expanded checks as before.
    assert D.Normal(0.0, 1.0, validate_args=False).expand((2,)).log_prob(t(float("nan"))).isnan().all()
    with pytest.raises(ValueError, match="support"):
        D.Normal(0.0, 1.0).expand((2,)).log_prob(t(float("nan")))


def test_lazy_properties_are_computed_once():
    made = D.Bernoulli(logits=t([0.0, 1.0]))
    assert "probs" not in made.__dict__
    assert made.probs is made.probs
    assert isinstance(D.Bernoulli.probs, property)
    assert isinstance(D.Bernoulli.probs, lazy_property)
    # Under no_grad too, a lazy property keeps its history.
    logits = t([0.5]).requires_grad_()
    made = D.Bernoulli(logits=logits)
    with mt.no_grad():
        assert made.probs.requires_grad


def test_dtypes_and_broadcasting():
    assert D.Normal(1.0, t(1.0, dtype=mt.float64)).loc.dtype is mt.float64
    assert D.Normal(mt.zeros(3, 1), mt.ones(2)).batch_shape == (3, 2)
    assert D.Gamma(mt.ones(2, dtype=mt.float64), 1.0).sample((3,)).dtype is mt.float64
    assert D.Categorical(mt.ones(2)).sample().dtype is mt.int64


def test_classes_of_users():
    class Plain(D.Normal):
        pass

    class Fixed(D.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    class Triangle(D.Distribution):
        arg_constraints = {}  # noqa: RUF012
        support = D.constraints.unit_interval

        def __init__(self):
            super().__init__(mt.Size([]), mt.Size([]))

        def log_prob(self, value):
            self._validate_sample(value)
            return (2 * value).log()

    assert type(Plain(0.0, 1.0).expand((2,))) is Plain
    with pytest.raises(NotImplementedError, match="custom __init__"):
        Fixed().expand((2,))
    assert Triangle().log_prob(t(0.5)).item() == 0.0
    with pytest.raises(ValueError, match="support"):
        Triangle().log_prob(t(1.5))
    with pytest.raises(NotImplementedError):
        Triangle().sample()

    @D.register_kl(Plain, D.Normal)
    def divergence(p, q):
        return t(5.0)

    try:
        assert D.kl_divergence(Plain(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 5.0
        assert D.kl_divergence(D.Normal(0.0, 1.0), Plain(0.0, 1.0)).item() == 0.0
        D.register_kl(D.Normal, Plain)(lambda p, q: t(6.0))
        with pytest.warns(RuntimeWarning, match="Ambiguous"):
            assert D.kl_divergence(Plain(0.0, 1.0), Plain(0.0, 1.0)).item() == 5.0
    finally:
        for pair in [pair for pair in D._KL_REGISTRY if Plain in pair]:
            del D._KL_REGISTRY[pair]


def test_pickled_distributions_and_transforms():
    made = pickle.loads(pickle.dumps(D.LogNormal(t([0.5]), t([1.0]))))
    assert made.mean.item() == D.LogNormal(t([0.5]), t([1.0])).mean.item()
    transform = D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)])
    _ = transform.inv, transform.parts[0].inv
    assert pickle.loads(pickle.dumps(transform)) == transform


def test_straight_through_gradients():
    logits = t([0.1, 0.7, -0.3]).requires_grad_()
    made = D.OneHotCategoricalStraightThrough(logits=logits)
    weights = t([1.0, 2.0, 3.0])
    (found,) = mt.autograd.grad((made.rsample() * weights).sum(), logits)
    (expected,) = mt.autograd.grad((mt.softmax(logits, 0) * weights).sum(), logits)
    assert mt.allclose(found, expected)


def test_a_policy_gradient():
    """The score function's gradient: that of log_prob of what was drawn."""
    logits = t([0.0, 0.0]).requires_grad_()
    mt.manual_seed(0)
    made = D.Categorical(logits=logits)
    action = made.sample((1000,))
    (-(made.log_prob(action) * (action == 1))).mean().backward()
    assert logits.grad[1].item() < 0 < logits.grad[0].item()
