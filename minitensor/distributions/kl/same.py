"""Divergences within a family.

Gil, Alajaji and Linder, "Rényi divergence measures for commonly used univariate continuous distributions" (Information
Sciences 249, 2013); for exponential families Nielsen and Nock, "Entropies and cross-entropies of exponential families"
(ICIP 2010); Cauchy's by Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy
distributions" (2019).
"""

from __future__ import annotations

import math
from typing import Any

from minitensor import linalg
from minitensor._functions.offered import broadcast_shapes, diag_embed, digamma, lgamma, log1p, where, xlogy
from minitensor.distributions.bernoulli import Bernoulli, ContinuousBernoulli, Geometric
from minitensor.distributions.beta import Beta, Dirichlet
from minitensor.distributions.categorical import Categorical, OneHotCategorical
from minitensor.distributions.compound import Independent, TransformedDistribution
from minitensor.distributions.counts import Binomial, Poisson
from minitensor.distributions.distribution import ExponentialFamily
from minitensor.distributions.exponential import Exponential, Gumbel, Laplace, Uniform
from minitensor.distributions.gamma import Gamma
from minitensor.distributions.half import HalfNormal
from minitensor.distributions.kl.registry import kl_divergence, register_kl
from minitensor.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    log_diagonal,
    solve_lower,
)
from minitensor.distributions.normal import Normal
from minitensor.distributions.parameters import euler_constant, sum_rightmost
from minitensor.distributions.tails import Cauchy, Pareto
from minitensor.nn.functional import logsigmoid

__all__: list[str] = []


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    # x log(x / y) is 0 for x = 0, infinite for y = 0 elsewhere: xlogy says the first, log the second.
    def term(x: Any, y: Any) -> Any:
        return where(x == 0, 0.0, xlogy(x, x) - xlogy(x, y))

    return term(p.probs, q.probs) + term(1 - p.probs, 1 - q.probs)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    norms = lgamma(c) + lgamma(d) - lgamma(c + d) - lgamma(a) - lgamma(b) + lgamma(a + b)
    return norms + (a - c) * digamma(a) + (b - d) * digamma(b) + (c + d - a - b) * digamma(a + b)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    """Of as many trials n times that of one. With fewer trials in q some counts of p are impossible."""
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    n = p.total_count
    each = p.probs * (p.logits - q.logits) + logsigmoid(-p.logits) - logsigmoid(-q.logits)
    return where(n > q.total_count, math.inf, n * each)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    each = p.probs * (p.logits - q.logits)
    each = where((q.probs == 0).expand_as(each), math.inf, each)
    return where((p.probs == 0).expand_as(each), 0.0, each).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    # log of ((s + s')^2 + (l - l')^2) / (4 s s')
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    rest = p._log_norm() - q._log_norm() + log1p(-p.probs) - log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + rest


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = lgamma(total) - lgamma(b.sum(-1)) - (lgamma(a) - lgamma(b)).sum(-1)
    return norms + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """F(q) - F(p) - <q - p, grad F(p)>, for two of one class."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    theta, normalizer, slopes = p._at_natural_parameters()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for mine, other, slope in zip(theta, others, slopes, strict=True):
        term = (other - mine) * slope
        result = result - sum_rightmost(term, len(q.event_shape) if term.ndim > len(p.batch_shape) else 0)
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b, c, d = p.concentration, p.rate, q.concentration, q.rate
    return c * (b / d).log() + lgamma(c) - lgamma(a) + (a - c) * digamma(a) + (d - b) * (a / b)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    away = (q.loc - p.loc) / q.scale
    return -ratio.log() + euler_constant * (ratio - 1) - away + (away + lgamma(1 + ratio)).exp() - 1


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


def _squares(factor: Any, columns: Any) -> Any:
    """tr(B^T (L L^T)^-1 B), the batches broadcast."""
    batch = broadcast_shapes(tuple(factor.shape[:-2]), tuple(columns.shape[:-2]))
    n, m = columns.shape[-2:]
    solved = linalg.solve_triangular(factor.expand(*batch, n, n), columns.expand(*batch, n, m), upper=False)
    return solved.square().sum((-2, -1))


def _same_size(p: Any, q: Any) -> int:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {'(low rank) ' if p is not q else ''}Multivariate Normals with different "
            "event shapes cannot be computed"
        )
    size: int = p.event_shape[0]
    return size


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    n = _same_size(p, q)
    away = solve_lower(q._factor, q.loc - p.loc).square().sum(-1)
    logs = log_diagonal(q._factor) - log_diagonal(p._factor)
    return logs + 0.5 * (_squares(q._factor, p._factor) + away - n)


def _low_rank_squares(q: Any, columns: Any) -> Any:
    """tr(B^T S^-1 B) for the low-rank covariance S of q."""
    inner = q._within() @ columns
    return (columns.square() / q._d.unsqueeze(-1)).sum((-2, -1)) - inner.square().sum((-2, -1))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Any:
    n = _same_size(p, q)
    away = _low_rank_squares(q, (q.loc - p.loc).unsqueeze(-1))
    spread = _low_rank_squares(q, p._w) + _low_rank_squares(q, diag_embed(p._d.sqrt()))
    return 0.5 * (q._log_det() - p._log_det() + spread + away - n)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_to_low_rank(p: Any, q: Any) -> Any:
    n = _same_size(p, q)
    away = _low_rank_squares(q, (q.loc - p.loc).unsqueeze(-1))
    spread = _low_rank_squares(q, p._factor)
    return 0.5 * (q._log_det() - 2 * log_diagonal(p._factor) + spread + away - n)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_to_full(p: Any, q: Any) -> Any:
    n = _same_size(p, q)
    away = solve_lower(q._factor, q.loc - p.loc).square().sum(-1)
    spread = _squares(q._factor, p._w) + _squares(q._factor, diag_embed(p._d.sqrt()))
    return 0.5 * (2 * log_diagonal(q._factor) - p._log_det() + spread + away - n)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return xlogy(p.rate, p.rate) - xlogy(p.rate, q.rate) - p.rate + q.rate


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    """That of the bases: the same transforms keep it."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "the divergence of transformed distributions is known for equal transforms and event shapes only"
        )
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), extra)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the divergence of Independent distributions of different batch dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
