"""Activation functions as modules."""

from __future__ import annotations

import minitensor as mt
from minitensor.nn import functional as F
from minitensor.nn.module import Module


class ReLU(Module):
    """``max(input, 0)``, written over the input if ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Apply the function."""
        return F.relu(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Return ``inplace`` where it is set."""
        return "inplace=True" if self.inplace else ""


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Apply the function."""
        return F.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-input))``."""

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Apply the function."""
        return F.sigmoid(input)


class Softmax(Module):
    """``exp(input) / exp(input).sum(dim)``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Apply the function."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax, computed without leaving the logarithmic scale."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        """Apply the function."""
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"
