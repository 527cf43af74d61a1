"""Pooling: the maximum, mean or norm of windows."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor.nn import functional as F
from minitensor.nn.modules.module import Module
from minitensor.nn.modules.utils import _ntuple

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPoolNd(Module):
    _rank = 0

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return sizes and options."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def forward(self, input: Tensor) -> Any:
        """Return the maxima, and, with ``return_indices``, where they are."""
        function: Any = _MAX[self._rank]
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


class MaxPool1d(_MaxPoolNd):
    """The maxima of windows of ``[N, C, L]``. See ``F.max_pool1d``."""

    _rank = 1


class MaxPool2d(_MaxPoolNd):
    """The maxima of windows of ``[N, C, H, W]``. See ``F.max_pool2d``."""

    _rank = 2


class MaxPool3d(_MaxPoolNd):
    """The maxima of windows of ``[N, C, D, H, W]``. See ``F.max_pool3d``."""

    _rank = 3


class _MaxUnpoolNd(Module):
    _rank = 0

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        ntuple = _ntuple(self._rank)
        self.kernel_size = ntuple(kernel_size)
        self.stride = ntuple(stride if stride is not None else kernel_size)
        self.padding = ntuple(padding)

    def extra_repr(self) -> str:
        """Return sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return zeros with the maxima where the indices say."""
        function: Any = _UNPOOL[self._rank]
        return function(  # type: ignore[no-any-return]
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


_UNPOOL = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the results of :class:`MaxPool1d` back where they were."""

    _rank = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the results of :class:`MaxPool2d` back where they were."""

    _rank = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the results of :class:`MaxPool3d` back where they were."""

    _rank = 3


class _AvgPoolNd(Module):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Return sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The means of windows of ``[N, C, L]``. See ``F.avg_pool1d``."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        ntuple = _ntuple(1)
        self.kernel_size = ntuple(kernel_size)
        self.stride = ntuple(stride if stride is not None else kernel_size)
        self.padding = ntuple(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolOfImages(_AvgPoolNd):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, value in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, value)


class AvgPool2d(_AvgPoolOfImages):
    """The means of windows of ``[N, C, H, W]``. See ``F.avg_pool2d``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(_AvgPoolOfImages):
    """The means of windows of ``[N, C, D, H, W]``. See ``F.avg_pool3d``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class _FractionalMaxPool(Module):
    """Maxima of windows that lie at random, so that the size shrinks by any factor (Graham, 2014)."""

    _rank = 0

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, ntuple = type(self).__name__, _ntuple(self._rank)
        if any(k <= 0 for k in ntuple(kernel_size)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.kernel_size = ntuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else ntuple(output_size)
        self.output_ratio = None if output_ratio is None else ntuple(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Return the maxima, and, with ``return_indices``, where they are."""
        function: Any = F.fractional_max_pool2d if self._rank == 2 else F.fractional_max_pool3d
        return function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The maxima of windows of ``[N, C, H, W]`` that lie at random. See ``F.fractional_max_pool2d``."""

    _rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The maxima of windows of ``[N, C, D, H, W]`` that lie at random. See ``F.fractional_max_pool3d``."""

    _rank = 3


class _LPPoolNd(Module):
    _rank = 0

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return the norm and sizes."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        function: Any = {1: F.lp_pool1d, 2: F.lp_pool2d, 3: F.lp_pool3d}[self._rank]
        return function(  # type: ignore[no-any-return]
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool1d(_LPPoolNd):
    """The p-norms of windows of ``[N, C, L]``, signed sums of powers. See ``F.lp_pool1d``."""

    _rank = 1


class LPPool2d(_LPPoolNd):
    """The p-norms of windows of ``[N, C, H, W]``. See ``F.lp_pool2d``."""

    _rank = 2


class LPPool3d(_LPPoolNd):
    """The p-norms of windows of ``[N, C, D, H, W]``. See ``F.lp_pool3d``."""

    _rank = 3


class _AdaptiveMaxPoolNd(Module):
    _rank = 0

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """Return the size."""
        return f"output_size={self.output_size}"

    def forward(self, input: Tensor) -> Any:
        """Return the maxima, and, with ``return_indices``, where they are."""
        function: Any = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[self._rank]
        return function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maxima of ``output_size`` parts of ``[N, C, L]``."""

    _rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maxima of ``output_size`` parts of ``[N, C, H, W]``; None keeps a size."""

    _rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maxima of ``output_size`` parts of ``[N, C, D, H, W]``; None keeps a size."""

    _rank = 3


class _AdaptiveAvgPoolNd(Module):
    _rank = 0

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """Return the size."""
        return f"output_size={self.output_size}"

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        function: Any = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[self._rank]
        return function(input, self.output_size)  # type: ignore[no-any-return]


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of ``output_size`` parts of ``[N, C, L]``."""

    _rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of ``output_size`` parts of ``[N, C, H, W]``; None keeps a size."""

    _rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of ``output_size`` parts of ``[N, C, D, H, W]``; None keeps a size."""

    _rank = 3
