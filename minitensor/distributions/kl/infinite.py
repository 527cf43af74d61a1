"""Pairs whose divergence is infinite: p has samples where q has none."""

from __future__ import annotations

import math
from typing import Any

from minitensor._functions.offered import broadcast_shapes, full
from minitensor.distributions.bernoulli import Bernoulli, ContinuousBernoulli
from minitensor.distributions.beta import Beta
from minitensor.distributions.counts import Binomial, Poisson
from minitensor.distributions.exponential import Exponential, Gumbel, Laplace, Uniform
from minitensor.distributions.gamma import Gamma
from minitensor.distributions.kl.registry import register_kl
from minitensor.distributions.normal import Normal
from minitensor.distributions.tails import Pareto

__all__: list[str] = []

_UNIT = (Beta, ContinuousBernoulli)
_FINITE = (*_UNIT, Uniform)
_ABOVE = (Exponential, Gamma)
_PAIRS: dict[Any, Any] = {
    **dict.fromkeys(_UNIT, (Pareto,)),
    **dict.fromkeys(_ABOVE, (*_FINITE, Pareto)),
    **dict.fromkeys((Gumbel, Laplace, Normal), (*_FINITE, *_ABOVE, Pareto)),
    Pareto: _FINITE,
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Any:
    like = p.mean
    shape = broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape))
    return full(tuple(shape), math.inf, dtype=like.dtype, device=like.device)


for _p, _others in _PAIRS.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
