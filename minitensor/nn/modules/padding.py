"""Padding: with a value, the edge, the mirror image, or the other end."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor.nn import functional as F
from minitensor.nn.modules.batchnorm import check_dims
from minitensor.nn.modules.module import Module
from minitensor.nn.modules.utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Padding(Module):
    """One width for all sides, or one for each: the last dimension's two first, as in ``F.pad``."""

    _rank = 0
    _mode = ""

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._rank)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with its last dimensions padded."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the widths."""
        return f"{self.padding}"


class _CircularPadNd(_Padding):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, padded."""
        check_dims(input, self._rank + 1, self._rank + 2)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Pads ``[..., W]`` with what is at the other end."""

    _rank = 1


class CircularPad2d(_CircularPadNd):
    """Pads ``[..., H, W]`` with what is at the other end."""

    _rank = 2


class CircularPad3d(_CircularPadNd):
    """Pads ``[..., D, H, W]`` with what is at the other end."""

    _rank = 3


class _ConstantPadNd(_Padding):
    _mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, padded."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return widths and value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads ``[..., W]`` with a value."""

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads ``[..., H, W]`` with a value."""

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads ``[..., D, H, W]`` with a value."""

    _rank = 3


class ZeroPad1d(ConstantPad1d):
    """Pads ``[..., W]`` with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Padding.extra_repr


class ZeroPad2d(ConstantPad2d):
    """Pads ``[..., H, W]`` with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Padding.extra_repr


class ZeroPad3d(ConstantPad3d):
    """Pads ``[..., D, H, W]`` with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Padding.extra_repr


class _ReflectionPadNd(_Padding):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads ``[..., W]`` with its mirror image; the edge is not repeated."""

    _rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads ``[..., H, W]`` with its mirror image; the edge is not repeated."""

    _rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads ``[..., D, H, W]`` with its mirror image; the edge is not repeated."""

    _rank = 3


class _ReplicationPadNd(_Padding):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads ``[..., W]`` with its edge."""

    _rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads ``[..., H, W]`` with its edge."""

    _rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads ``[..., D, H, W]`` with its edge."""

    _rank = 3
