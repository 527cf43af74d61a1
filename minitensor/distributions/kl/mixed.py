"""Divergences between families: -entropy of p, less the mean of log q under p, by the moments of p."""

from __future__ import annotations

import math
from typing import Any

from minitensor._functions.offered import digamma, erf, lgamma, log1p, where, xlogy
from minitensor.distributions.bernoulli import Bernoulli, ContinuousBernoulli
from minitensor.distributions.beta import Beta
from minitensor.distributions.counts import Poisson
from minitensor.distributions.exponential import Exponential, Gumbel, Laplace, Uniform
from minitensor.distributions.gamma import Gamma
from minitensor.distributions.kl.registry import register_kl
from minitensor.distributions.normal import Normal
from minitensor.distributions.parameters import euler_constant
from minitensor.distributions.tails import Pareto

__all__: list[str] = []


def _to_normal(p: Any, q: Any) -> Any:
    spread = p.variance + (p.mean - q.loc).square()
    return -p.entropy() + 0.5 * spread / q.variance + q.scale.log() + 0.5 * math.log(2 * math.pi)


for _family in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_family, Normal)(_to_normal)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    return where(p.alpha <= 2, math.inf, _to_normal(p, q))


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


# ---- to those on the numbers above 0


def _to_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


for _family in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_family, Exponential)(_to_exponential)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    return where(p.low < 0, math.inf, _to_exponential(p, q))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    return where(p.alpha <= 1, math.inf, _to_exponential(p, q))


def _to_gamma(p: Any, q: Any, mean_of_log: Any) -> Any:
    a, b = q.concentration, q.rate
    return -p.entropy() - a * b.log() + lgamma(a) - (a - 1) * mean_of_log + b * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    return _to_gamma(p, q, digamma(p.concentration1) - digamma(p.concentration1 + p.concentration0))


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    return _to_gamma(p, q, -p.rate.log() - euler_constant)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    result = _to_gamma(p, q, p.scale.log() + p.alpha.reciprocal())
    return where(p.alpha <= 1, math.inf, result)


def _mean_of_log(p: Any) -> Any:
    """The mean of log x between low and high, both at least 0."""
    total = xlogy(p.high, p.high) - xlogy(p.low, p.low)
    return total / (p.high - p.low) - 1


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    return where(p.low < 0, math.inf, _to_gamma(p, q, _mean_of_log(p)))


# ---- to Gumbel's, by the mean of exp(-x / scale)


def _to_gumbel(p: Any, q: Any, mean_of_exp: Any) -> Any:
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + mean_of_exp


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    part = p.rate * q.scale
    return _to_gumbel(p, q, (q.loc / q.scale).exp() * part / (part + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    part = 1 + 1 / (p.rate * q.scale)
    return _to_gumbel(p, q, (q.loc / q.scale - p.concentration * part.log()).exp())


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    return _to_gumbel(p, q, ((q.loc - p.loc) / q.scale + 0.5 * ratio.square()).exp())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    low, high = ((q.loc - end) / q.scale for end in (p.low, p.high))
    return _to_gumbel(p, q, q.scale * (low.exp() - high.exp()) / (p.high - p.low))


# ---- to Laplace's


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = p.loc - q.loc
    z = away / p.scale
    mean_distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z * z).exp() + away * erf(math.sqrt(0.5) * z)
    return -p.entropy() + mean_distance / q.scale + (2 * q.scale).log()


# ---- to those on the unit interval


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - log1p(-q.probs) - q._log_norm()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    return where((p.high > 1) | (p.low < 0), math.inf, _beta_continuous_bernoulli(p, q))


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0

    def mean_of_log(low: Any, high: Any) -> Any:
        return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1

    log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    logs = (a - 1) * mean_of_log(p.low, p.high) + (b - 1) * mean_of_log(1 - p.high, 1 - p.low)
    return where((p.high > 1) | (p.low < 0), math.inf, -p.entropy() - logs + log_beta)


# ---- to a finite interval


def _to_uniform(p: Any, q: Any) -> Any:
    """From a family on the unit interval."""
    return where((q.low > 0) | (q.high < 1), math.inf, -p.entropy() + (q.high - q.low).log())


for _family in (Beta, ContinuousBernoulli):
    register_kl(_family, Uniform)(_to_uniform)


# ---- to Pareto's


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    log_q = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_of_log(p)
    return where(p.low < q.support.lower_bound, math.inf, -p.entropy() - log_q)
