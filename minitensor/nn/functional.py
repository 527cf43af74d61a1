"""The functions behind the modules, without their state."""

from __future__ import annotations

import warnings
from typing import Any

import minitensor as mt

__all__ = [
    "cross_entropy",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "relu",
    "relu_",
    "sigmoid",
    "softmax",
    "tanh",
]


def linear(input: mt.Tensor, weight: mt.Tensor, bias: mt.Tensor | None = None) -> mt.Tensor:
    """Return ``input @ weight.T + bias``; ``weight`` is ``[out_features, in_features]`` or ``[in_features]``."""
    result = mt.matmul(input, weight if weight.dim() == 1 else weight.transpose(0, 1))
    return result if bias is None else result + bias


def relu(input: mt.Tensor, inplace: bool = False) -> mt.Tensor:
    """Return ``max(input, 0)``, written over ``input`` if ``inplace``."""
    return input.relu_() if inplace else mt.relu(input)


def relu_(input: mt.Tensor) -> mt.Tensor:
    """Write ``max(input, 0)`` over ``input``."""
    return input.relu_()


def tanh(input: mt.Tensor) -> mt.Tensor:
    """Return the hyperbolic tangent."""
    return mt.tanh(input)


def sigmoid(input: mt.Tensor) -> mt.Tensor:
    """Return ``1 / (1 + exp(-input))``."""
    return mt.sigmoid(input)


def softmax(input: mt.Tensor, dim: int, dtype: Any = None) -> mt.Tensor:
    """Return ``exp(input) / exp(input).sum(dim)``, computed in ``dtype`` if it is given."""
    return mt.softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input: mt.Tensor, dim: int, dtype: Any = None) -> mt.Tensor:
    """Return the logarithm of :func:`softmax`."""
    return mt.log_softmax(input if dtype is None else input.to(dtype), dim)


def mse_loss(input: mt.Tensor, target: mt.Tensor, reduction: str = "mean") -> mt.Tensor:
    """Return the squared difference, reduced to its "mean" or "sum", or, with "none", element by element."""
    if input.shape != target.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting.",
            stacklevel=2,
        )
    difference = input - target
    return _reduce(difference * difference, reduction)


