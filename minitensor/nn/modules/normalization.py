"""Normalisation within layers, groups and neighbourhoods."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import empty
from minitensor.composite.dims import ints_of
from minitensor.nn import functional as F
from minitensor.nn import init
from minitensor.nn.modules.module import Module
from minitensor.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of ``size`` neighbouring channels. See ``F.local_response_norm``."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return size and options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """Divides ``[N, C, H, W]`` by a power of the sum of squares of neighbouring channels over ``size``.

    The neighbours of channel c are the ``(size - 1) // 2`` on either side. In PyTorch the sums slide along the channels
    and never lose the first one; so it is here, since the numbers are to be PyTorch's.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        side, channels = (self.size - 1) // 2, input.shape[1]
        squares = input * input
        padded = F.pad(squares, (0, 0, 0, 0, side, side))
        sums = sum(padded[:, i : i + channels] for i in range(2 * side + 1))
        if channels > side + 1:
            sums = sums + F.pad(squares[:, :1].expand(-1, channels - side - 1, -1, -1), (0, 0, 0, 0, side + 1, 0))
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta


def _sizes(normalized_shape: Any) -> tuple[int, ...]:
    return tuple(ints_of(normalized_shape))


class LayerNorm(Module):
    """Normalises over the last dimensions, those of ``normalized_shape``. See ``F.layer_norm``.

    ``[*, *normalized_shape]`` keeps its shape and dtype; another shape is a RuntimeError.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            made = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return sizes and options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalises each of ``num_groups`` groups of the channels of ``[N, C, ...]``. See ``F.group_norm``."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return sizes and options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root mean square over the last dimensions. See ``F.rms_norm``."""

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return sizes and options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
