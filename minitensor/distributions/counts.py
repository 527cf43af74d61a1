"""Counts: binomial, negative binomial, Poisson's, multinomial.

Johnson, Kemp and Kotz, "Univariate discrete distributions", chapters 3 to 5; Johnson, Kotz and Balakrishnan, "Discrete
multivariate distributions", chapter 35.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor._C import Size
from minitensor._functions.offered import (
    binomial,
    exp,
    lgamma,
    log,
    ones_like,
    poisson,
    sigmoid,
    tensor,
    where,
    xlogy,
    zeros,
)
from minitensor.autograd import no_grad
from minitensor.distributions import constraints
from minitensor.distributions.bernoulli import _numbered, log_failure
from minitensor.distributions.categorical import Categorical
from minitensor.distributions.distribution import Distribution, ExponentialFamily
from minitensor.distributions.gamma import Gamma
from minitensor.distributions.parameters import ProbsOrLogits, broadcast_all

__all__ = ["Binomial", "Multinomial", "NegativeBinomial", "Poisson"]


class Binomial(ProbsOrLogits, Distribution):
    """How many of `total_count` trials of probability `probs` succeed."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _event_dims: ClassVar = {"total_count": 0, "probs": 0, "logits": 0}
    _kept = ("_given",)

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """Either the probability or its log odds, broadcast with the number of trials."""
        (count,) = self._take_one(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        """n p."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        """floor((n + 1) p), at most n."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Any:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Counts in the parameter's dtype."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        """log of n over k, and k logit(p) + n log(1 - p)."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = lgamma(n + 1) - lgamma(value + 1) - lgamma(n - value + 1)
        return ways + value * self.logits + n * log_failure(self.logits)

    def entropy(self) -> Any:
        """By the sum over all counts. NotImplementedError for several numbers of trials."""
        if not bool((self.total_count == self._trials()).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        each = self.log_prob(self.enumerate_support(False))
        return -(exp(each) * each).sum(0)

    def _trials(self) -> int:
        return int(self.total_count.max())

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 to total_count. NotImplementedError for several numbers of trials."""
        if not bool((self.total_count == self._trials()).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return _numbered(1 + self._trials(), self._param.dtype, self._param.device, self._batch_shape, expand)


class NegativeBinomial(ProbsOrLogits, Distribution):
    """How many trials of probability `probs` succeed before `total_count` failed."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _event_dims: ClassVar = {"total_count": 0, "probs": 0, "logits": 0}
    _kept = ("_given",)

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """Either the probability or its log odds, broadcast with the number of failures, any number from 0 on."""
        (count,) = self._take_one(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """n p / (1 - p)."""
        return self.total_count * exp(self.logits)

    @property
    def mode(self) -> Any:
        """floor((n - 1) p / (1 - p)), not below 0."""
        return ((self.total_count - 1) * exp(self.logits)).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        """n p / (1 - p)^2."""
        return self.mean / sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Poisson samples of gamma distributed rates."""
        with no_grad():
            rates = Gamma(self.total_count, exp(-self.logits), validate_args=False).sample(sample_shape)
            return poisson(rates)

    def log_prob(self, value: Any) -> Any:
        """log of n + k - 1 over k, and n log(1 - p) + k log p."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = lgamma(n + value) - lgamma(1.0 + value) - lgamma(n)
        ways = where(n + value == 0.0, 0.0, ways)
        return ways + n * log_failure(self.logits) + value * log_failure(-self.logits)


class Poisson(ExponentialFamily):
    """Poisson's distribution of mean `rate`."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _event_dims: ClassVar = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        """`rate`: a number or a tensor."""
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """rate."""
        return self.rate

    @property
    def mode(self) -> Any:
        """floor(rate)."""
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        """rate."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        """Counts in the rate's dtype."""
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        """k log(rate) - rate - log k!."""
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return xlogy(value, rate) - rate - lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:
        return exp(x)


class Multinomial(Distribution):
    """How often each category comes among `total_count` draws."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """Either the categories' probabilities (weights are normalised) or log weights, in the last dimension."""
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        if total_count < 0:
            Binomial(total_count, self._categorical.probs)  # which says so
        super().__init__(
            self._categorical.batch_shape, Size(self._categorical.param_shape[-1:]), validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """With the categories', expanded."""
        new = self._get_checked_instance(Multinomial, _instance)
        batch_shape = Size(batch_shape)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts up to total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Any:
        """n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        """The counts of categories drawn."""
        with no_grad():
            drawn = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
            shape = self._extended_shape(sample_shape)
            counts = zeros(tuple(shape), dtype=self.probs.dtype, device=self.probs.device)
            return counts.scatter_add(-1, drawn, ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Any) -> Any:
        """log n!, less the sum of log k!, and the sum of k log p."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = where((value == 0) & (logits == -math.inf), 0.0, logits)
        ways = lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Any:
        """n times the categories', less log n!, and the sum of the means of log k!."""
        n = tensor(self.total_count)
        each = Binomial(self.total_count, probs=self.probs)
        counts = each.enumerate_support(expand=False)[1:]
        ways = (exp(each.log_prob(counts)) * lgamma(counts + 1)).sum((0, -1))
        return self.total_count * self._categorical.entropy() - lgamma(n.to(ways.dtype) + 1) + ways
