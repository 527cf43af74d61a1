"""Maximum, average and power-average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, int64
from minitensor.composite import composite
from minitensor.composite.dims import is_int
from minitensor.composite.layout import in_format_of
from minitensor.composite.numbers import whole_sizes
from minitensor.composite.registry import autocast, grad_fn, shortcut, with_out
from minitensor.nn.functional.arguments import ntuple, spatial
from minitensor.ops import ROWS

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

Sizes = int | Sequence[int]

_max_pool = ROWS["max_pool"].call
_max_pool_indices = ROWS["max_pool_indices"].call
_gather = ROWS["plane_gather"].call
_scatter = ROWS["plane_scatter"].call
_avg_pool = ROWS["avg_pool"].call


def _image(input: Tensor, rank: int, what: str) -> tuple[Tensor, bool]:
    image, batched = spatial(input, rank, what)
    if not image.numel() and 0 in image.shape[1:]:
        raise RuntimeError(
            f"{what}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(input.shape)}"
        )
    return image, batched


def _strides(stride: Any, kernel: tuple[int, ...], rank: int, what: str) -> tuple[int, ...]:
    if stride is None or (not is_int(stride) and len(stride) == 0):
        return kernel
    return ntuple(stride, rank, "stride", what)


def _maximum(
    rank: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    what = f"max_pool{rank}d"
    image, batched = _image(input, rank, what)
    kernel = ntuple(kernel_size, rank, "kernel_size", what)
    steps = kernel if stride is None else _strides(stride, kernel, rank, what)
    edges, spread = ntuple(padding, rank, "padding", what), ntuple(dilation, rank, "dilation", what)
    if not (return_indices or _C.is_recorded(input)):
        result = _max_pool(image, kernel, steps, edges, spread, ceil_mode)
        return result if batched else result.squeeze(0)
    indices = _max_pool_indices(image, kernel, steps, edges, spread, ceil_mode)
    result = _gather(image, indices)
    if not batched:
        result, indices = result.squeeze(0), indices.squeeze(0)
    return (result, indices) if return_indices else result


def _straight(rank: int) -> Any:
    """Let calls without a gradient, for which places need not be kept, go straight to the op."""
    return shortcut(f"{rank + 2}w?kwwb", _max_pool, after=(None, 0, 1, False), detached=True)


def _define_max_pool(rank: int) -> tuple[Any, Any]:
    letters = ("L", "H, W", "D, H, W")[rank - 1]

    @_straight(rank)
    def max_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor:
        return _maximum(rank, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def with_indices(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        pair: tuple[Tensor, Tensor] = _maximum(rank, input, kernel_size, stride, padding, dilation, ceil_mode, True)
        return pair

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{rank}d"
    max_pool.__doc__ = (
        f"Return the largest element of each window of images ``[N, C, {letters}]`` or ``[C, {letters}]``.\n\n"
        "With ``return_indices`` also where it lies, counted within its plane. ``ceil_mode`` keeps windows that are "
        "only partly inside."
    )
    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{rank}d_with_indices"
    with_indices.__doc__ = f"Return what ``max_pool{rank}d`` does with ``return_indices``."
    if rank > 1:
        name = f"MaxPool{rank}DWithIndicesBackward0"
        grad_fn(name, name)(max_pool)
        grad_fn(name, name)(with_indices)
    if rank == 3:
        autocast("float32", "")(max_pool)
        autocast("float32", "")(with_indices)
    return max_pool, with_indices


max_pool1d, max_pool1d_with_indices = _define_max_pool(1)
max_pool2d, max_pool2d_with_indices = _define_max_pool(2)
max_pool3d, max_pool3d_with_indices = _define_max_pool(3)


def _plain(rank: int) -> None:
    """Enter the package's own function, which has no `return_indices`."""

    @_straight(rank)
    def max_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        result: Tensor = _maximum(rank, input, kernel_size, stride, padding, dilation, ceil_mode, False)
        return result

    max_pool.__doc__ = f"Return the largest element of each window. See ``nn.functional.max_pool{rank}d``."
    if rank > 1:
        grad_fn(f"MaxPool{rank}DWithIndicesBackward0")(max_pool)
    composite(name=f"max_pool{rank}d", method=False)(autocast("float32" if rank == 3 else "", "")(max_pool))


