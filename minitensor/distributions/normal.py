"""The normal distribution, and what comes of it by exp, by |x| and by the simplex.

Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", chapters 13 and 14; for the logistic normal
Aitchison and Shen, "Logistic-normal distributions" (Biometrika 67, 1980).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor._functions.offered import erf, erfinv, log
from minitensor.distributions import constraints
from minitensor.distributions.compound import TransformedDistribution
from minitensor.distributions.distribution import ExponentialFamily
from minitensor.distributions.parameters import broadcast_all, standard_normal
from minitensor.distributions.transforms import ExpTransform, StickBreakingTransform

__all__ = ["LogNormal", "LogisticNormal", "Normal"]


class Normal(ExponentialFamily):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0
    _event_dims: ClassVar = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """`loc`, `scale`: numbers or tensors, broadcast."""
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """loc."""
        return self.loc

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def stddev(self) -> Any:
        """scale."""
        return self.scale

    @property
    def variance(self) -> Any:
        """scale^2."""
        return self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        """loc + scale z."""
        shape = self._extended_shape(sample_shape)
        return self.loc + standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: Any) -> Any:
        """-((x - loc) / scale)^2 / 2 - log(scale sqrt(2 pi))."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Any) -> Any:
        """(1 + erf(z / sqrt 2)) / 2."""
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Any) -> Any:
        """The quantile, by erfinv."""
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        """log(scale sqrt(2 pi e))."""
        return 0.5 * (1 + math.log(2 * math.pi)) + log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.loc / self.variance, -0.5 / self.variance

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x * x / y + 0.5 * log(-math.pi / y)


class LogNormal(TransformedDistribution):
    """exp of a normal distribution."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal
    _event_dims: ClassVar = {}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """`loc`, `scale`: mean and standard deviation of the logarithm."""
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """The logarithm's mean."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The logarithm's standard deviation."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        """exp(loc + scale^2 / 2)."""
        return (self.loc + self.scale * self.scale / 2).exp()

    @property
    def mode(self) -> Any:
        """exp(loc - scale^2)."""
        return (self.loc - self.scale * self.scale).exp()

    @property
    def variance(self) -> Any:
        """(exp(scale^2) - 1) exp(2 loc + scale^2)."""
        square = self.scale * self.scale
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        """The logarithm's, and its mean."""
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Points of a simplex, one dimension larger, of normal distributions by stick breaking."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _event_dims: ClassVar = {}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """`loc`, `scale`: of the normal distributions, one for each number of an event in the last dimension."""
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """As it was given."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """As it was given."""
        return self.base_dist.base_dist.scale
