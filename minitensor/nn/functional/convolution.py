"""Convolutions, transposed convolutions, and images as matrices of their patches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._C import bfloat16, float16, float32
from minitensor._functions import offered
from minitensor._functions.offered import imag, real
from minitensor.composite import composite
from minitensor.composite.padding import pad
from minitensor.composite.registry import autocast, grad_fn, shortcut
from minitensor.nn.functional.arguments import ntuple, spatial
from minitensor.ops import ROWS

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "fold",
    "unfold",
]

Tensor = _C.Tensor
_forward = ROWS["convolution"].call
_backward_input = ROWS["convolution_backward_input"].call
_im2col = ROWS["im2col"].call
_col2im = ROWS["col2im"].call


def _check(input: _C.Tensor, weight: _C.Tensor, rank: int, what: str) -> None:
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        name, t = ("weight", weight) if isinstance(input, Tensor) else ("input", input)
        raise TypeError(f"{what}(): argument '{name}' must be Tensor, not {type(t).__name__}")
    if weight.dim() != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 2}-dimensional weight for {what}, but got weight of size {list(weight.shape)} instead"
        )


def _same(input: _C.Tensor, weight: _C.Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]) -> Any:
    """Return the padding that keeps the sizes, and the input with what of it is needed on one side only."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):
        extra = [n for total in reversed(totals) for n in (0, total % 2)]
        input = pad(input, extra)
    return tuple(total // 2 for total in totals), input


def _convolve(
    rank: int, input: _C.Tensor, weight: _C.Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> _C.Tensor:
    if (
        type(stride) is type(padding) is type(dilation) is int
        and isinstance(input, Tensor)
        and isinstance(weight, Tensor)
        and input.ndim == weight.ndim == rank + 2
        and not input.is_complex()
    ):
        return _forward(input, weight, bias, (stride,) * rank, (padding,) * rank, (dilation,) * rank, groups)
    what = f"conv{rank}d"
    _check(input, weight, rank, what)
    batch, batched = spatial(input, rank, what)
    steps = ntuple(stride, rank, "stride", what)
    spread = steps if dilation is stride else ntuple(dilation, rank, "dilation", what)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        edges = (0,) * rank
        if padding == "same":
            edges, batch = _same(batch, weight, steps, spread)
    else:
        edges = ntuple(padding, rank, "padding", what)
    if batch.is_complex():
        result = _by_parts(lambda x, w: _forward(x, w, None, steps, edges, spread, groups), batch, weight)
        result = result if bias is None else result + bias.reshape((-1, *(1 for _ in range(rank))))
    else:
        result = _forward(batch, weight, bias, steps, edges, spread, groups)
    return result if batched else result.squeeze(0)


def _by_parts(convolve: Callable[[_C.Tensor, _C.Tensor], _C.Tensor], input: _C.Tensor, weight: _C.Tensor) -> _C.Tensor:
    """Return a convolution of complex numbers, which is bilinear, as three of real ones."""
    if weight.dtype != input.dtype:
        raise RuntimeError(f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same")
    a, b, c, d = real(input), imag(input), real(weight), imag(weight)
    first, second = convolve(a, c), convolve(b, d)
    return offered.complex(first - second, convolve(a + b, c + d) - first - second)


@composite(method=False)
@shortcut("33?~1wwwi", _forward, after=(None, 1, 0, 1, 1))
@autocast("lower", "lower")
def conv1d(
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Return the cross-correlation of signals ``[N, C, L]`` or ``[C, L]`` with filters ``[O, C / groups, K]``.

    ``padding`` may be "valid", which is none, or "same", for a result of the input's length; that needs a stride of 1.
    """
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False)
@shortcut("44?~1wwwi", _forward, after=(None, 1, 0, 1, 1))
@autocast("lower", "lower")
def conv2d(
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Return the cross-correlation of images ``[N, C, H, W]`` with filters ``[O, C / groups, kH, kW]``.

    As :func:`conv1d`.
    """
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False)
@shortcut("55?~1wwwi", _forward, after=(None, 1, 0, 1, 1))
@autocast("lower", "lower")
def conv3d(
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> _C.Tensor:
    """Return the cross-correlation of volumes ``[N, C, D, H, W]`` with filters ``[O, C / groups, kD, kH, kW]``.

    As :func:`conv1d`.
    """
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


def _backwards(input: _C.Tensor, weight: _C.Tensor, *more: Any) -> _C.Tensor:
    if input.is_complex():
        return _by_parts(lambda x, w: _backward_input(x, w, *more), input, weight)
    result: _C.Tensor = _backward_input(input, weight, *more)
    return result


def _transposed(
    rank: int,
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    what: str,
) -> _C.Tensor:
    _check(input, weight, rank, what)
    if bias is not None and input.dtype in (float16, bfloat16) and bias.dtype == weight.dtype == input.dtype:
        # Rounded once, after the bias.
        x, w, b = (t.to(float32) for t in (input, weight, bias))
        result = _transposed(rank, x, w, b, stride, padding, output_padding, groups, dilation, what)
        return result.to(input.dtype)
    batch, batched = spatial(input, rank, what)
    steps, edges = ntuple(stride, rank, "stride", what), ntuple(padding, rank, "padding", what)
    extra = ntuple(output_padding, rank, "output_padding", what)
    spread = ntuple(dilation, rank, "dilation", what)
    if any(s <= 0 for s in steps):
        raise RuntimeError("non-positive stride is not supported")
    if any(p < 0 for p in edges):
        raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in extra):
        raise RuntimeError("negative output_padding is not supported")
    if any(d <= 0 for d in spread):
        raise RuntimeError("dilation should be greater than zero")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if batch.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(batch.shape)} to have "
            f"{weight.shape[0]} channels, but got {batch.shape[1]} channels instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0")
    if any(e >= s and e >= d for e, s, d in zip(extra, steps, spread, strict=True)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got output_padding "
            f"{list(extra)}, stride {list(steps)}, dilation {list(spread)}"
        )
    channels = weight.shape[1] * groups
    if bias is not None and tuple(bias.shape) != (channels,):
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected bias to be 1-dimensional with "
            f"{channels} elements, but got bias of size {list(bias.shape)} instead"
        )
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for n, s, p, d, k, e in zip(batch.shape[2:], steps, edges, spread, weight.shape[2:], extra, strict=True)
    ]
    if any(n <= 0 for n in sizes):
        raise RuntimeError(
            f"Given input size per channel: {list(batch.shape[2:])}. Calculated output size per channel: {sizes}. "
            "Output size is too small"
        )
    if any(e >= s for e, s in zip(extra, steps, strict=True)):
        # More output than a convolution could have read: all that the filters reach, cut or filled up.
        reached = [
            (n - 1) * s + d * (k - 1) + 1
            for n, s, d, k in zip(batch.shape[2:], steps, spread, weight.shape[2:], strict=True)
        ]
        whole = _backwards(batch, weight, (batch.shape[0], channels, *reached), steps, (0,) * rank, spread, groups)
        ends = [n - r + p for n, r, p in zip(sizes, reached, edges, strict=True)]
        result = pad(whole, [m for p, e in zip(reversed(edges), reversed(ends), strict=True) for m in (-p, e)])
    else:
        result = _backwards(batch, weight, (batch.shape[0], channels, *sizes), steps, edges, spread, groups)
    if bias is not None:
        result = result + bias.reshape((-1, *(1 for _ in range(rank))))
    return result if batched else result.squeeze(0)