for _rank in (1, 2, 3):
    _plain(_rank)


@composite(method=False, name="max_pool1d_with_indices")
def _max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:
    """Return the largest element of each window and where it lies. See ``nn.functional.max_pool1d``."""
    return _maximum(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _average(
    rank: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    what = f"avg_pool{rank}d"
    image, batched = _image(input, rank, what)
    kernel = ntuple(kernel_size, rank, "kernel_size", what)
    result = _avg_pool(
        image,
        kernel,
        _strides(stride, kernel, rank, what),
        ntuple(padding, rank, "padding", what),
        ceil_mode,
        count_include_pad,
        divisor_override,
    )
    return result if batched else result.squeeze(0)


@composite(method=False)
@shortcut("3w?kwbb", _avg_pool, after=(None, 0, False, True, None))
def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the average of each window of signals ``[N, C, L]`` or ``[C, L]``.

    ``count_include_pad`` says whether the zeros of the padding count.
    """
    return _average(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@with_out
@shortcut("4w?kwbb", _avg_pool, after=(None, 0, False, True, None))
@grad_fn("AvgPool2DBackward0")
def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the average of each window of images ``[N, C, H, W]`` or ``[C, H, W]``.

    ``divisor_override`` divides the sums instead of the number of elements.
    """
    return _average(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@with_out
@shortcut("5w?kwbb", _avg_pool, after=(None, 0, False, True, None))
@autocast("float32", "")
@grad_fn("AvgPool3DBackward0")
def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the average of each window of volumes ``[N, C, D, H, W]`` or ``[C, D, H, W]``, as :func:`avg_pool2d`."""
    return _average(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _power(
    rank: int, input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    kernel = ntuple(kernel_size, rank, "kernel_size", f"lp_pool{rank}d")
    count = 1
    for n in kernel:
        count *= n
    mean = _average(rank, input.pow(norm_type), kernel, stride, 0, ceil_mode, True, None)
    return (mean.sign() * mean.abs().relu() * count).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the ``norm_type``-th root of the sum of powers in each window of signals ``[N, C, L]`` or ``[C, L]``."""
    return _power(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the ``norm_type``-th root of the sum of powers in each window of images."""
    return _power(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the ``norm_type``-th root of the sum of powers in each window of volumes."""
    return _power(3, input, norm_type, kernel_size, stride, ceil_mode)


def _unpool_size(
    input: Tensor,
    rank: int,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_size: Any,
) -> tuple[int, ...]:
    default = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(input.shape[-rank:], stride, kernel, padding, strict=True)]
    if output_size is None:
        return tuple(default)
    size = list(whole_sizes(output_size, f"max_unpool{rank}d", "output_size"))
    if len(size) == rank + 2:
        size = size[2:]
    if len(size) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
            f"'{len(size)}'"
        )
    pairs = list(zip(default, stride, strict=True))
    for n, (d, s) in zip(size, pairs, strict=True):
        if not d - s < n < d + s:
            raise ValueError(
                f"invalid output_size {size} (dim must be between {[a - b for a, b in pairs]} and "
                f"{[a + b for a, b in pairs]})"
            )
    return tuple(size)


def _unpool(
    rank: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    what = f"max_unpool{rank}d"
    kernel = ntuple(kernel_size, rank, "kernel_size", what)
    steps, edges = _strides(stride, kernel, rank, what), ntuple(padding, rank, "padding", what)
    size = _unpool_size(input, rank, kernel, steps, edges, output_size)
    if indices.dtype != int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    image, batched = _image(input, rank, what)
    result = _scatter(image, indices if batched else indices.unsqueeze(0), size)
    if not batched:
        return result.squeeze(0)
    return in_format_of(input, result) if rank == 2 else result


@autocast("float32", "")
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return planes of zeros with the elements where the ``indices`` of :func:`max_pool1d` say."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@autocast("float32", "")
@grad_fn("MaxUnpool2DBackward0")
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return planes of zeros with the elements where the ``indices`` of :func:`max_pool2d` say."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@autocast("float32", "")
@grad_fn("MaxUnpool3DBackward0")
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return planes of zeros with the elements where the ``indices`` of :func:`max_pool3d` say."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
