"""Samples: their moments, their support, and the gradients of those that have one."""

import numpy as np
import pytest
from distribution_cases import CASES, build, leaves
from scipy import special, stats

import minitensor as mt
from minitensor.ops import ROWS

D = mt.distributions
IDS = [f"{case.name}-{'-'.join(case.arguments)}" for case in CASES]
COUNT = 4000


def t(values):
    return mt.tensor(np.asarray(values).tolist(), dtype=mt.float64)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_samples_have_the_mean(case):
    """Within five of their own standard errors, of a fixed seed: deterministic."""
    made = build(case, mt)
    mt.manual_seed(11)
    samples = made.sample((COUNT,))
    assert tuple(samples.shape) == (COUNT, *made.batch_shape, *made.event_shape)
    assert not samples.requires_grad
    assert made.support.check(samples).all()
    assert made.log_prob(samples).isfinite().all()
    if case.name in ("Categorical", "Cauchy", "HalfCauchy", "LKJCholesky", "LogisticNormal") or "Relaxed" in case.name:
        return  # they have no mean, or PyTorch no formula for it
    drawn, mean = samples.numpy(), np.broadcast_to(made.mean.numpy(), samples.shape[1:])
    if case.name == "VonMises":
        drawn = np.angle(np.exp(1j * (drawn - mean)))
        mean = np.zeros_like(mean)
    with np.errstate(all="ignore"):
        error = drawn.std(0) / np.sqrt(COUNT)
        finite = np.isfinite(mean)
    if case.name == "StudentT":
        finite &= np.isfinite(made.variance.numpy())
    assert (np.abs(drawn.mean(0) - mean)[finite] <= 5 * error[finite] + 1e-9).all()


UNIVARIATE = [case for case in CASES if case.scipy is not None and not hasattr(case.scipy.dist, "logpmf")]


@pytest.mark.parametrize("case", UNIVARIATE, ids=[c.name for c in UNIVARIATE])
def test_samples_have_the_distribution(case):
    """Kolmogorov and Smirnov's statistic, at a seed where it is not unlikely: deterministic."""
    mt.manual_seed(5)
    drawn = build(case, mt).sample((COUNT,)).numpy()
    if case.name == "VonMises":
        loc = case.arguments["loc"]
        drawn = loc + np.angle(np.exp(1j * (drawn - loc)))
    for k in range(3):
        numbers = [np.atleast_1d(a)[k % np.size(a)] for a in case.scipy.args]
        named = {n: np.atleast_1d(a)[k % np.size(a)] for n, a in case.scipy.kwds.items()}
        frozen = case.scipy.dist(*numbers, **named)
        assert stats.kstest(drawn[:, k], frozen.cdf).pvalue > 1e-3


def test_correlations_are_distributed_as_lewandowski_says():
    """Of dimension n and concentration c each correlation is 2 Beta(c - 1 + n/2, c - 1 + n/2) - 1."""
    mt.manual_seed(3)
    for c in (0.7, 2.0):
        factors = D.LKJCholesky(3, t(c)).sample((COUNT,))
        correlation = (factors @ factors.mT).numpy()
        known = stats.beta(c + 0.5, c + 0.5, loc=-1, scale=2)
        for i, j in ((1, 0), (2, 0), (2, 1)):
            assert stats.kstest(correlation[:, i, j], known.cdf).pvalue > 1e-3


def test_the_shapes_of_gamma_samples_are_moved_along_their_quantiles():
    """d sample / d shape = -(dF / d shape) / density, beside differences of SciPy's incomplete gamma function."""
    grad = ROWS["_standard_gamma_grad"].call
    for a in (0.02, 0.3, 1.0, 4.0, 35.0, 900.0, 99999.0, 100001.0, 3e6):
        for p in (1e-3, 0.1, 0.5, 0.9, 0.999):
            x, h = special.gammaincinv(a, p), a * 1e-5
            if x < 1e-290:
                continue
            expected = (special.gammaincinv(a + h, p) - special.gammaincinv(a - h, p)) / (2 * h)
            # The differences' own error: h^2, and the roundings of the quantiles, x eps / h.
            assert grad(t([a]), t([x])).item() == pytest.approx(expected, rel=1e-7), (a, p)
    assert grad(t([2.0, 2.0]), t([0.0, np.nan])).tolist()[0] == 0.0
    assert np.isnan(grad(t([2.0, -1.0]), t([np.nan, 1.0])).tolist()).all()


def test_components_of_dirichlet_samples_are_moved_along_their_quantiles():
    grad = ROWS["_dirichlet_grad"].call
    for a in (0.1, 1.0, 7.0, 250.0):
        for b in (0.2, 1.0, 5.0, 300.0):
            for p in (0.01, 0.3, 0.7, 0.99):
                x, h = special.betaincinv(a, b, p), a * 1e-5
                if not 1e-12 < x < 1 - 1e-9:
                    continue
                slope = (special.betaincinv(a + h, b, p) - special.betaincinv(a - h, b, p)) / (2 * h)
                # SciPy's inverse has about ten digits; of these the difference keeps five.
                assert grad(t([x]), t([a]), t([a + b])).item() == pytest.approx(slope / (1 - x), rel=2e-5), (a, b, p)


