"""Pooling to a given size, by windows that cover the input or that are drawn at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, int64
from minitensor._functions.offered import arange, cat, full, gather, rand
from minitensor.composite import composite
from minitensor.composite.dims import is_int
from minitensor.composite.numbers import whole_sizes
from minitensor.composite.registry import autocast, grad_fn, one_node
from minitensor.nn.functional.arguments import ntuple, spatial
from minitensor.ops import ROWS

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]

Sizes = int | None | Sequence[int | None]

_average = ROWS["adaptive_avg_pool"].call
_max_indices = ROWS["adaptive_max_pool_indices"].call
_gather = ROWS["plane_gather"].call


def _output_size(input: Tensor, output_size: Any, rank: int, what: str) -> tuple[int, ...]:
    """Return the sizes, with the input's own in place of None."""
    if output_size is None or is_int(output_size):
        output_size = (output_size,) * rank
    elif rank > 1 and input.dim() <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    if len(output_size) != rank:
        raise RuntimeError(f"{what}: output_size must be {rank}")
    sizes = input.shape[-rank:] if input.dim() >= rank else (0,) * rank
    given = (n if size is None else size for size, n in zip(output_size, sizes, strict=True))
    return whole_sizes(given, what, "output_size")


def _averages(image: Tensor, size: tuple[int, ...]) -> Tensor:
    averages: Tensor = _average(image, size)
    return averages


_AVERAGES = {1: _average, **{rank: one_node(f"AdaptiveAvgPool{rank}DBackward0")(_averages) for rank in (2, 3)}}


def _adaptive_average(rank: int, input: Tensor, output_size: Sizes) -> Tensor:
    what = f"adaptive_avg_pool{rank}d"
    size = _output_size(input, output_size, rank, what)
    image, batched = spatial(input, rank, what)
    if 0 in image.shape[1:]:
        raise RuntimeError(
            f"{what}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(input.shape)}"
        )
    if all(n == 1 for n in size):
        result = image.mean(dim=tuple(range(2, rank + 2)), keepdim=True)
    else:
        result = _AVERAGES[rank](image, size)
    return result if batched else result.squeeze(0)


@composite(method=False)
def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return the averages of ``output_size`` windows that cover signals ``[N, C, L]`` or ``[C, L]``."""
    return _adaptive_average(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return the averages of windows that cover images; a size that is None stays."""
    return _adaptive_average(2, input, output_size)


@autocast("float32", "")
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return the averages of windows that cover volumes; a size that is None stays."""
    return _adaptive_average(3, input, output_size)


def _adaptive_maximum(rank: int, input: Tensor, output_size: Sizes) -> tuple[Tensor, Tensor]:
    what = f"adaptive_max_pool{rank}d"
    size = _output_size(input, output_size, rank, what)
    image, batched = spatial(input, rank, what)
    if 0 in image.shape[1:]:
        raise RuntimeError(
            f"{what}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(input.shape)}"
        )
    indices = _max_indices(image, size)
    result = _gather(image, indices)
    return (result, indices) if batched else (result.squeeze(0), indices.squeeze(0))


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the largest elements of ``output_size`` windows that cover signals, and where they lie."""
    return _adaptive_maximum(1, input, output_size)


