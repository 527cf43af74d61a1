"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import empty
from minitensor.nn import functional as F
from minitensor.nn import init
from minitensor.nn.modules.lazy import LazyModuleMixin
from minitensor.nn.modules.module import Module
from minitensor.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from minitensor.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: ``weight``, ``bias`` and how they start."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ValueError(f"{name} must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {set(_MODES)}, but got padding_mode='{padding_mode}'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._both_sides()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(empty((first, second // groups, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _both_sides(self) -> list[int]:
        """Return the padding in the order of ``F.pad``, from the last dimension."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        both = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            total = d * (k - 1) if self.padding == "same" else 0
            both += [total // 2, total - total // 2]
        return both

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform in ``±1 / sqrt(fan_in)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes, and the options that are not the usual ones."""
        spatial = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        usual = {
            "padding": (0,) * spatial,
            "dilation": (1,) * spatial,
            "output_padding": (0,) * spatial,
            "groups": 1,
        }
        for name, value in usual.items():
            if (given := getattr(self, name)) != value:
                text += f", {name}={given}"
        if self.bias is None:
            text += ", bias=False"
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        function = _FUNCTIONS[len(self.kernel_size)]
        if self.padding_mode == "zeros":
            return function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return function(padded, weight, bias, self.stride, 0, self.dilation, self.groups)


_FUNCTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


class _Conv(_ConvNd):
    """A convolution; a subclass says of how many dimensions."""

    _rank = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        ntuple = _ntuple(self._rank)
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size),
            ntuple(stride),
            padding if isinstance(padding, str) else ntuple(padding),
            ntuple(dilation),
            False,
            ntuple(0),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of ``[N, C, ...]`` or ``[C, ...]``."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution of ``[N, C_in, L]``: ``weight`` is ``[C_out, C_in / groups, K]``. See ``F.conv1d``."""

    _rank = 1


class Conv2d(_Conv):
    """Convolution of ``[N, C_in, H, W]``: ``weight`` is ``[C_out, C_in / groups, K, K]``. See ``F.conv2d``.

    The result is ``[N, C_out, H', W']`` with ``H' = (H + 2 * padding - dilation * (K - 1) - 1) // stride + 1``, and in
    the input's dtype, which is the weight's. Raises RuntimeError where channels or dtypes don't fit.
    """

    _rank = 2


class Conv3d(_Conv):
    """Convolution of ``[N, C_in, D, H, W]``: ``weight`` is ``[C_out, C_in / groups, K, K, K]``. See ``F.conv3d``."""

    _rank = 3


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution; a subclass says of how many dimensions."""

    _rank = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        ntuple = _ntuple(self._rank)
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size),
            ntuple(stride),
            ntuple(padding),
            ntuple(dilation),
            True,
            ntuple(output_padding),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def _output_padding_for(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """Return what has to be added at the end for results of the size; ValueError if that can't be."""
        if output_size is None:
            return self.output_padding
        rank, wanted = self._rank, list(output_size)
        leading = 2 if input.dim() == rank + 2 else 1
        if len(wanted) == leading + rank:
            wanted = wanted[leading:]
        if len(wanted) != rank:
            raise ValueError(
                f"ConvTranspose{rank}D: for {input.dim()}D input, output_size must have {rank} or {leading + rank} "
                f"elements (got {len(output_size)})"
            )
        geometry = zip(self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [
            (input.shape[leading + i] - 1) * s - 2 * p + d * (k - 1) + 1 for i, (s, p, d, k) in enumerate(geometry)
        ]
        most = [size + s - 1 for size, s in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} (for an input of "
                f"{input.shape[2:]})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Return the transposed convolution; ``output_size`` chooses among the sizes that a stride allows."""
        return _TRANSPOSED[self._rank](  # type: ignore[no-any-return]
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding_for(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of ``[N, C_in, L]``: ``weight`` is ``[C_in, C_out / groups, K]``."""

    _rank = 1


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of ``[N, C_in, H, W]``: ``weight`` is ``[C_in, C_out / groups, K, K]``."""

    _rank = 2


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of ``[N, C_in, D, H, W]``: ``weight`` is ``[C_in, C_out / groups, K, K, K]``."""

    _rank = 3


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes ``in_channels`` from the first input."""

    def __init__(self: Any, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        arguments = self._bound(out_channels, kernel_size, *args, **kwargs)
        bias, factory = arguments.pop("bias"), {key: arguments.pop(key) for key in ("device", "dtype")}
        # Zero channels, so that nothing is drawn yet; whether they can be divided is seen later.
        groups = arguments.pop("groups")
        super().__init__(0, 0, bias=False, groups=1, **{k: v for k, v in arguments.items() if k != "out_channels"})
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.groups = groups
        self.weight = UninitializedParameter(**factory)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**factory)

    def reset_parameters(self: Any) -> None:
        """Draw weight and bias anew, if there are any yet."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Make the parameters for the input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels // self.groups
        if self.transposed:
            first, second = self.in_channels, self.out_channels // self.groups
        self.weight.materialize((first, second, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self: Any, input: Tensor) -> int:
        rank = self._rank
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == rank + 2 else input.shape[0]


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self: Any,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (kernel_size, stride, padding, dilation)
        super().__init__(out_channels, *given, groups, bias, padding_mode, device, dtype)

    @staticmethod
    def _bound(*args: Any) -> dict[str, Any]:
        names = [
            "out_channels",
            "kernel_size",
            "stride",
            "padding",
            "dilation",
            "groups",
            "bias",
            "padding_mode",
            "device",
            "dtype",
        ]
        return dict(zip(names, args, strict=True))


class LazyConv1d(_LazyConv, Conv1d):  # type: ignore[misc]
    """A :class:`Conv1d` that takes ``in_channels`` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):  # type: ignore[misc]
    """A :class:`Conv2d` that takes ``in_channels`` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):  # type: ignore[misc]
    """A :class:`Conv3d` that takes ``in_channels`` from its first input."""

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self: Any,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (kernel_size, stride, padding, output_padding)
        super().__init__(out_channels, *given, groups, bias, dilation, padding_mode, device, dtype)

    @staticmethod
    def _bound(*args: Any) -> dict[str, Any]:
        names = "out_channels kernel_size stride padding output_padding groups bias dilation padding_mode device dtype"
        return dict(zip(names.split(), args, strict=True))


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):  # type: ignore[misc]
    """A :class:`ConvTranspose1d` that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):  # type: ignore[misc]
    """A :class:`ConvTranspose2d` that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):  # type: ignore[misc]
    """A :class:`ConvTranspose3d` that takes ``in_channels`` from its first input."""

    cls_to_become = ConvTranspose3d
