"""One of several categories, by its number or as a one-hot vector."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor import nn
from minitensor._C import Size, int64
from minitensor._functions.offered import broadcast_shapes, empty, eye, full, multinomial
from minitensor.autograd import no_grad
from minitensor.distributions import constraints
from minitensor.distributions.bernoulli import _numbered
from minitensor.distributions.distribution import Distribution
from minitensor.distributions.parameters import ProbsOrLogits, one_of
from minitensor.dtypes import finfo

__all__ = ["Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(ProbsOrLogits, Distribution):
    """The number of a category; categories are the parameter's last dimension."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _event_dims: ClassVar = {"probs": 1, "logits": 1}
    _kept = ("_given", "_num_events")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        """Either weights, which are divided by their sum, or log weights, from which log of the sum is taken."""
        one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        value = logits if probs is None else probs
        if value.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if probs is None:
            value = value - value.logsumexp(-1, True)
        else:
            value = value / value.sum(-1, True)
        self.__dict__[self._given] = value
        self._num_events = value.shape[-1]
        super().__init__(Size(value.shape[:-1]), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 to the number of categories less 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        """NaN: categories are no numbers."""
        return self._nan()

    @property
    def mode(self) -> Any:
        """The likeliest category."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Any:
        """NaN: categories are no numbers."""
        return self._nan()

    def _nan(self) -> Any:
        shape = tuple(self._extended_shape())
        return full(shape, math.nan, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Numbers of categories, int64."""
        count = math.prod(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            if count == 0 or rows.shape[0] == 0:
                return empty(tuple(self._extended_shape(sample_shape)), dtype=int64, device=rows.device)
            return multinomial(rows, count, True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The category's log probability."""
        if self._validate_args:
            self._validate_sample(value)
        places = value.long().unsqueeze(-1)
        shape = broadcast_shapes(tuple(places.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, places.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Any:
        """-sum of p log p."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        """All numbers of categories."""
        return _numbered(self._num_events, int64, self._param.device, self._batch_shape, expand)


class OneHotCategorical(Distribution):
    """A category as a vector with a 1 in its place."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        """As Categorical's."""
        self._categorical = Categorical(probs, logits)
        super().__init__(
            self._categorical.batch_shape, Size(self._categorical.param_shape[-1:]), validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """With the categories', expanded."""
        new = self._get_checked_instance(OneHotCategorical, _instance)
        batch_shape = Size(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def mode(self) -> Any:
        """The likeliest category's vector."""
        return self._vectors(self._categorical.mode)

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    def _vectors(self, categories: Any) -> Any:
        return nn.functional.one_hot(categories, self.event_shape[0]).to(self.probs.dtype)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Vectors in the parameter's dtype."""
        with no_grad():
            return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The log probability of the category with the 1."""
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        """-sum of p log p."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        """All vectors."""
        n = self.event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(n, *(1,) * len(self.batch_shape), n)
        return values.expand(n, *self.batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same with the gradient of the probabilities in place of the sample's, which has none.

    Bengio, Leonard and Courville, "Estimating or propagating gradients through stochastic neurons" (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples with that gradient."""
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())
