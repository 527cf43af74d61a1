"""Modules that map features, and those that only pass or reshape them."""

from __future__ import annotations

import math
from typing import Any

import minitensor as mt
from minitensor.nn import functional as F
from minitensor.nn import init
from minitensor.nn.module import Module
from minitensor.nn.parameter import Parameter


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Return ``input``."""
        return input


class Linear(Module):
    """Affine map of the last dimension: ``input @ weight.T + bias``.

    ``weight`` is ``[out_features, in_features]``. Both it and ``bias`` start uniform in ``±1 / sqrt(in_features)``.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(mt.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(mt.empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        # Kaiming's bound with a = sqrt(5) is 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Return ``input @ weight.T + bias``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Makes one dimension of those from ``start_dim`` to ``end_dim``."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Return ``input`` with fewer dimensions."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
