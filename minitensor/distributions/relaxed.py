"""Continuous relatives of Bernoulli's and the categorical distribution, whose samples have gradients.

Maddison, Mnih and Teh, "The concrete distribution" (ICLR 2017); Jang, Gu and Poole, "Categorical reparameterization
with Gumbel-softmax" (ICLR 2017).
"""

from __future__ import annotations

from typing import Any, ClassVar

from minitensor._C import Size
from minitensor._functions.offered import as_tensor, full_like, lgamma, rand
from minitensor.distributions import constraints
from minitensor.distributions.categorical import Categorical
from minitensor.distributions.compound import TransformedDistribution
from minitensor.distributions.distribution import Distribution
from minitensor.distributions.parameters import ProbsOrLogits, clamp_probs
from minitensor.distributions.transforms import ExpTransform, SigmoidTransform
from minitensor.nn.functional import logsigmoid

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The log odds of a relaxed Bernoulli sample: (logits + a logistic sample) / temperature."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _event_dims: ClassVar = {"probs": 0, "logits": 0}
    _kept = ("_given", "temperature")

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """`temperature`: a tensor; the lower, the nearer to 0 and 1. Either the probability or its log odds."""
        self.temperature = temperature
        self._take_one(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """By a uniform sample's log odds."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rand(tuple(shape), dtype=probs.dtype, device=probs.device))
        logistic = u.log() - (-u).log1p()
        return (logistic + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        """log t + d - 2 log(1 + exp(d)) with d = logits - t x."""
        if self._validate_args:
            self._validate_sample(value)
        d = self.logits - value * self.temperature
        return as_tensor(self.temperature).log() + d + 2 * logsigmoid(-d)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) near 0 and 1; the nearer, the lower the temperature."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli
    _event_dims: ClassVar = {}

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """`temperature`: a tensor. Either the probability or its log odds."""
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """As it was given."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probability."""
        return self.base_dist.probs


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a relaxed one-hot vector: log softmax of (logits + Gumbel samples) / temperature."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """`temperature`: a tensor. The rest is Categorical's."""
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(
            self._categorical.batch_shape, Size(self._categorical.param_shape[-1:]), validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """With the categories', expanded."""
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        batch_shape = Size(batch_shape)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Any:
        """By Gumbel samples."""
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(rand(tuple(shape), dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits.expand(shape) - (-(u.log())).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value: Any) -> Any:
        """log (K - 1)! + (K - 1) log t, and the sum of log softmax of logits - t x."""
        n = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        score = self.logits - value * self.temperature
        temperature = as_tensor(self.temperature, dtype=score.dtype)
        norm = lgamma(full_like(temperature, float(n))) + temperature.log() * (n - 1)
        return (score - score.logsumexp(-1, True)).sum(-1) + norm


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex near its corners; the nearer, the lower the temperature."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical
    _event_dims: ClassVar = {}

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """`temperature`: a tensor. The rest is Categorical's."""
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """As it was given."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self.base_dist.probs