def nll_loss(
    input: mt.Tensor,
    target: mt.Tensor,
    weight: mt.Tensor | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> mt.Tensor:
    """Return the negative log-likelihood of the classes in ``target``.

    ``input`` holds log-probabilities ``[n, classes, ...]`` and ``target`` class indices ``[n, ...]``; without the
    leading ``n`` there is one example. ``weight`` has a factor for each class; "mean" divides by the sum of the factors
    used. Where ``target`` is ``ignore_index`` the loss is zero. By default nothing is ignored: unlike PyTorch's, whose
    default is -100, the function then refuses every target that is no class.
    """
    _check_classes(input, target, weight, reduction)
    if weight is None and ignore_index is None:
        return _reduce(_pick(input, target), reduction)
    factors = _factors(target, weight, ignore_index, input.dtype)
    if ignore_index is None:
        losses = _pick(input, target) * factors
    else:
        counted = target != ignore_index
        # Not a product with 0: what is ignored may be an infinity.
        losses = mt.where(counted, _pick(input, mt.where(counted, target, 0)) * factors, 0.0)
    return losses.sum() / factors.sum() if reduction == "mean" else _reduce(losses, reduction)


def cross_entropy(
    input: mt.Tensor,
    target: mt.Tensor,
    weight: mt.Tensor | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> mt.Tensor:
    """Return the cross entropy of logits ``[n, classes, ...]`` and a target.

    ``target`` has class indices ``[n, ...]``, as for :func:`nll_loss`, or, if it is of floating point and of
    ``input``'s shape, a probability for each class. ``label_smoothing`` is the part of the target that is spread over
    all classes.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    classes = 0 if input.dim() == 1 else 1
    logs = mt.log_softmax(input, classes)
    if target.is_floating_point():
        return _soft_cross_entropy(logs, target, classes, weight, reduction, label_smoothing)
    hard = nll_loss(logs, target, weight, ignore_index, reduction)
    if label_smoothing == 0.0:
        return hard

    # The other part: every class equally likely.
    spread = -(logs if weight is None else logs * _along(weight, logs, classes)).sum(classes)
    if ignore_index is not None:
        spread = mt.where(target != ignore_index, spread, 0.0)
    if reduction == "mean":
        spread = spread.sum() / _factors(target, weight, ignore_index, logs.dtype).sum()
    else:
        spread = _reduce(spread, reduction)
    return (1 - label_smoothing) * hard + label_smoothing / input.shape[classes] * spread


def one_hot(tensor: mt.Tensor, num_classes: int = -1) -> mt.Tensor:
    """Return int64 rows ``[..., num_classes]`` that hold one 1, at the position that ``tensor`` names.

    By default ``num_classes`` is one more than the largest value.
    """
    if tensor.dtype != mt.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type int64, got {tensor.dtype}")
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if tensor.numel() and tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = tensor.max().item() if tensor.numel() else -1
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == mt.arange(num_classes)).to(mt.int64)


def _soft_cross_entropy(
    logs: mt.Tensor, target: mt.Tensor, classes: int, weight: mt.Tensor | None, reduction: str, smoothing: float
) -> mt.Tensor:
    """Cross entropy with a probability for each class."""
    if target.shape != logs.shape:
        raise ValueError(f"Expected target probabilities of the input's shape {logs.shape}, got {target.shape}")
    if smoothing > 0.0:
        target = target * (1 - smoothing) + smoothing / logs.shape[classes]
    products = logs * target
    if weight is not None:
        products = products * _along(weight, logs, classes)
    losses = -products.sum(classes)
    if reduction != "mean":
        return _reduce(losses, reduction)
    # A batch of none has the mean NaN, and not a division of Python's by zero.
    return losses.sum() / losses.numel() if losses.numel() else losses.mean()


def _pick(input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
    """Return ``-input[n, target[n]]``, for inputs of any number of dimensions."""
    if input.dim() == 2:
        return mt.nll_loss(input, target)
    if input.dim() == 1:
        return mt.nll_loss(input.unsqueeze(0), target.reshape(1)).reshape(())
    count = input.shape[1]
    rows = input.permute(0, *range(2, input.dim()), 1).reshape(-1, count)
    return mt.nll_loss(rows, target.reshape(-1)).reshape(target.shape)


def _factors(target: mt.Tensor, weight: mt.Tensor | None, ignore_index: int | None, dtype: Any) -> mt.Tensor:
    """Return how much each target counts: its class's weight, or 1; 0 where it is ignored."""
    if ignore_index is None:
        return mt.ones(target.shape, dtype=dtype) if weight is None else weight[target]
    counted = target != ignore_index
    return counted.to(dtype) if weight is None else mt.where(counted, weight[mt.where(counted, target, 0)], 0.0)


def _along(weight: mt.Tensor, like: mt.Tensor, dim: int) -> mt.Tensor:
    """Shape a vector so that it broadcasts along ``dim`` of ``like``."""
    return weight.reshape([-1 if i == dim else 1 for i in range(like.dim())])


def _check_classes(input: mt.Tensor, target: mt.Tensor, weight: mt.Tensor | None, reduction: str) -> None:
    """Check the arguments of a loss over classes."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if weight is None and input.dim() == 2 and target.dim() == 1 and len(input) == len(target):
        return  # the usual case, on the short way
    if input.dim() == 0:
        raise ValueError("Expected input with at least 1 dimension (classes), got a scalar")
    shape = list(input.shape)
    count = shape.pop(0 if input.dim() == 1 else 1)
    if target.dim() and shape and target.shape[0] != shape[0]:
        raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({target.shape[0]}).")
    if list(target.shape) != shape:
        raise ValueError(f"Expected target size {shape}, got {list(target.shape)}")
    if weight is not None and list(weight.shape) != [count]:
        raise ValueError(f"weight must have one value for each of the {count} classes, got shape {list(weight.shape)}")


def _reduce(losses: mt.Tensor, reduction: str) -> mt.Tensor:
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"{reduction} is not a valid value for reduction")
