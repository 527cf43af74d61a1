"""Bernoulli's distribution, trials up to the first success, and the continuous relative of the former.

Johnson, Kemp and Kotz, "Univariate discrete distributions", chapters 3 and 5; Loaiza-Ganem and Cunningham, "The
continuous Bernoulli: fixing a pervasive error in variational autoencoders" (NeurIPS 2019).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor import special
from minitensor._functions.offered import arange, bernoulli, exp, log1p, rand, sqrt, where, zeros_like
from minitensor.autograd import no_grad
from minitensor.distributions import constraints
from minitensor.distributions.distribution import Distribution, ExponentialFamily
from minitensor.distributions.parameters import ProbsOrLogits, broadcast_all, clamp_probs, probs_to_logits
from minitensor.dtypes import finfo
from minitensor.nn.functional import binary_cross_entropy_with_logits, logsigmoid

__all__ = ["Bernoulli", "ContinuousBernoulli", "Geometric"]


def _cross_entropy(logits: Any, probs: Any) -> Any:
    return binary_cross_entropy_with_logits(logits, probs, reduction="none")


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability `probs`, else 0."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _event_dims: ClassVar = {"probs": 0, "logits": 0}
    _kept = ("_given",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        """Either the probability or its log odds: a number or a tensor."""
        self._take_one(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """probs."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The likelier value; NaN for 1/2."""
        return where(self.probs == 0.5, math.nan, (self.probs > 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Zeros and ones in the parameter's dtype."""
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        """x log p + (1 - x) log(1 - p), by the log odds."""
        if self._validate_args:
            self._validate_sample(value)
        return -_cross_entropy(*broadcast_all(self.logits, value))

    def entropy(self) -> Any:
        """-p log p - (1 - p) log(1 - p)."""
        return _cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 and 1."""
        return _numbered(2, self._param.dtype, self._param.device, self._batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        return log1p(exp(x))


def _numbered(count: int, dtype: Any, device: Any, batch_shape: Any, expand: bool) -> Any:
    """0 to count - 1 in a first dimension before those of a batch."""
    values = arange(count, dtype=dtype, device=device).reshape(count, *(1,) * len(batch_shape))
    return values.expand(count, *batch_shape) if expand else values


class Geometric(ProbsOrLogits, Distribution):
    """How many trials of probability `probs` fail before the first success."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _event_dims: ClassVar = {"probs": 0, "logits": 0}
    _kept = ("_given",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        """Either the probability, above 0, or its log odds: a number or a tensor."""
        self._take_one(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{self.probs[self.probs <= 0]}"
            )

    @property
    def mean(self) -> Any:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        """0."""
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        """floor(log u / log(1 - p))."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            u = rand(tuple(shape), dtype=self.probs.dtype, device=self.probs.device)
            return (u.clamp(min=finfo(u.dtype).tiny).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        """x log(1 - p) + log p."""
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        return special.xlog1py(value, -probs) + probs.log()

    def entropy(self) -> Any:
        """That of one trial over p."""
        return _cross_entropy(self.logits, self.probs) / self.probs


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Numbers in [0, 1] with a density proportional to p^x (1 - p)^(1 - x).

    Within `lims` around p = 1/2 the closed forms lose their digits: Taylor series are taken there.
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _event_dims: ClassVar = {"probs": 0, "logits": 0}
    _kept = ("_given", "_lims")

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        """Either p or its log odds: a number or a tensor. A p of 0 or 1 is moved inside by eps."""
        self._take_one(probs, logits)
        if probs is not None:
            if validate_args is not False and not bool(constraints.unit_interval.check(self.probs).all()):
                raise ValueError("The parameter probs has invalid values")
            self.__dict__["probs"] = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    def _stable(self, probs: Any) -> tuple[Any, Any, Any]:
        """Where the closed forms hold, p there (elsewhere a number that is harmless), and p - 1/2."""
        stable = (probs <= self._lims[0]) | (probs > self._lims[1])
        return stable, where(stable, probs, self._lims[0]), probs - 0.5

    def _log_norm(self) -> Any:
        """log of 2 atanh(1 - 2p) / (1 - 2p)."""
        stable, p, x = self._stable(clamp_probs(self.probs))
        closed = (log1p(-p) - p.log()).abs().log() - (1 - 2 * p).abs().log()
        return where(stable, closed, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x * x) * x * x)

    @property
    def mean(self) -> Any:
        """p / (2p - 1) + 1 / (2 atanh(1 - 2p))."""
        stable, p, x = self._stable(self.probs)
        closed = p / (2.0 * p - 1.0) + 1.0 / (log1p(-p) - p.log())
        return where(stable, closed, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x * x) * x)

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return sqrt(self.variance)

    @property
    def variance(self) -> Any:
        """p (p - 1) / (1 - 2p)^2 + 1 / (2 atanh(1 - 2p))^2."""
        stable, p, x = self._stable(self.probs)
        closed = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / (log1p(-p) - p.log()).square()
        return where(stable, closed, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x * x) * x * x)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The quantile of a uniform sample."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(tuple(shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        """Bernoulli's, and the logarithm of the norm."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -_cross_entropy(logits, value) + self._log_norm()

    def cdf(self, value: Any) -> Any:
        """(p^x (1 - p)^(1 - x) + p - 1) / (2p - 1); x itself near p = 1/2."""
        if self._validate_args:
            self._validate_sample(value)
        stable, p, _ = self._stable(self.probs)
        closed = (p**value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = where(stable, closed, value)
        return where(value <= 0.0, 0.0, where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        """The quantile; p itself near p = 1/2."""
        stable, p, _ = self._stable(self.probs)
        closed = (log1p(-p + value * (2.0 * p - 1.0)) - log1p(-p)) / (p.log() - log1p(-p))
        return where(stable, closed, value)

    def entropy(self) -> Any:
        """-log norm - log(1 - p) - mean logit(p)."""
        return -self.mean * probs_to_logits(self.probs, True) - self._log_norm() - log1p(-self.probs)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        """log((e^x - 1) / x)."""
        stable = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        away = where(stable, x, self._lims[0] - 0.5)
        closed = away.expm1().abs().log() - away.abs().log()
        return where(stable, closed, 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0)


def log_failure(logits: Any) -> Any:
    """log(1 - p) of log odds, with all digits."""
    return logsigmoid(-logits)