@composite(method=False)
@autocast("lower", "lower")
@grad_fn("ConvolutionBackward0")
def conv_transpose1d(
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> _C.Tensor:
    """Return the transposed convolution of signals ``[N, C, L]`` with filters ``[C, O / groups, K]``.

    It is the gradient of :func:`conv1d` with respect to its input; ``output_padding`` chooses among the lengths that
    that could have had.
    """
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation, "conv_transpose1d")


@composite(method=False)
@autocast("lower", "lower")
@grad_fn("ConvolutionBackward0")
def conv_transpose2d(
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> _C.Tensor:
    """Return the transposed convolution of images ``[N, C, H, W]`` with filters ``[C, O / groups, kH, kW]``."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation, "conv_transpose2d")


@composite(method=False)
@autocast("lower", "lower")
@grad_fn("ConvolutionBackward0")
def conv_transpose3d(
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> _C.Tensor:
    """Return the transposed convolution of volumes ``[N, C, D, H, W]`` with filters ``[C, O / groups, kD, kH, kW]``."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation, "conv_transpose3d")


@composite(method=False)
@autocast("lower", "lower")
def convolution(
    input: _C.Tensor,
    weight: _C.Tensor,
    bias: _C.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> _C.Tensor:
    """Return a convolution or a transposed one, for one to three spatial dimensions."""
    rank = weight.dim() - 2
    if transposed:
        return _transposed(
            rank, input, weight, bias, stride, padding, output_padding, groups, dilation, "conv_transpose"
        )
    return _convolve(rank, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False)
@autocast("lower", "lower")
def conv_tbc(input: _C.Tensor, weight: _C.Tensor, bias: _C.Tensor, pad: int = 0) -> _C.Tensor:
    """Return the convolution of sequences ``[T, N, C]`` with filters ``[K, C, O]``, as ``[T', N, O]``."""
    if input.dim() != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.dim() != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.dim() != 1:
        raise RuntimeError("Bias must be 1-D")
    result = _forward(
        input.permute(1, 2, 0).contiguous(), weight.permute(2, 1, 0).contiguous(), bias, (1,), (pad,), (1,), 1
    )
    return result.permute(2, 0, 1).contiguous()


def _moved(move: Callable[[_C.Tensor], _C.Tensor], input: _C.Tensor) -> _C.Tensor:
    """Return what `move`, which takes real numbers, makes of numbers of any kind."""
    if input.is_complex():
        return offered.complex(move(real(input)), move(imag(input)))
    if input.dtype == _C.bool:
        return move(input.to(float32)).to(_C.bool)
    return move(input)


def unfold(
    input: _C.Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> _C.Tensor:
    """Return the patches of images ``[N, C, H, W]`` or ``[C, H, W]`` as columns ``[N, C * kH * kW, L]``."""
    kernel, spread, edges, steps = _window(kernel_size, dilation, padding, stride, "unfold")
    if input.dim() not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    batch, batched = spatial(input, 2, "unfold")
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(batch.shape[2:], edges, spread, kernel, steps, strict=True)
    ]
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(batch.shape[2:])}, kernel_size={kernel}, dilation={spread}, "
            f"padding={edges}, calculated shape of the array of sliding blocks as {tuple(counts)}, but its components "
            "must be at least one."
        )
    result = _moved(lambda x: _im2col(x, kernel, spread, edges, steps), batch)
    return result if batched else result.squeeze(0)


