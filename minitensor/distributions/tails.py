"""Distributions with heavy tails: Cauchy's, Pareto's and the generalised one.

Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", chapters 16 and 20; for the generalised Pareto
distribution Pickands, "Statistical inference using extreme order statistics" (Annals of Statistics 3, 1975).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor._functions.offered import (
    atan,
    empty,
    exp,
    expm1,
    full_like,
    isclose,
    log,
    log1p,
    rand,
    tan,
    where,
    zeros_like,
)
from minitensor.distributions import constraints
from minitensor.distributions.compound import TransformedDistribution
from minitensor.distributions.distribution import Distribution
from minitensor.distributions.exponential import Exponential
from minitensor.distributions.parameters import broadcast_all
from minitensor.distributions.transforms import AffineTransform, ExpTransform

__all__ = ["Cauchy", "GeneralizedPareto", "Pareto"]


class Cauchy(Distribution):
    """Cauchy's distribution of median `loc` and half width `scale`. It has no mean."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _event_dims: ClassVar = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """`loc`, `scale`: numbers or tensors, broadcast."""
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """NaN."""
        return full_like(self.loc, math.nan)

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """Infinite."""
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """loc + scale times a standard sample."""
        shape = self._extended_shape(sample_shape)
        return self.loc + empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_() * self.scale

    def log_prob(self, value: Any) -> Any:
        """-log(pi scale (1 + z^2))."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Any) -> Any:
        """atan(z) / pi + 1 / 2."""
        if self._validate_args:
            self._validate_sample(value)
        return atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        """loc + scale tan(pi (p - 1 / 2))."""
        return tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        """log(4 pi scale)."""
        return math.log(4 * math.pi) + self.scale.log()


class Pareto(TransformedDistribution):
    """Pareto's distribution: numbers from `scale` on with the tail (scale / x)^alpha."""

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}
    _event_dims: ClassVar = {"scale": 0, "alpha": 0}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        """`scale`, `alpha`: numbers or tensors, broadcast."""
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """alpha scale / (alpha - 1); infinite up to 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        """scale."""
        return self.scale

    @property
    def variance(self) -> Any:
        """scale^2 alpha / ((alpha - 1)^2 (alpha - 2)); infinite up to 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From scale on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Any:
        """log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Distribution):
    """What is beyond a high threshold: the tail (1 + k z)^(-1 / k) with z = (x - loc) / scale, exp(-z) for k = 0."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _event_dims: ClassVar = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        """`loc`, `scale`, `concentration` (k): numbers or tensors, broadcast. Below k = 0 the support is finite."""
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _tail_exponent(self, value: Any) -> tuple[Any, Any]:
        """-log of the tail at a value, and k z, both with z held at 0 or above."""
        z = (value - self.loc) / self.scale
        k = self.concentration
        plain = isclose(k, zeros_like(k))
        divisor = where(plain, 1.0, k)
        product = where(plain, 0.0, k * z)
        return where(plain, z, log1p(product) / divisor), product

    def log_prob(self, value: Any) -> Any:
        """-log(scale) - (1 + 1 / k) log(1 + k z)."""
        if self._validate_args:
            self._validate_sample(value)
        exponent, product = self._tail_exponent(value)
        return -self.scale.log() - exponent - log1p(product)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of a draw above the value."""
        if self._validate_args:
            self._validate_sample(value)
        return -self._tail_exponent(value)[0]

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of `cdf`."""
        return log1p(-exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        """1 less the tail."""
        return -expm1(self.log_survival_function(value))

    def icdf(self, value: Any) -> Any:
        """loc + scale ((1 - p)^-k - 1) / k."""
        k = self.concentration
        plain = isclose(k, zeros_like(k))
        exponent = -log1p(-value)
        z = where(plain, exponent, expm1(k * exponent) / where(plain, 1.0, k))
        return self.loc + self.scale * z

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The quantile of a uniform sample."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(tuple(shape), dtype=self.loc.dtype, device=self.loc.device))

    @property
    def mean(self) -> Any:
        """loc + scale / (1 - k); infinite from k = 1 on."""
        k = self.concentration
        return where(k < 1, self.loc + self.scale / (1 - k), math.inf)

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """scale^2 / ((1 - k)^2 (1 - 2 k)); infinite from k = 1 / 2 on."""
        k = self.concentration
        return where(k < 0.5, self.scale.square() / ((1 - k).square() * (1 - 2 * k)), math.inf)

    def entropy(self) -> Any:
        """log(scale) + k + 1."""
        return log(self.scale) + self.concentration + 1

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From loc on; below k = 0 up to loc - scale / k."""
        negative = self.concentration < 0
        end = self.loc - self.scale / where(negative, self.concentration, 1.0)
        return constraints.interval(self.loc, where(negative, end, math.inf))
