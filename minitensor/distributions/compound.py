"""Distributions made of distributions: with batch dimensions as events, transformed, mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor._C import Size
from minitensor._functions.offered import gather, log_softmax, logsumexp
from minitensor.autograd import no_grad
from minitensor.distributions import constraints
from minitensor.distributions.distribution import Distribution
from minitensor.distributions.parameters import sum_rightmost
from minitensor.distributions.transforms import ComposeTransform, Transform

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """A distribution whose last batch dimensions are part of an event, so that log_prob is summed over them."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        """`reinterpreted_batch_ndims`: how many dimensions."""
        batch = tuple(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(Size(batch[:cut]), Size(event), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Of the base, expanded."""
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = Size(batch_shape)
        events = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(Size((*batch_shape, *events)))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Only if no dimension was taken."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, for events as large."""
        found = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(found, n) if n else found

    @property
    def mean(self) -> Any:
        """The base's."""
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        """The base's."""
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        """The base's."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        """The base's."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The base's."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The base's, summed."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        """The base's, summed."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        """The base's. NotImplementedError if a dimension was taken: values would be tuples."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        """The base and the number of dimensions."""
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What transforms make of a distribution's samples.

    log p(y) = log p(x) - log |det dy/dx|; of numbers, by monotone transforms, with `cdf` and `icdf`.
    """

    arg_constraints: ClassVar[Any] = {}
    _event_dims: ClassVar = {}

    def __init__(
        self, base_distribution: Any, transforms: Transform | Sequence[Transform], validate_args: bool | None = None
    ) -> None:
        """`transforms`: one, or several in the order in which they are applied."""
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        base_shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        base_event = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {transform.domain.event_dim}, "
                f"but got {base_shape}."
            )
        shape = transform.forward_shape(base_shape)
        expanded = tuple(transform.inverse_shape(shape))
        if tuple(base_shape) != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_event])
        missing = transform.domain.event_dim - base_event
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist = base_distribution
        grown = transform.codomain.event_dim - transform.domain.event_dim
        dims = max(transform.codomain.event_dim, len(base_distribution.event_shape) + grown)
        cut = len(shape) - dims
        super().__init__(Size(shape[:cut]), Size(shape[cut:]), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Of the base, expanded; the transforms are the same."""
        new = super().expand(batch_shape, _instance)
        shape: Any = Size((*batch_shape, *self.event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The last transform's codomain, for events as large."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        extra = len(self.event_shape) - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Any = ()) -> Any:
        """The base's samples, transformed."""
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The base's, transformed."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Any:
        """The base's where the value comes from, less the Jacobians."""
        if self._validate_args:
            self._validate_sample(value)
        dims = len(self.event_shape)
        total: Any = 0.0
        for transform in reversed(self.transforms):
            before = transform.inv(value)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(before, value)
            total = total - sum_rightmost(slope, dims - transform.domain.event_dim)
            value = before
        return total + sum_rightmost(self.base_dist.log_prob(value), dims - len(self.base_dist.event_shape))

    def _upward(self, value: Any) -> Any:
        """A probability; of the other side where the transforms reverse the order."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        """The base's where the value comes from."""
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._upward(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        """The base's, transformed."""
        value = self.base_dist.icdf(self._upward(value))
        for transform in self.transforms:
            value = transform(value)
        return value


class MixtureSameFamily(Distribution):
    """A draw of one of several components, which are the last batch dimension of one distribution."""

    arg_constraints: ClassVar[Any] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        """`mixture_distribution`: the Categorical one that chooses a component."""
        from minitensor.distributions.categorical import Categorical

        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The mixture distribution needs to be an instance of Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The component distribution needs to be an instance of Distribution")
        chosen, batch = tuple(mixture_distribution.batch_shape), tuple(component_distribution.batch_shape)
        for a, b in zip(reversed(chosen), reversed(batch[:-1]), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({Size(chosen)}) is not compatible with "
                    f"`component_distribution.batch_shape` ({Size(batch[:-1])})"
                )
        count = mixture_distribution.logits.shape[-1]
        if count != batch[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({batch[-1]})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(Size(batch[:-1]), component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Of both distributions, expanded."""
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution that chooses."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The distribution of the components."""
        return self._component_distribution

    def _over_components(self, values: Any) -> Any:
        """The mean of what the components have, by their probabilities."""
        weights = self._mixture_distribution.probs
        weights = weights.reshape(*weights.shape, *(1,) * self._event_ndims)
        return (weights * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        """The mean of the components' means."""
        return self._over_components(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        """The mean of the components' variances, and the variance of their means."""
        means = self._component_distribution.mean
        away = means - self._with_components(self.mean)
        return self._over_components(self._component_distribution.variance) + self._over_components(away * away)

    def _with_components(self, x: Any) -> Any:
        return x.unsqueeze(x.ndim - self._event_ndims)

    def cdf(self, x: Any) -> Any:
        """The mean of the components'."""
        return (self._component_distribution.cdf(self._with_components(x)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        """The logarithm of the mean of the components' densities."""
        if self._validate_args:
            self._validate_sample(x)
        each = self._component_distribution.log_prob(self._with_components(x))
        return logsumexp(each + log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples of all components, of which one is taken."""
        with no_grad():
            chosen = self._mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            places = chosen.reshape(*chosen.shape, 1, *(1,) * self._event_ndims)
            places = places.expand(*chosen.shape, 1, *self.event_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            return gather(drawn, dim, places).squeeze(dim)

    def __repr__(self) -> str:
        """Both distributions."""
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