def fold(
    input: _C.Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> _C.Tensor:
    """Return images in which columns ``[N, C * kH * kW, L]``, as of :func:`unfold`, are added up where they lie."""
    size = ntuple(output_size, 2, "output_size", "fold")
    kernel, spread, edges, steps = _window(kernel_size, dilation, padding, stride, "fold")
    if input.dim() not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    batch = input if input.dim() == 3 else input.unsqueeze(0)
    if batch.shape[1] % (kernel[0] * kernel[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={batch.shape[1]} and kernel_size={kernel}."
        )
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size, edges, spread, kernel, steps, strict=True)
    ]
    if min(counts) < 1 or batch.shape[2] != counts[0] * counts[1]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={spread}, padding={edges}, stride={steps}, "
            f"expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{counts[0]} * {counts[1]} = {counts[0] * counts[1]}, but got input.size(2)={batch.shape[2]}."
        )
    result = _moved(lambda x: _col2im(x, size, kernel, spread, edges, steps), batch)
    return result if input.dim() == 3 else result.squeeze(0)


def _window(kernel_size: Any, dilation: Any, padding: Any, stride: Any, what: str) -> tuple[Any, Any, Any, Any]:
    kernel, spread = ntuple(kernel_size, 2, "kernel_size", what), ntuple(dilation, 2, "dilation", what)
    edges, steps = ntuple(padding, 2, "padding", what), ntuple(stride, 2, "stride", what)
    if min(kernel) <= 0:
        raise RuntimeError(
            f"kernel size should be greater than zero, but got kernel_height: {kernel[0]} kernel_width: {kernel[1]}"
        )
    if min(spread) <= 0:
        raise RuntimeError(
            f"dilation should be greater than zero, but got dilation_height: {spread[0]} dilation_width: {spread[1]}"
        )
    if min(edges) < 0:
        raise RuntimeError(f"padding should be non-negative, but got pad_height: {edges[0]} pad_width: {edges[1]}")
    if min(steps) <= 0:
        raise RuntimeError(
            f"stride should be greater than zero, but got stride_height: {steps[0]} stride_width: {steps[1]}"
        )
    return kernel, spread, edges, steps
