"""Channels and pixels in another order."""

from __future__ import annotations

from minitensor import _C
from minitensor._C import Tensor
from minitensor.composite import composite
from minitensor.composite.registry import grad_fn
from minitensor.ops.elementwise import row_major

__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


@composite(method=False)
@grad_fn("PixelShuffleBackward0")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Return ``[..., C, H * r, W * r]`` of ``[..., C * r ** 2, H, W]``: channels become blocks of pixels."""
    r = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    k = len(lead)
    split = input.reshape((*lead, channels // (r * r), r, r, height, width))
    moved = split.permute((*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return _C.forget_base(row_major(moved).reshape((*lead, channels // (r * r), height * r, width * r)))


@composite(method=False)
@grad_fn("PixelUnshuffleBackward0")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return ``[..., C * r ** 2, H, W]`` of ``[..., C, H * r, W * r]``: blocks of pixels become channels."""
    r = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    for name, dim, n in (("height", -2, height), ("width", -1, width)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({dim})={n} is not "
                f"divisible by {r}"
            )
    k = len(lead)
    split = input.reshape((*lead, channels, height // r, r, width // r, r))
    moved = split.permute((*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return _C.forget_base(row_major(moved).reshape((*lead, channels * r * r, height // r, width // r)))


@composite(method=False)
@grad_fn("ChannelShuffleBackward0")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return ``[N, C, ...]`` with the channels dealt out over ``groups``."""
    if input.dim() < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    channels = input.shape[1]
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    split = input.reshape((input.shape[0], groups, channels // groups, *input.shape[2:]))
    return split.transpose(1, 2).reshape(input.shape)


@composite(method=False)
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """:func:`channel_shuffle`."""
    return channel_shuffle(input, groups)
