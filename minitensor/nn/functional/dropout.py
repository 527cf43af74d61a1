"""Dropout: elements or channels set to zero, or to what keeps the moments, at random."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, float32, float64
from minitensor._functions.offered import rand
from minitensor._warning import warn
from minitensor.composite import composite
from minitensor.composite.numbers import number
from minitensor.composite.random import torch_numbers as torch_
from minitensor.composite.registry import shortcut

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

# The value that selu tends to for large negative inputs.
_ALPHA = -1.7580993408473766


def _check(p: float) -> None:
    p = number(p, "dropout", "p")
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    _check_op(p)


def _check_op(p: float) -> None:
    """Check as PyTorch's ops do, whose error is another one than that of `nn.functional`."""
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def _stored(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input.copy_(result) if inplace else result


def _kept(input: Tensor, p: float, channels: bool) -> Tensor:
    """Return 1 where an element, or a channel, stays, with probability ``1 - p``."""
    shape = tuple(input.shape)
    if channels:
        shape = (*shape[:2], *(1 for _ in shape[2:]))
    dtype = input.dtype
    wide = float64 if dtype is float64 else float32
    return (rand(shape, dtype=wide, device=input.device) >= p).to(dtype)


def _dropped(input: Tensor, p: float, training: bool, inplace: bool, channels: bool) -> Tensor:
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        return _stored(input, input * 0.0, inplace)
    if torch_.as_torch(None, input.device):
        mask = torch_.noise_like(input, 1.0 - p, channels) / (1.0 - p)
    else:
        mask = _kept(input, p, channels) * (1.0 / (1.0 - p))
    return input.mul_(mask) if inplace else input * mask


@shortcut("T?nbb", _C.dropout, after=(0.5, True, False))
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return the input with each element zero with probability ``p``, the others divided by ``1 - p``."""
    _check(p)
    if not training:
        return input
    return _dropped(input, p, training, inplace, False)


@composite(name="dropout", method=False)
def _torch_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return the input with elements zero at random if ``train``. See ``nn.functional.dropout``."""
    _check_op(p)
    return dropout(input, p, train)


def _by_channel(rank: int, input: Tensor, p: float, training: bool, inplace: bool, batched_by: int) -> Tensor:
    _check(p)
    if not training:
        return input
    if input.dim() == batched_by:
        return _dropped(input, p, training, inplace, True)
    result = _dropped(input.unsqueeze(0), p, training, inplace, True)
    return input if inplace else result.squeeze(0)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return ``[N, C, L]`` or ``[C, L]`` with each channel zero with probability ``p``, the others over ``1 - p``."""
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            "dropout1d: Expected 2D or 3D input, but received a "
            f"{input.dim()}D input. Note that dropout1d exists to provide channel-wise dropout on inputs with 1 "
            "spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _by_channel(1, input, p, training, inplace, 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return ``[N, C, H, W]`` with each channel zero with probability ``p``, the others divided by ``1 - p``."""
    _check(p)
    if input.dim() not in (3, 4):
        warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout instead. "
            "Note that dropout2d exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 3D or 4D inputs)."
        )
    if input.dim() == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead."
        )
    return input if not training else _dropped(input, p, training, inplace, input.dim() > 1)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return ``[N, C, D, H, W]`` or ``[C, D, H, W]`` with channels zero with probability ``p``."""
    _check(p)
    if input.dim() not in (4, 5):
        warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout instead. "
            "Note that dropout3d exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 4D or 5D inputs)."
        )
    return _by_channel(3, input, p, training, inplace, 5)


def _alpha(input: Tensor, p: float, training: bool, inplace: bool, channels: bool) -> Tensor:
    _check(p)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        return _stored(input, input * 0.0, inplace)
    if torch_.as_torch(None, input.device):
        a = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1.0) * (1.0 - p))
        noise = torch_.noise_like(input, 1.0 - p, channels)
        return _stored(input, input * (noise * a) + ((noise - 1.0) * (-_ALPHA * a) - _ALPHA * a * p), inplace)
    # Affine, so that mean 0 and variance 1 stay: Klambauer and others, "Self-Normalizing Neural Networks" (2017).
    scale = ((1 - p) * (1 + p * _ALPHA * _ALPHA)) ** -0.5
    mask = _kept(input, p, channels)
    return _stored(input, input * (mask * scale) + ((1 - mask) * _ALPHA + p * -_ALPHA) * scale, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return the input with elements at random set to selu's limit, scaled so that mean and variance stay."""
    return _alpha(input, p, training, inplace, False)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """:func:`alpha_dropout` of whole channels of ``[N, C, ...]``."""
    return _alpha(input, p, training, inplace, True)


def _offer(name: str, function: Any) -> None:
    def call(input: Tensor, p: float, train: bool) -> Tensor:
        _check_op(p)
        result: Tensor = function(input, p, train)
        return result

    def call_(input: Tensor, p: float, train: bool) -> Tensor:
        _check_op(p)
        result: Tensor = function(input, p, train, True)
        return result

    call.__doc__ = f"Return the input with dropout if ``train``. See ``nn.functional.{name}``."
    call_.__doc__ = f"In place: dropout if ``train``. See ``nn.functional.{name}``."
    composite(name=name, method=False)(call) if name != "dropout" else None
    composite(name=f"{name}_", method=False)(call_)


_offer("dropout", dropout)
_offer("alpha_dropout", alpha_dropout)
_offer("feature_alpha_dropout", feature_alpha_dropout)
_offer("feature_dropout", lambda x, p, train, inplace=False: _dropped(x, p, train, inplace, True) if train else x)
