"""Densities, cumulative functions and moments beside SciPy's."""

import numpy as np
import pytest
from distribution_cases import CASES, build
from scipy import stats

import minitensor as mt

KNOWN = [case for case in CASES if case.scipy is not None]
# Both compute in float64 by formulas of a few dozen roundings; SciPy's own are not exact to the last digits either.
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def ids(cases):
    return [f"{case.name}-{'-'.join(case.arguments)}" for case in cases]


def t(values):
    return mt.tensor(np.asarray(values).tolist(), dtype=mt.float64)


@pytest.mark.parametrize("case", KNOWN, ids=ids(KNOWN))
def test_log_probabilities(case):
    known = case.scipy.logpmf if hasattr(case.scipy.dist, "logpmf") else case.scipy.logpdf
    np.testing.assert_allclose(build(case, mt).log_prob(t(case.values)).numpy(), known(case.values), **CLOSE)


@pytest.mark.parametrize("case", KNOWN, ids=ids(KNOWN))
def test_cumulative_functions(case):
    made = build(case, mt)
    try:
        found = made.cdf(t(case.values))
    except NotImplementedError:
        # As in PyTorch.
        assert case.name in {
            "Bernoulli", "Beta", "Binomial", "FisherSnedecor", "Geometric", "NegativeBinomial", "Poisson", "StudentT",
            "VonMises",
        }  # fmt: skip
        return
    np.testing.assert_allclose(found.numpy(), case.scipy.cdf(case.values), **CLOSE)
    probabilities = t([0.05, 0.5, 0.9])
    try:
        quantiles = made.icdf(probabilities)
    except NotImplementedError:
        assert case.name in {"Gamma", "Chi2", "InverseGamma"}
        return
    np.testing.assert_allclose(quantiles.numpy(), case.scipy.ppf([0.05, 0.5, 0.9]), rtol=1e-9)


@pytest.mark.parametrize("case", KNOWN, ids=ids(KNOWN))
def test_moments(case):
    made = build(case, mt)
    if case.name == "VonMises":  # circular
        return
    with np.errstate(all="ignore"):
        mean, variance = case.scipy.stats("mv")
    ours, theirs = made.mean.numpy(), np.asarray(mean)
    finite = np.isfinite(theirs)
    np.testing.assert_allclose(ours[finite], theirs[finite], **CLOSE)
    assert not np.isfinite(ours[~finite]).any()
    ours, theirs = made.variance.numpy(), np.asarray(variance)
    finite = np.isfinite(theirs)
    np.testing.assert_allclose(ours[finite], theirs[finite], **CLOSE)
    np.testing.assert_allclose(made.stddev.numpy(), np.sqrt(made.variance.numpy()), **CLOSE)


