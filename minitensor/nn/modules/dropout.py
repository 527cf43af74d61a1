"""Dropout, which does nothing when evaluating."""

from __future__ import annotations

from minitensor._C import Tensor
from minitensor.nn import functional as F
from minitensor.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Sets elements to zero with probability ``p`` and divides the others by ``1 - p``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with dropout."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Sets whole channels of ``[N, C, L]`` or ``[C, L]`` to zero."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with dropout."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Sets whole channels of ``[N, C, H, W]`` to zero."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with dropout."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Sets whole channels of ``[N, C, D, H, W]`` or ``[C, D, H, W]`` to zero."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with dropout."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Sets elements to the limit of :class:`SELU`, and keeps mean and variance."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with dropout."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """:class:`AlphaDropout` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with dropout."""
        return F.feature_alpha_dropout(input, self.p, self.training)
