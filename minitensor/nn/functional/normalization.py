"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Size, Tensor, bfloat16, complex128, float16, float64
from minitensor.amp.state import is_autocast_enabled
from minitensor.autograd import no_grad
from minitensor.composite import composite
from minitensor.composite.dims import ints_of
from minitensor.composite.numbers import number, whole_sizes
from minitensor.composite.registry import autocast, grad_fn, shortcut
from minitensor.ops import ROWS

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]

_stats = ROWS["batch_norm_stats"].call
_batch_norm = ROWS["batch_norm"].call
_group_norm = ROWS["group_norm"].call


def _check_training_size(shape: Sequence[int]) -> None:
    count = shape[0]
    for n in shape[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {Size(shape)}")


def _update(running: Tensor | None, value: Tensor, momentum: float) -> None:
    if running is not None:
        momentum = number(momentum, "batch_norm", "momentum")
        with no_grad():
            running.mul_(1 - momentum).add_(value.to(running.dtype) * momentum)


@grad_fn("NativeBatchNormBackward0")
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Return ``(input - mean) / sqrt(var + eps) * weight + bias`` with a mean and a variance for each channel.

    ``input`` is ``[N, C, ...]``. If ``training``, the statistics are the batch's own, and the running ones move towards
    them by ``momentum`` (the variance with Bessel's correction); otherwise they are the running ones.
    ValueError for an ``eps`` below zero, or of zero in training.
    """
    if training:
        _check_training_size(input.shape)
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _batch(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _check_channels(input: Tensor, **vectors: Tensor | None) -> None:
    for name, vector in vectors.items():
        if vector is not None and vector.numel() != input.shape[1]:
            raise RuntimeError(f"{name} should contain {input.shape[1]} elements not {vector.numel()}")


def _batch(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    if input.numel() == 0 and input.dim() > 0:
        # Nothing to normalise; the gradients of weight and bias are zeros.
        result = input.clone()
        result = result if weight is None else result * weight.reshape(-1)[0] if weight.numel() else result
        return result if bias is None or not bias.numel() else result + bias.reshape(-1)[0]
    if input.dim() < 2:
        raise RuntimeError(f"expected at least 2D input (got {input.dim()}D input)")
    _check_channels(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
        rstd = (running_var + eps).rsqrt()
        return _planes(input, weight, bias, running_mean.detach(), rstd.detach(), False)
    image = input.detach()
    # One value a plane: as columns, which are read in one go.
    image = image.t().unsqueeze(0) if input.dim() == 2 else image
    mean, var, rstd = _stats(image, eps)
    if running_mean is not None or running_var is not None:
        count = input.numel() // input.shape[1] if input.shape[1] else 0
        _update(running_mean, mean, momentum)
        _update(running_var, var * (count / (count - 1) if count > 1 else float("nan")), momentum)
    return _planes(input, weight, bias, mean, rstd, True)


def _planes(input: Tensor, weight: Any, bias: Any, mean: Tensor, rstd: Tensor, training: bool) -> Tensor:
    if input.dim() > 2:
        return _batch_norm(input, weight, bias, mean, rstd, training)
    return _batch_norm(input.t().unsqueeze(0), weight, bias, mean, rstd, training).squeeze(0).t().contiguous()


@composite(name="batch_norm", method=False)
@grad_fn("NativeBatchNormBackward0")
def _torch_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """Return the batch normalised. See ``nn.functional.batch_norm``; ``cudnn_enabled`` has no effect."""
    return _batch(input, weight, bias, running_mean, running_var, training, momentum, eps)


@grad_fn("ViewBackward0")
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Return every channel of every example normalised by its own statistics.

    ``input`` is ``[N, C, ...]``. With ``use_input_stats=False`` the running statistics are used; otherwise those move
    towards the mean of the examples' by ``momentum``.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return _batch(input, weight, bias, running_mean, running_var, False, momentum, eps)
    count = 1
    for n in input.shape[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {Size(input.shape)}")
    if running_mean is not None or running_var is not None:
        with no_grad():
            rows = input.detach().reshape((1, input.shape[0] * input.shape[1], -1))
            mean, var, _ = _stats(rows, eps)
            lead = (input.shape[0], input.shape[1])
            _update(running_mean, mean.reshape(lead).mean(0), momentum)
            _update(running_var, var.reshape(lead).mean(0) * (count / (count - 1)), momentum)
    return _group_norm(input, weight, bias, input.shape[1], eps)


@composite(name="instance_norm", method=False)
def _torch_instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """Return every channel normalised. See ``nn.functional.instance_norm``; ``cudnn_enabled`` has no effect."""
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _rows(input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Any, Any]:
    """Return the input as rows of what is normalised together, and weight and bias as vectors."""
    shape = whole_sizes(ints_of(normalized_shape), "layer_norm", "normalized_shape")
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(t.shape)} and "
                f"normalized_shape = {list(shape)}"
            )
    if tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {str(list(shape))[1:]}, but got "
            f"input of size{list(input.shape)}"
        )
    count = 1
    for n in shape:
        count *= n
    rows = (
        input
        if input.dim() == 2 and len(shape) == 1
        else input.reshape((input.numel() // count if count else 0, count))
    )
    if len(shape) > 1:
        weight = None if weight is None else weight.reshape(-1)
        bias = None if bias is None else bias.reshape(-1)
    return rows, weight, bias


@shortcut("Tt?~T~Tn", _C.layer_norm)
@autocast("", "float32")
@grad_fn("NativeLayerNormBackward0")
def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Return the last dimensions, whose sizes are ``normalized_shape``, normalised; times ``weight``, plus ``bias``."""
    rows, scale, shift = _rows(input, normalized_shape, weight, bias)
    if not rows.numel():
        # Nothing to normalise; the gradients of weight and bias are zeros.
        result = input.clone()
        result = result if weight is None else result * weight
        return result if bias is None else result + bias
    result = _group_norm(rows, scale, shift, 1, eps)
    return result if rows is input else _C.forget_base(result.reshape(input.shape))


@composite(name="layer_norm", method=False)
@autocast("", "float32")
@grad_fn("NativeLayerNormBackward0")
def _torch_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return the last dimensions normalised. See ``nn.functional.layer_norm``; ``cudnn_enable`` has no effect."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


@composite(method=False)
@autocast("", "float32")
def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return the last dimensions divided by their root mean square; times ``weight``.

    ``eps`` is added to the mean square; by default it is the smallest difference from 1 of the dtype.
    """
    rows, scale, _ = _rows(input, normalized_shape, weight, None)
    if 0 in rows.shape:
        return input.clone() if weight is None else input * weight
    if input.is_complex():
        # PyTorch's mean square is that of the numbers, not of their magnitudes.
        smallest = 2.220446049250313e-16 if input.dtype == complex128 else 1.1920928955078125e-07
        ratio = rows * ((rows * rows).mean(1, keepdim=True) + (smallest if eps is None else eps)).rsqrt()
        return (ratio if scale is None else ratio * scale).reshape(input.shape)
    if eps is None:
        eps = 2.220446049250313e-16 if input.dtype == float64 else 1.1920928955078125e-07
    result = _group_norm(rows, scale, None, 1, eps, False)
    return result if rows is input else result.reshape(input.shape)


@autocast("", "float32")
@grad_fn("NativeGroupNormBackward0")
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Return ``num_groups`` groups of channels of ``[N, C, ...]`` normalised each by itself, scaled by channel."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    _check_training_size((input.shape[0] * input.shape[1] // max(num_groups, 1), num_groups, *input.shape[2:]))
    return _grouped(input, num_groups, weight, bias, eps)


def _grouped(input: Tensor, num_groups: int, weight: Any, bias: Any, eps: float) -> Tensor:
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and (t.dim() != 1 or t.numel() != input.shape[1]):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(t.shape)} and input of shape {list(input.shape)}"
            )
    return _group_norm(input, weight, bias, num_groups, eps)


@composite(name="group_norm", method=False)
@autocast("", "float32")
@grad_fn("NativeGroupNormBackward0")
def _torch_group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return groups of channels normalised. See ``nn.functional.group_norm``; ``cudnn_enabled`` has no effect."""
    return _grouped(input, num_groups, weight, bias, eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Return ``input / (k + alpha * average of the squares of size neighbouring channels) ** beta``.

    Krizhevsky and others, "ImageNet Classification with Deep Convolutional Neural Networks" (2012).
    """
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    from minitensor.composite.padding import pad
    from minitensor.nn.functional.pooling import avg_pool1d

    channels = input.shape[1]
    squares = (input * input).reshape((input.shape[0], channels, -1)).transpose(1, 2)
    padded = pad(squares, (size // 2, (size - 1) // 2))
    if input.dim() > 3 and is_autocast_enabled("cpu"):
        # PyTorch takes the mean by avg_pool3d, which is computed in float32 there.
        padded = padded.float() if padded.dtype in (float16, bfloat16) else padded
    average = avg_pool1d(padded, size, 1).transpose(1, 2).reshape(input.shape)
    return input / (average * alpha + k).pow(beta)


def normalize(
    input: Tensor, p: float | None = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Return the input divided by its ``p``-norm along ``dim``, which counts as ``eps`` at least."""
    from minitensor.nn.functional.distance import vector_norm

    p = 2.0 if p is None else number(p, "norm", "p")
    if out is not None:
        _C.check_out("normalize", out, (input,), {})
    result = input / vector_norm(input, p, dim, keepdim=True).clamp(min=eps)
    return result if out is None else _C.store_out("normalize", result, out)
