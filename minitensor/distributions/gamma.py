"""The gamma distribution and what is made of it: chi-squared, inverse gamma, F and Student's t.

Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", chapters 17, 18, 27 and 28.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor import special
from minitensor._functions.offered import as_tensor, digamma, lgamma, log, log1p, rsqrt, tensor, where, xlogy
from minitensor.composite.random.tensors import standard_gamma
from minitensor.distributions import constraints
from minitensor.distributions.compound import TransformedDistribution
from minitensor.distributions.distribution import Distribution, ExponentialFamily
from minitensor.distributions.parameters import broadcast_all, standard_normal
from minitensor.distributions.transforms import PowerTransform
from minitensor.dtypes import finfo

__all__ = ["Chi2", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and inverse scale `rate`."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _event_dims: ClassVar = {"concentration": 0, "rate": 0}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        """`concentration`, `rate`: numbers or tensors, broadcast."""
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        """(concentration - 1) / rate, not below 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        """concentration / rate^2."""
        return self.concentration / (self.rate * self.rate)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Standard gamma samples over the rate; none is zero. The gradient is implicit."""
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        least = finfo(value.dtype).tiny
        # The sample keeps its gradient where it is moved away from zero.
        return value + (value.detach().clamp(min=least) - value.detach())

    def log_prob(self, value: Any) -> Any:
        """a log b + (a - 1) log x - b x - lgamma(a)."""
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return xlogy(a, b) + xlogy(a - 1, value) - b * value - lgamma(a)

    def cdf(self, value: Any) -> Any:
        """The regularised lower incomplete gamma function (DLMF 8.2.4)."""
        if self._validate_args:
            self._validate_sample(value)
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        """a - log b + lgamma(a) + (1 - a) digamma(a)."""
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1 - a) * digamma(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return lgamma(x + 1) - (x + 1) * log(-y)


class Chi2(Gamma):
    """The chi-squared distribution of `df` degrees of freedom: Gamma(df / 2, 1 / 2)."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}
    _event_dims: ClassVar = Gamma._event_dims

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        """`df`: a number or a tensor."""
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """The inverse of a gamma distribution."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma
    _event_dims: ClassVar = {}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        """`concentration`, `rate`: of the gamma distribution; `rate` is this one's scale."""
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(tensor(-1.0, dtype=base.rate.dtype, device=base.rate.device))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        """As it was given."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """As it was given."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        """rate / (concentration - 1); infinite up to 1."""
        a = self.concentration
        return where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Any:
        """rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        """rate^2 / ((concentration - 1)^2 (concentration - 2)); infinite up to 2."""
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Any:
        """a + log b + lgamma(a) - (1 + a) digamma(a)."""
        a = self.concentration
        return a + self.rate.log() + lgamma(a) - (1 + a) * digamma(a)


class FisherSnedecor(Distribution):
    """The F distribution: of two chi-squared ones, of `df1` and `df2` and each over these, the quotient."""

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _event_dims: ClassVar = {"df1": 0, "df2": 0}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        """`df1`, `df2`: numbers or tensors, broadcast."""
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """df2 / (df2 - 2); NaN up to 2."""
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        """(df1 - 2) / df1 * df2 / (df2 + 2); NaN up to df1 = 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Any:
        """2 df2^2 (df1 + df2 - 2) / (df1 (df2 - 2)^2 (df2 - 4)); NaN up to df2 = 4."""
        a, b = self.df1, self.df2
        return where(b > 4, 2 * b * b * (a + b - 2) / (a * (b - 2).square() * (b - 4)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The quotient of gamma samples, kept from zero."""
        over = Gamma(self.df1 * 0.5, self.df1, validate_args=False).rsample(sample_shape)
        under = Gamma(self.df2 * 0.5, self.df2, validate_args=False).rsample(sample_shape)
        least = finfo(over.dtype).tiny
        return (over / under.clamp(min=least)).clamp(min=least)

    def log_prob(self, value: Any) -> Any:
        """By the beta function of df1 / 2 and df2 / 2."""
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * log1p(ratio * value) - log_beta


class StudentT(Distribution):
    """Student's t distribution of `df` degrees of freedom, moved by `loc` and stretched by `scale`."""

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _event_dims: ClassVar = {"df": 0, "loc": 0, "scale": 0}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        """`df`, `loc`, `scale`: numbers or tensors, broadcast."""
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """loc; NaN up to df = 1."""
        return where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """scale^2 df / (df - 2); infinite up to df = 2, NaN up to 1."""
        finite = self.scale.square() * self.df / (self.df - 2)
        return where(self.df > 2, finite, where(self.df > 1, math.inf, math.nan).to(finite.dtype))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """A normal sample over the root of a chi-squared one over df."""
        shape = self._extended_shape(sample_shape)
        z = standard_normal(shape, self.df.dtype, self.df.device)
        square = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * z * rsqrt(square / self.df)

    def log_prob(self, value: Any) -> Any:
        """-(df + 1) / 2 log(1 + y^2 / df), less the logarithm of the norm."""
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
            + lgamma(0.5 * self.df) - lgamma(0.5 * (self.df + 1))
        )  # fmt: skip
        return -0.5 * (self.df + 1) * log1p(y * y / self.df) - norm

    def entropy(self) -> Any:
        """(df + 1) / 2 (digamma((df + 1) / 2) - digamma(df / 2)) + log(scale sqrt(df) B(1/2, df / 2))."""
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = lgamma(half) + 0.5 * math.log(math.pi) - lgamma(more)
        return self.scale.log() + more * (digamma(more) - digamma(half)) + 0.5 * self.df.log() + log_beta
