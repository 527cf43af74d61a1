"""Normalisation and dropout with what their gradients need as further results, as PyTorch's own ops return them."""

from __future__ import annotations

from collections.abc import Sequence

from minitensor import _C
from minitensor._C import Tensor, float32
from minitensor._functions.offered import ones, rand, var_mean
from minitensor.composite import composite
from minitensor.composite.random import torch_numbers as torch_
from minitensor.composite.registry import autocast, grad_fn
from minitensor.nn.functional.normalization import _torch_batch_norm, _torch_group_norm, layer_norm
from minitensor.ops import ROWS

__all__: list[str] = []

_stats = ROWS["batch_norm_stats"].call


def _mean_and_rstd(rows: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the mean and the reciprocal deviation of every row."""
    mean, _, rstd = _stats(rows.detach().unsqueeze(0), eps)
    return mean.to(rows.dtype), rstd.to(rows.dtype)


@composite(method=False, out="exact")
@grad_fn(None, "NativeBatchNormBackward0")
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the batch normalised, and its means and reciprocal deviations, which are empty unless ``training``."""
    result = _torch_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        return result, input.new_zeros((0,)), input.new_zeros((0,))
    mean, rstd = _mean_and_rstd(input.transpose(0, 1).reshape((input.shape[1], -1)), eps)
    if any(t is not None and t.dtype == float32 for t in (weight, bias, running_mean, running_var)):
        mean, rstd = mean.to(float32), rstd.to(float32)
    return result, mean, rstd


@composite(method=False)
@autocast("", "float32")
@grad_fn(None, "NativeLayerNormBackward0")
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the last dimensions normalised, and their means and reciprocal deviations with sizes of 1 there."""
    shape = tuple(normalized_shape)
    result = layer_norm(input, shape, weight, bias, eps)
    lead = tuple(input.shape[: input.dim() - len(shape)])
    count = 1
    for n in lead:
        count *= n
    mean, rstd = _mean_and_rstd(input.reshape((count, -1)) if input.numel() else input.new_zeros((count, 0)), eps)
    kept = (*lead, *(1 for _ in shape))
    return result, mean.reshape(kept), rstd.reshape(kept)


@composite(method=False)
@grad_fn(None, "NativeGroupNormBackward0")
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,  # noqa: N803
    C: int,  # noqa: N803
    HxW: int,  # noqa: N803
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return groups of channels of ``N`` images ``[C, HxW]`` normalised, and their means and reciprocal deviations."""
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"Expected X.numel() == N * C * HxW to be true, but got {input.numel()} elements")
    image = input.reshape((N, C, HxW))
    result = _torch_group_norm(image, group, weight, bias, eps).reshape(input.shape)
    # Unlike those of batches and layers, these statistics have gradients.
    rows = image.reshape((N, group, C // max(group, 1) * HxW))
    var, mean = var_mean(rows.to(float32) if rows.dtype.itemsize < 4 else rows, -1, correction=0)
    return result, mean.to(rows.dtype), (var + eps).rsqrt().to(rows.dtype)


@composite(method=False)
def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of every channel; move the running ones towards them by ``momentum``."""
    from minitensor.nn.functional.normalization import _update

    mean, var, _ = _stats(input.detach(), 0.0)
    count = input.numel() // input.shape[1] if input.shape[1] else 0
    _update(running_mean, mean, momentum)
    _update(running_var, var * (count / (count - 1) if count > 1 else float("nan")), momentum)
    return mean, var


@composite(method=False)
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return the input with elements dropped with probability ``p``, and which of them stayed.

    None for ``train`` means that it is training.
    """
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if input.numel() == 0 or train is False:
        return input.clone(), ones(tuple(input.shape), dtype=_C.bool, device=input.device)
    if torch_.as_torch(None, input.device):
        kept = torch_.noise_like(input, 1.0 - p, False) != 0
    else:
        kept = rand(tuple(input.shape), device=input.device) >= p
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    return input * kept * scale, kept