@pytest.mark.parametrize("case", KNOWN, ids=ids(KNOWN))
def test_entropies(case):
    made = build(case, mt)
    try:
        found = made.entropy().numpy()
    except NotImplementedError:
        assert case.name in {"FisherSnedecor", "NegativeBinomial", "Poisson", "VonMises"}
        return
    # SciPy integrates some of them.
    np.testing.assert_allclose(found, case.scipy.entropy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(made.perplexity().numpy(), np.exp(found), rtol=1e-12)


@pytest.mark.parametrize("case", KNOWN, ids=ids(KNOWN))
def test_modes_are_where_nothing_is_likelier(case):
    made = build(case, mt)
    if case.name in ("Uniform", "Bernoulli"):
        return
    known = case.scipy.pmf if hasattr(case.scipy.dist, "logpmf") else case.scipy.pdf
    mode = made.mode.numpy()
    with np.errstate(all="ignore"):
        best = known(mode)
        for draws in case.scipy.rvs((200, 3), random_state=np.random.default_rng(0)):
            assert (np.isnan(mode) | (known(draws) <= best * (1 + 1e-9))).all()


MULTIVARIATE = {
    "Dirichlet": lambda a: [stats.dirichlet(row) for row in a["concentration"]],
    "Multinomial": lambda a: [stats.multinomial(a["total_count"], row) for row in _weights(a)],
    "MultivariateNormal": lambda a: [
        stats.multivariate_normal(m, _covariance(a)) for m in np.broadcast_to(a["loc"], (2, 3))
    ],
    "LowRankMultivariateNormal": lambda a: [
        stats.multivariate_normal(a["loc"], a["cov_factor"] @ a["cov_factor"].T + np.diag(a["cov_diag"]))
    ] * 2,
    "Wishart": lambda a: [
        stats.wishart(df, _covariance(a)) for df in np.broadcast_to(np.asarray(a["df"], float), (2,))
    ],
}  # fmt: skip
MATRICES = [case for case in CASES if case.name in MULTIVARIATE]


def _weights(arguments):
    weights = arguments["probs"] if "probs" in arguments else np.exp(arguments["logits"])
    return weights / weights.sum(-1, keepdims=True)


def _covariance(arguments):
    if "covariance_matrix" in arguments:
        return arguments["covariance_matrix"]
    if "scale_tril" in arguments:
        return arguments["scale_tril"] @ arguments["scale_tril"].T
    return np.linalg.inv(arguments["precision_matrix"])


@pytest.mark.parametrize("case", MATRICES, ids=ids(MATRICES))
def test_distributions_of_vectors_and_matrices(case):
    made = build(case, mt)
    known = MULTIVARIATE[case.name](case.arguments)
    log = [(k.logpmf if case.name == "Multinomial" else k.logpdf)(v) for k, v in zip(known, case.values, strict=True)]
    np.testing.assert_allclose(made.log_prob(t(case.values)).numpy(), log, rtol=1e-10)
    entropies = np.broadcast_to(made.entropy().numpy(), (2,))
    np.testing.assert_allclose(entropies, [k.entropy() for k in known], rtol=1e-9)


def test_perplexity_and_categories():
    made = mt.distributions.Categorical(t([0.25, 0.25, 0.5]))
    assert made.perplexity().item() == pytest.approx(2.0**1.5)
    assert made.log_prob(mt.tensor([0, 2])).tolist() == pytest.approx(np.log([0.25, 0.5]))
    assert made.enumerate_support().tolist() == [0, 1, 2]
    assert made.mode.item() == 2


def test_the_mode_of_kumaraswamys_distribution():
    a, b = t([1.5, 2.0, 3.0, 0.5]), t([1.7, 1.5, 4.0, 2.0])
    made = mt.distributions.Kumaraswamy(a, b)
    x = mt.linspace(0.001, 0.999, 999, dtype=mt.float64).unsqueeze(-1)
    likeliest = x[made.log_prob(x).argmax(0), 0]
    assert mt.allclose(made.mode[:3], likeliest[:3], atol=1e-3)
    assert made.mode[3].isnan().item()


def test_mixtures():
    weights, means, deviations = [0.3, 0.7], [0.0, 2.0], [1.0, 0.5]
    made = mt.distributions.MixtureSameFamily(
        mt.distributions.Categorical(t(weights)), mt.distributions.Normal(t(means), t(deviations))
    )
    x = np.array([-1.0, 0.5, 2.0])
    parts = stats.norm(means, deviations)
    np.testing.assert_allclose(
        made.log_prob(t(x)).numpy(), np.log((parts.pdf(x[:, None]) * weights).sum(-1)), rtol=1e-12
    )
    np.testing.assert_allclose(made.cdf(t(x)).numpy(), (parts.cdf(x[:, None]) * weights).sum(-1), rtol=1e-12)
    assert made.mean.item() == pytest.approx(1.4)
    assert made.variance.item() == pytest.approx(0.3 * 1 + 0.7 * 0.25 + 0.3 * 1.4**2 + 0.7 * 0.6**2)


def test_batches_of_mixtures():
    chosen = mt.distributions.Categorical(mt.ones(4, 2, 3))
    parts = mt.distributions.Normal(mt.zeros(4, 2, 3, 5), 1.0)
    for inner, batch, event in ((parts, (4, 2), (5,)), (mt.distributions.Normal(mt.zeros(4, 2, 3), 1.0), (4, 2), ())):
        of = mt.distributions.Independent(inner, 1) if event else inner
        made = mt.distributions.MixtureSameFamily(chosen, of)
        assert (made.batch_shape, made.event_shape) == (batch, event)
        assert made.mean.shape == made.variance.shape == batch + event
        x = made.sample((6,))
        assert x.shape == (6, *batch, *event)
        assert made.log_prob(x).shape == (6, *batch)
        other = made.expand((7, 4, 2))
        assert (other.batch_shape, other.event_shape) == ((7, *batch), event)


def test_divergences_are_means_of_log_ratios():
    """KL by quadrature of SciPy's densities, for the pairs of families that SciPy has."""
    from scipy.integrate import quad

    pairs = [
        (("Normal", 0.3, 1.2), ("Laplace", 0.1, 0.7)),
        (("Normal", 0.3, 0.8), ("Gumbel", 0.1, 1.5)),
        (("Gamma", 2.0, 1.5), ("Gumbel", 0.2, 2.0)),
        (("Beta", 2.0, 3.0), ("Gamma", 1.5, 2.0)),
        (("Uniform", 0.2, 0.7), ("Beta", 2.0, 3.0)),
        (("Uniform", 0.2, 0.7), ("Gumbel", 0.3, 0.5)),
        (("Gumbel", 0.2, 1.0), ("Gumbel", 0.5, 1.4)),
        (("Cauchy", 0.2, 1.0), ("Cauchy", 0.5, 1.4)),
        (("Pareto", 1.5, 3.0), ("Gamma", 1.5, 2.0)),
        (("Uniform", 1.2, 2.0), ("Pareto", 1.0, 3.0)),
        (("ContinuousBernoulli", 0.2), ("ContinuousBernoulli", 0.7)),
        (("Laplace", 0.1, 0.7), ("Normal", 0.3, 1.2)),
    ]
    ends = {"Normal": (-9, 9), "Laplace": (-25, 25), "Gamma": (1e-9, 40), "Beta": (0, 1), "Gumbel": (-4, 40),
            "Pareto": (1.5, 3000), "ContinuousBernoulli": (0, 1)}  # fmt: skip
    for first, second in pairs:
        p, q = (
            getattr(mt.distributions, name)(*map(t, numbers), validate_args=False) for name, *numbers in (first, second)
        )
        if first[0] == "Cauchy":
            lo, hi = -np.inf, np.inf
        else:
            lo, hi = ends.get(first[0], first[1:])

        def integrand(x, p=p, q=q):
            log_p = p.log_prob(t(x)).item()
            return np.exp(log_p) * (log_p - q.log_prob(t(x)).item()) if np.isfinite(log_p) else 0.0

        expected = quad(integrand, lo, hi, limit=200, epsabs=1e-9)[0]
        assert mt.distributions.kl_divergence(p, q).item() == pytest.approx(expected, rel=2e-6), (first, second)