@grad_fn(None, "AdaptiveMaxPool2DBackward0")
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the largest elements of windows that cover images, and where they lie."""
    return _adaptive_maximum(2, input, output_size)


@autocast("float32", "")
@grad_fn(None, "AdaptiveMaxPool3DBackward0")
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the largest elements of windows that cover volumes, and where they lie."""
    return _adaptive_maximum(3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """Return the largest elements of ``output_size`` windows; with ``return_indices`` also where they lie."""
    pair = _adaptive_maximum(1, input, output_size)
    return pair if return_indices else pair[0]


@grad_fn("AdaptiveMaxPool2DBackward0", "AdaptiveMaxPool2DBackward0")
def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover images; with ``return_indices`` also where they lie."""
    pair = _adaptive_maximum(2, input, output_size)
    return pair if return_indices else pair[0]


@autocast("float32", "")
@grad_fn("AdaptiveMaxPool3DBackward0", "AdaptiveMaxPool3DBackward0")
def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover volumes; with ``return_indices`` also where they lie."""
    pair = _adaptive_maximum(3, input, output_size)
    return pair if return_indices else pair[0]


@composite(name="adaptive_max_pool1d", method=False)
def _adaptive_max_pool1d(input: Tensor, output_size: Sizes) -> tuple[Tensor, Tensor]:
    """Return the largest elements of ``output_size`` windows that cover signals, and where they lie."""
    return _adaptive_maximum(1, input, output_size)


def _starts(sample: Tensor, size: int, out: int, kernel: int) -> Tensor:
    """Return where the windows along one dimension begin, ``[N, C, out]``, for random numbers ``[N, C]``.

    The sequence of Graham, "Fractional Max-Pooling" (2014): steps of two lengths, shifted by the sample.
    """
    last = full((*sample.shape, 1), size - kernel, dtype=int64, device=sample.device)
    if out == 1:
        return last
    alpha = (size - kernel) / (out - 1)
    u = sample.unsqueeze(-1)
    steps = arange(out - 1, dtype=sample.dtype, device=sample.device)
    begin = ((steps + u) * alpha).trunc() - (u * alpha).trunc()
    return cat([begin.to(int64), last], -1)


def _fractional(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    what = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{what} requires specifying either an output_size or an output_ratio")
    kernel = ntuple(kernel_size, rank, "kernel_size", what)
    image, batched = spatial(input, rank, what)
    if output_size is None:
        ratios = (output_ratio,) * rank if _C.is_of_kind("float", output_ratio) else tuple(output_ratio)
        if len(ratios) != rank:
            raise ValueError(f"{what} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = tuple(int(n * r) for n, r in zip(image.shape[2:], ratios, strict=True))
    size = ntuple(output_size, rank, "output_size", what)
    for d, n in enumerate(image.shape[1:], 1):
        if n == 0:
            raise RuntimeError(
                f"{what}: Expected input to have non-zero size for non-batch dimensions, but got {list(image.shape)} "
                f"with dimension {d} being empty."
            )
    for n, o, k in zip(image.shape[2:], size, kernel, strict=True):
        if o + k - 1 > n:
            raise RuntimeError(f"{what}: pool size {k} too large relative to input size {n}")
    if samples is None:
        samples = rand(image.shape[0], image.shape[1], rank, dtype=image.dtype, device=image.device)
    # Which of the random numbers each dimension takes: of images, the last one takes the first.
    order = (1, 0) if rank == 2 else (0, 1, 2)
    begins = [_starts(samples.select(-1, order[d]), image.shape[2 + d], size[d], kernel[d]) for d in range(rank)]
    lead = tuple(image.shape[:2])
    places: Any = 0
    for d in range(rank):
        along = begins[d].unsqueeze(-1) + arange(kernel[d], device=image.device)
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = size[d], kernel[d]
        places = places * image.shape[2 + d] + along.reshape((*lead, *shape))
    count, windows = math.prod(kernel), math.prod(size)
    places = places.reshape((*lead, *size, count))
    values = _gather(image, places.reshape((*lead, windows, count, *(1 for _ in range(rank - 2)))))
    best = values.detach().reshape((*lead, *size, count)).argmax(-1, keepdim=True)
    indices = gather(places, -1, best).squeeze(-1)
    result = _gather(image, indices)
    return (result, indices) if batched else (result.squeeze(0), indices.squeeze(0))


@autocast("float32", "")
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the largest elements of windows that begin at random places in images, and where they lie."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


@autocast("float32", "")
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the largest elements of windows that begin at random places in volumes, and where they lie."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


@autocast("float32", "")
@grad_fn("FractionalMaxPool2DBackward0", "FractionalMaxPool2DBackward0")
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest elements of windows that begin at random places in images.

    The result has ``output_size``, or the input's sizes times ``output_ratio``.
    """
    pair = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]


@autocast("float32", "")
@grad_fn("FractionalMaxPool3DBackward0", "FractionalMaxPool3DBackward0")
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest elements of windows that begin at random places in volumes, as the one for images."""
    pair = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]
