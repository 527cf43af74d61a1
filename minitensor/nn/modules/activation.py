"""Activation functions as modules."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import empty, sigmoid, tanh
from minitensor._warning import warn
from minitensor.nn import functional as F
from minitensor.nn import init
from minitensor.nn.modules.attention import MultiheadAttention
from minitensor.nn.modules.module import Module
from minitensor.nn.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Described(Module):
    """Shows the attributes named by ``_shown``, and ``inplace`` where that is set."""

    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        """Return what was given."""
        parts = [f"{name}={getattr(self, name)}" for name in self._shown]
        return ", ".join(parts + (["inplace=True"] if getattr(self, "inplace", False) else []))


class _InPlace(_Described):
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class Threshold(_Described):
    """The input where it is above ``threshold``, else ``value``."""

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


class ReLU(_InPlace):
    """``max(input, 0)``, written over the input if ``inplace``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.relu(input, inplace=self.inplace)


class RReLU(_Described):
    """Leaky ReLU whose slope is drawn for each element, uniform in ``[lower, upper]``; the mean when evaluating."""

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_Described):
    """The input, held between ``min_val`` and ``max_val``."""

    _shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warn(f"keyword argument `{name}_value` is deprecated and rename to `{name}_val`", FutureWarning)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """``min(max(input, 0), 6)``."""

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Sigmoid(Module):
    """``1 / (1 + exp(-input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return sigmoid(input)


class _Quiet(Module):
    """What takes ``inplace`` and doesn't show it."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class Hardsigmoid(_Quiet):
    """0 below -3, 1 above 3, and a line between."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_Quiet):
    """The input times its hard sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardswish(input, self.inplace)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return tanh(input)


class SiLU(_InPlace):
    """The input times its sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """``input * tanh(softplus(input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.mish(input, inplace=self.inplace)


class ELU(_Described):
    """The input where positive, else ``alpha * (exp(input) - 1)``."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Described):
    """The input where positive, else ``alpha * (exp(input / alpha) - 1)``."""

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    """ELU, scaled so that mean 0 and variance 1 are kept from layer to layer."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.selu(input, self.inplace)


class GLU(_Described):
    """The first half of a dimension times the sigmoid of the second."""

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.glu(input, self.dim)


class GELU(Module):
    """The input times the normal distribution's probability of less; ``approximate`` may be "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the kind."""
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """The input, but 0 within ``±lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the bound."""
        return f"{self.lambd}"


class LeakyReLU(_Described):
    """The input, times ``negative_slope`` where it is negative."""

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.logsigmoid(input)


class Softplus(_Described):
    """``log(1 + exp(beta * input)) / beta``; the input itself where ``beta * input`` is above ``threshold``."""

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softplus(input, self.beta, self.threshold)


class Softshrink(Module):
    """The input moved towards 0 by ``lambd``, 0 within ``±lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the bound."""
        return str(self.lambd)


class PReLU(_Described):
    """Leaky ReLU whose slope is a parameter: one, or one for each channel."""

    _shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to the first one."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.prelu(input, self.weight)


class Softsign(Module):
    """``input / (1 + |input|)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softsign(input)


class Tanhshrink(Module):
    """``input - tanh(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.tanhshrink(input)


class _AlongDim(_Described):
    _shown = ("dim",)
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmin(_AlongDim):
    """Softmax of the negative input."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softmin(input, self.dim)


class Softmax(_AlongDim):
    """``exp(input) / exp(input).sum(dim)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of ``[N, C, H, W]`` or ``[C, H, W]``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


class LogSoftmax(_AlongDim):
    """The logarithm of softmax, computed without leaving the logarithmic scale."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.log_softmax(input, self.dim)
