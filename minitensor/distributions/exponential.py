"""Exponential, Laplace's, the uniform distribution, and those of extreme values: Gumbel's, Weibull's.

Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", chapters 19, 21, 22, 24 and 26.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor import dtypes
from minitensor._functions import offered
from minitensor._functions.offered import empty, full_like, lgamma, log1p, ones_like, rand, zeros_like
from minitensor.distributions import constraints
from minitensor.distributions.compound import TransformedDistribution
from minitensor.distributions.distribution import Distribution, ExponentialFamily
from minitensor.distributions.parameters import broadcast_all, euler_constant
from minitensor.distributions.transforms import AffineTransform, ExpTransform, PowerTransform

__all__ = ["Exponential", "Gumbel", "Laplace", "Uniform", "Weibull"]


class Exponential(ExponentialFamily):
    """The exponential distribution of rate `rate`."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _event_dims: ClassVar = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        """`rate`: 1 over the mean; a number or a tensor."""
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        """1 / rate^2."""
        return 1 / (self.rate * self.rate)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """A sample of rate 1 over the rate."""
        shape = self._extended_shape(sample_shape)
        return empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        """log(rate) - rate x."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        """1 - exp(-rate x)."""
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Any) -> Any:
        """-log(1 - p) / rate."""
        return -log1p(-value) / self.rate

    def entropy(self) -> Any:
        """1 - log(rate)."""
        return 1.0 - offered.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -offered.log(-x)


class Laplace(Distribution):
    """Laplace's distribution: |x - loc| is exponential of mean `scale`."""

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
        """loc."""
        return self.loc

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """2 scale^2."""
        return 2 * self.scale * self.scale

    @property
    def stddev(self) -> Any:
        """scale sqrt(2)."""
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        """By the inverse of the cumulative function at u / 2, for u in (-1, 1)."""
        shape = self._extended_shape(sample_shape)
        u = empty(shape, dtype=self.loc.dtype, device=self.loc.device).uniform_(dtypes.finfo(self.loc.dtype).eps - 1, 1)
        # |u| may be rounded to 1, where the logarithm has no value.
        size = u.abs().clamp(max=1 - dtypes.finfo(u.dtype).eps / 2)
        return self.loc - self.scale * u.sign() * log1p(-size)

    def log_prob(self, value: Any) -> Any:
        """-|x - loc| / scale - log(2 scale)."""
        if self._validate_args:
            self._validate_sample(value)
        return -offered.log(2 * self.scale) - offered.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        """exp(z) / 2 up to loc, 1 - exp(-z) / 2 from there on."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Any) -> Any:
        """The quantile."""
        away = value - 0.5
        return self.loc - self.scale * away.sign() * log1p(-2 * away.abs())

    def entropy(self) -> Any:
        """1 + log(2 scale)."""
        return 1 + offered.log(2 * self.scale)


class Uniform(Distribution):
    """Numbers in [low, high), all alike."""

    has_rsample = True
    _event_dims: ClassVar = {"low": 0, "high": 0}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        """`low`, `high`: numbers or tensors, broadcast; ValueError unless low is below high."""
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Each is bounded by the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The interval."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        """(low + high) / 2."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        """NaN: no place is above others."""
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        """(high - low) / sqrt(12)."""
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Any:
        """(high - low)^2 / 12."""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        """low + u (high - low)."""
        shape = self._extended_shape(sample_shape)
        u = rand(tuple(shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        """-log(high - low) within, -inf elsewhere; `high` is outside."""
        if self._validate_args:
            self._validate_sample(value)
        within = (self.low <= value) & (value < self.high)
        return offered.log(within.to(self.low.dtype)) - offered.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        """The share of the interval below the value."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        """low + p (high - low)."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        """log(high - low)."""
        return offered.log(self.high - self.low)


class Gumbel(TransformedDistribution):
    """Gumbel's distribution of largest values: the cumulative function exp(-exp(-(x - loc) / scale))."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _event_dims: ClassVar = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """`loc`, `scale`: numbers or tensors, broadcast."""
        self.loc, self.scale = broadcast_all(loc, scale)
        finfo = dtypes.finfo(self.loc.dtype)
        base = Uniform(full_like(self.loc, finfo.tiny), full_like(self.loc, 1 - finfo.eps), validate_args=validate_args)
        log = ExpTransform().inv
        flip = AffineTransform(loc=0, scale=-ones_like(self.scale))
        steps = [log, flip, log, AffineTransform(loc=self.loc, scale=-self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        """-z - exp(-z) - log(scale)."""
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        """loc + scale times Euler's constant."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def stddev(self) -> Any:
        """scale pi / sqrt(6)."""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        """scale^2 pi^2 / 6."""
        return self.stddev * self.stddev

    def entropy(self) -> Any:
        """log(scale) + 1 and Euler's constant."""
        return self.scale.log() + (1 + euler_constant)


class Weibull(TransformedDistribution):
    """Weibull's distribution: scale times e^(1 / concentration) for e of the exponential distribution."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _event_dims: ClassVar = {"scale": 0, "concentration": 0, "concentration_reciprocal": 0}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        """`scale`, `concentration`: numbers or tensors, broadcast."""
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ones_like(self.scale), validate_args=validate_args)
        steps = [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Any:
        """The mean of (x / scale)^n: gamma(1 + n / concentration)."""
        return lgamma(1 + n * self.concentration_reciprocal).exp()

    @property
    def mean(self) -> Any:
        """scale gamma(1 + 1 / k)."""
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Any:
        """scale (1 - 1 / k)^(1 / k); 0 up to k = 1."""
        return self.scale * (1 - self.concentration_reciprocal).clamp(min=0) ** self.concentration_reciprocal

    @property
    def variance(self) -> Any:
        """scale^2 (gamma(1 + 2 / k) - gamma(1 + 1 / k)^2)."""
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Any:
        """Euler's constant times (1 - 1 / k), log(scale / k), and 1."""
        return euler_constant * (1 - self.concentration_reciprocal) + (self.scale / self.concentration).log() + 1
