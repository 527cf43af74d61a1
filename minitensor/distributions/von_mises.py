"""Von Mises's distribution of angles.

Mardia and Jupp, "Directional statistics", chapter 3; samples by Best and Fisher, "Efficient simulation of the von Mises
distribution" (Applied Statistics 28, 1979).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from minitensor import special
from minitensor._C import bool as bool_
from minitensor._C import float64
from minitensor._functions.offered import cos, empty, rand, where, zeros
from minitensor.autograd import no_grad
from minitensor.distributions import constraints
from minitensor.distributions.distribution import Distribution
from minitensor.distributions.parameters import broadcast_all

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles in [-pi, pi) around `loc`; any number is an angle to `log_prob`."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _event_dims: ClassVar = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        """`loc`: radians; `concentration`: the greater, the nearer to it. Numbers or tensors, broadcast."""
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        """k cos(x - loc) - log(2 pi I0(k))."""
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # I0(k) = exp(k) i0e(k), which does not overflow.
        return k * (cos(value - self.loc) - 1) - math.log(2 * math.pi) - special.i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Any:
        """By rejection from a wrapped Cauchy distribution, in float64."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, k = self.loc.double(), self.concentration.double()
            r = _envelope(k)
            angles = empty(shape, dtype=float64, device=k.device)
            done = zeros(shape, dtype=bool_, device=k.device)
            # What is done is drawn again with the rest, and replaced: so PyTorch's numbers come from the same seeds.
            while not done.all():
                u = rand((3, *shape), dtype=float64, device=k.device)
                z = cos(math.pi * u[0])
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                taken = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 - c >= 0)
                angles = where(taken, (u[2] - 0.5).sign() * f.clamp(min=-1, max=1).acos(), angles)
                done = done | taken
            return ((angles + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        """The mean direction: loc."""
        return self.loc

    @property
    def mode(self) -> Any:
        """loc."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance 1 - I1(k) / I0(k)."""
        k = self.concentration
        return 1 - special.i1e(k) / special.i0e(k)


def _envelope(k: Any) -> Any:
    """The parameter r of the wrapped Cauchy distribution; by a series where the closed form loses its digits."""
    tau = 1 + (1 + 4 * k * k).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * k)
    return where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))
