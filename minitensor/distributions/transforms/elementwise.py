"""Transforms of each number by itself."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

from minitensor import dtypes
from minitensor._C import Tensor
from minitensor._functions.offered import atanh, broadcast_shapes, full_like, sigmoid, tensor
from minitensor.distributions import constraints
from minitensor.distributions.parameters import sum_rightmost
from minitensor.distributions.transforms.transform import Transform
from minitensor.nn.functional import logsigmoid, softplus

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class _Plain(Transform):
    """A transform without parameters: all of a class are equal."""

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the class."""
        return isinstance(other, type(self))


class ExpTransform(_Plain):
    """y = exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """x."""
        return x


class PowerTransform(Transform):
    """y = x^exponent, for x above zero."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        """`exponent`: a tensor or a number."""
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else tensor(float(exponent))

    def _made_again(self, cache_size: int) -> Any:
        return PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        """The exponent's."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        """Whether the exponents are equal."""
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |exponent y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        """Broadcast with the exponent's."""
        return broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Broadcast with the exponent's."""
        return broadcast_shapes(shape, self.exponent.shape)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Number) and isinstance(b, Number):
        return a == b
    same = a == b
    return bool(same.all()) if isinstance(same, Tensor) else bool(same)


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x)), kept inside (0, 1)."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return _inside(sigmoid(x))

    def _inverse(self, y: Any) -> Any:
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log y + log(1 - y), by x."""
        return logsigmoid(x) + logsigmoid(-x)


def _inside(y: Any) -> Any:
    finfo = dtypes.finfo(y.dtype)
    return y.clamp(min=finfo.tiny, max=1 - finfo.eps)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x)); x itself where that is above 20."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the sigmoid of x."""
        return logsigmoid(x)


class TanhTransform(_Plain):
    """y = tanh(x)."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log(1 - y^2) = 2 (log 2 - x - log(1 + exp(-2x))), which keeps its digits where y is near 1."""
        return 2.0 * (math.log(2.0) - x + logsigmoid(2.0 * x))


class AbsTransform(_Plain):
    """y = |x|. Its inverse gives the x that is not below zero."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale x."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        """`loc`, `scale`: tensors or numbers; `event_dim`: 0 for numbers, 1 for vectors, 2 for matrices."""
        super().__init__(cache_size=cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        """As it was given."""
        return self._event_dim

    def _reals(self) -> Any:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Real numbers, vectors or matrices."""
        return self._reals()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """Real numbers, vectors or matrices."""
        return self._reals()

    def _made_again(self, cache_size: int) -> Any:
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        """Whether the parameters are equal."""
        return isinstance(other, AffineTransform) and _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        """The scale's."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |scale|, summed over an event."""
        if isinstance(self.scale, Tensor):
            each = self.scale.abs().log()
        else:
            each = full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(each.expand(broadcast_shapes(each.shape, x.shape)), self.event_dim)

    def _broadcast(self, shape: Any) -> Any:
        return broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    def forward_shape(self, shape: Any) -> Any:
        """Broadcast with the parameters'."""
        return self._broadcast(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Broadcast with the parameters'."""
        return self._broadcast(shape)


class CumulativeDistributionTransform(Transform):
    """y = the cumulative function of a distribution of numbers at x."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        """`distribution`: one with `cdf`, and for the inverse `icdf`."""
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The distribution's support."""
        return self.distribution.support

    def _made_again(self, cache_size: int) -> Any:
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the density."""
        return self.distribution.log_prob(x)
