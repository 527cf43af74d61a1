"""The absolute values of numbers distributed evenly around 0: of normal and of Cauchy's distribution.

Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", chapters 13 and 16.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor._functions.offered import as_tensor, full_like, where, zeros_like
from minitensor.distributions import constraints
from minitensor.distributions.compound import TransformedDistribution
from minitensor.distributions.normal import Normal
from minitensor.distributions.tails import Cauchy
from minitensor.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy", "HalfNormal"]


class Half(TransformedDistribution):
    """The absolute value of `base`, which is distributed evenly around 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _event_dims: ClassVar = {}

    def __init__(self, base: Any, validate_args: bool | None) -> None:
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """As it was given."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        """That of `base`, and log 2; -inf below 0."""
        if self._validate_args:
            self._validate_sample(value)
        value = as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        """Twice that of `base`, less 1."""
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        """The quantile."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        """That of `base`, less log 2."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """The absolute value of a normal distribution of mean 0."""

    base_dist: Normal
    _event_dims: ClassVar = {}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        """`scale`: the standard deviation of what the absolute value is taken of."""
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Any:
        """scale sqrt(2 / pi)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        """scale^2 (1 - 2 / pi)."""
        return self.scale * self.scale * (1 - 2 / math.pi)


class HalfCauchy(Half):
    """The absolute value of a Cauchy distribution of median 0."""

    base_dist: Cauchy
    _event_dims: ClassVar = {}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        """`scale`: the median."""
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    @property
    def mean(self) -> Any:
        """Infinite."""
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        """Infinite."""
        return full_like(self.scale, math.inf)
