"""Dirichlet's distribution, the beta distribution as its simplest one, and Kumaraswamy's.

Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", chapter 25, and "Continuous multivariate
distributions", chapter 49; Kumaraswamy, "A generalized probability density function for double-bounded random
processes" (Journal of Hydrology 46, 1980).
"""

from __future__ import annotations

import math
from numbers import Number
from typing import Any, ClassVar

from minitensor import special
from minitensor._C import Size
from minitensor._functions.offered import (
    arange,
    digamma,
    lgamma,
    log,
    ones_like,
    stack,
    tensor,
    where,
    xlogy,
    zeros_like,
)
from minitensor.composite.random.tensors import sample_dirichlet
from minitensor.distributions import constraints
from minitensor.distributions.compound import TransformedDistribution
from minitensor.distributions.distribution import ExponentialFamily
from minitensor.distributions.exponential import Uniform
from minitensor.distributions.parameters import broadcast_all, euler_constant
from minitensor.distributions.transforms import AffineTransform, PowerTransform

__all__ = ["Beta", "Dirichlet", "Kumaraswamy"]


class Dirichlet(ExponentialFamily):
    """Points of the simplex; the greater a concentration, the greater its number."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _event_dims: ClassVar = {"concentration": 1}

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        """`concentration`: a tensor whose last dimension is that of an event."""
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(Size(shape[:-1]), Size(shape[-1:]), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """The concentrations over their sum."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        """(a - 1) over the sum of these, none below 0. Where all a are below 1 no corner has a limit: the first."""
        above = (self.concentration - 1).clamp(min=0.0)
        corner = (arange(above.shape[-1], device=above.device) == 0).to(above.dtype)
        return where((self.concentration < 1).all(-1, True), corner, above / above.sum(-1, True))

    @property
    def variance(self) -> Any:
        """a (s - a) / (s^2 (s + 1)) with the sum s."""
        a, s = self.concentration, self.concentration.sum(-1, True)
        return a * (s - a) / (s.square() * (s + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Gamma samples over their sum, with the implicit gradient."""
        return sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        """The sum of (a - 1) log x, less the logarithm of the multivariate beta function."""
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1.0, value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Any:
        """log B(a) + (s - k) digamma(s) - sum of (a - 1) digamma(a)."""
        a, s = self.concentration, self.concentration.sum(-1)
        return (
            lgamma(a).sum(-1) - lgamma(s) + (s - a.shape[-1]) * digamma(s)
            - ((a - 1.0) * digamma(a)).sum(-1)
        )  # fmt: skip

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return lgamma(x).sum(-1) - lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """The beta distribution: the first number of Dirichlet's two."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        """`concentration1`: alpha; `concentration0`: beta. Numbers or tensors, broadcast."""
        if isinstance(concentration1, Number) and isinstance(concentration0, Number):
            both = tensor([float(concentration1), float(concentration0)])  # type: ignore[arg-type]
        else:
            both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """With Dirichlet's, expanded."""
        new = self._get_checked_instance(Beta, _instance)
        batch_shape = Size(batch_shape)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        ExponentialFamily.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def concentration1(self) -> Any:
        """alpha."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """beta."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        """alpha / (alpha + beta)."""
        return self._dirichlet.mean[..., 0]

    @property
    def mode(self) -> Any:
        """(alpha - 1) / (alpha + beta - 2), or an end of the interval."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        """alpha beta / ((alpha + beta)^2 (alpha + beta + 1))."""
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Dirichlet's first number."""
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        """(alpha - 1) log x + (beta - 1) log(1 - x) - log B(alpha, beta)."""
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
        return xlogy(a - 1, value) + special.xlog1py(b - 1, -value) - log_beta

    def entropy(self) -> Any:
        """Dirichlet's."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return lgamma(x) + lgamma(y) - lgamma(x + y)


class Kumaraswamy(TransformedDistribution):
    """Numbers in (0, 1) with the cumulative function 1 - (1 - x^a)^b."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _event_dims: ClassVar = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        """`concentration1`: a; `concentration0`: b. Numbers or tensors, broadcast."""
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(zeros_like(self.concentration0), ones_like(self.concentration0), validate_args=False)
        powers = [PowerTransform(c.reciprocal()) for c in (self.concentration0, self.concentration1)]
        # 1 - u is as uniform as u.
        steps = [powers[0], AffineTransform(1.0, -1.0), powers[1]]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Any:
        """The mean of x^n: b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        first = 1 + n / a
        return (b.log() + lgamma(first) + lgamma(b) - lgamma(first + b)).exp()

    @property
    def mean(self) -> Any:
        """The first moment."""
        return self._moment(1)

    @property
    def mode(self) -> Any:
        """((a - 1) / (a b - 1))^(1 / a); NaN where a or b is below 1 or both are 1."""
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)
        return where(inside, ((a - 1) / (a * b - 1)).clamp(min=0) ** (1 / a), math.nan)

    @property
    def variance(self) -> Any:
        """The second moment less the square of the first."""
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Any:
        """1 - 1 / b + (1 - 1 / a) H(b) - log(a b), with the harmonic number H."""
        a, b = self.concentration1, self.concentration0
        harmonic = digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - log(a) - log(b)