PATHWISE = [case for case in CASES if build(case, mt).has_rsample]


@pytest.mark.parametrize("case", PATHWISE, ids=[f"{c.name}-{'-'.join(c.arguments)}" for c in PATHWISE])
def test_samples_move_with_their_parameters(case):
    """The mean of the gradients of samples is the gradient of the mean, where there is one."""
    arguments = leaves(case, mt, requires_grad=True)
    made = getattr(D, case.name)(**arguments)
    mt.manual_seed(7)
    samples = made.rsample((COUNT,))
    assert samples.requires_grad
    tensors = [a for a in arguments.values() if isinstance(a, mt.Tensor)]
    # Weights, since numbers of a simplex have a sum that doesn't move.
    weights = mt.arange(1, samples[0].numel() + 1).reshape(samples.shape[1:])
    found = mt.autograd.grad((samples * weights).sum() / COUNT, tensors, allow_unused=True)
    assert any(g is not None and bool((g != 0).any()) for g in found)
    assert all(g is None or bool(g.isfinite().all()) for g in found)
    smooth = {"Beta", "Gamma", "Exponential", "Normal", "Gumbel", "Laplace", "Uniform", "Chi2", "HalfNormal"}
    if case.name in smooth:
        expected = mt.autograd.grad((made.mean * weights).sum(), tensors, allow_unused=True)
        for ours, theirs in zip(found, expected, strict=True):
            known = np.zeros(3) if theirs is None else theirs.numpy()
            np.testing.assert_allclose(ours.numpy(), known, rtol=0.12, atol=0.15)


def test_gradients_of_dirichlet_samples_are_those_of_the_mean():
    a = t([0.5, 2.0, 3.0]).requires_grad_()
    mt.manual_seed(1)
    weights = t([1.0, -2.0, 0.5])
    (found,) = mt.autograd.grad((D.Dirichlet(a).rsample((20000,)) * weights).sum() / 20000, a)
    (expected,) = mt.autograd.grad((D.Dirichlet(a).mean * weights).sum(), a)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=0.01)


def test_log_probabilities_of_the_generalised_pareto_distribution_have_gradients():
    k = t([0.2, -0.5, 0.0]).requires_grad_()
    x = t([0.5, 0.7, 0.4]).requires_grad_()
    made = D.GeneralizedPareto(t([0.0, 0.0, 0.0]), t([1.0, 2.0, 0.5]), k)
    of_x, of_k = mt.autograd.grad(made.log_prob(x).sum(), [x, k])
    h = 1e-6
    for j in range(3):
        moved = [stats.genpareto.logpdf(x[j].item() + s * h, k[j].item(), 0, [1.0, 2.0, 0.5][j]) for s in (1, -1)]
        assert of_x[j].item() == pytest.approx((moved[0] - moved[1]) / (2 * h), rel=1e-7)
        if j < 2:
            moved = [stats.genpareto.logpdf(x[j].item(), k[j].item() + s * h, 0, [1.0, 2.0][j]) for s in (1, -1)]
            assert of_k[j].item() == pytest.approx((moved[0] - moved[1]) / (2 * h), rel=1e-6)


def test_small_shapes_give_no_zeros():
    mt.manual_seed(0)
    for dtype in (mt.float32, mt.float64, mt.float16, mt.bfloat16):
        drawn = mt._standard_gamma(mt.full((200,), 1e-4, dtype=dtype))
        assert drawn.dtype is dtype
        assert (drawn > 0).all()
        rows = mt._sample_dirichlet(mt.full((50, 4), 1e-3, dtype=dtype))
        assert (rows > 0).all()
        assert mt.allclose(
            rows.double().sum(-1), mt.ones(50, dtype=mt.float64), atol=2e-2 if dtype.itemsize == 2 else 1e-5
        )


def test_the_same_numbers_for_any_layout_and_recorded():
    shapes = mt.linspace(0.2, 6.0, 24, dtype=mt.float64).reshape(4, 6)
    mt.manual_seed(2)
    plain = mt._standard_gamma(shapes)
    mt.manual_seed(2)
    assert mt.equal(mt._standard_gamma(shapes.T.contiguous().T), plain)
    mt.manual_seed(2)
    with mt.jit_scope():
        recorded = mt._standard_gamma(shapes) * 2
    assert mt.equal(recorded, plain * 2)
    generator = mt.Generator().manual_seed(9)
    again = mt.Generator().manual_seed(9)
    assert mt.equal(mt._sample_dirichlet(shapes, generator), mt._sample_dirichlet(shapes, again))


def test_a_compiled_function_draws_anew_at_each_call():
    @mt.function
    def step(a):
        return D.Gamma(a, 2.0, validate_args=False).rsample()

    a = mt.full((5,), 3.0)
    mt.manual_seed(4)
    eager = [D.Gamma(a, 2.0, validate_args=False).rsample() for _ in range(3)]
    mt.manual_seed(4)
    for expected in eager:
        assert mt.equal(step(a), expected)
