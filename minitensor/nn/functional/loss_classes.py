"""Losses of classifications: of one class for each example, and of several."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import Tensor, int64
from minitensor._functions.offered import arange, gather, log_softmax, where, zeros
from minitensor.composite.dims import type_name
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, grad_fn, one_node, shortcut
from minitensor.nn.functional.arguments import REDUCTIONS, reduced, reduction_of
from minitensor.ops import ROWS
from minitensor.ops.checks import refuse_where

__all__ = [
    "cross_entropy",
    "linear_cross_entropy",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
]

_nll = ROWS["nll_loss"].call
_nll_mean = ROWS["nll_loss_mean"].call
_log_softmax = ROWS["log_softmax"].call


@autocast("float32", "float32")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of the classes in ``target``.

    ``input`` holds log-probabilities ``[N, classes, ...]`` and ``target`` class indices ``[N, ...]``; without the
    leading ``N`` there is one example. ``weight`` has a factor for each class; "mean" divides by the sum of the factors
    used. Where ``target`` is ``ignore_index`` the loss is zero and does not count.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    return _nll_loss(input, target, weight, ignore_index, reduction)


def _nll_loss(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    if target.dtype is _C.uint8:  # the one other dtype that PyTorch takes for classes
        target = target.to(_C.int64)
    _check_classes(input, target, weight, reduction)
    return (_of_rows if input.dim() <= 2 else _of_images)(input, target, weight, ignore_index, reduction)


def _losses(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    if weight is None and reduction == "mean":
        mean: Tensor = _nll_mean(*_rows(input, target), ignore_index)
        return mean
    losses = _pick(input, target, ignore_index)
    if weight is None:
        return reduced(losses, reduction)
    factors = _factors(target, weight, ignore_index)
    # Not a product with 0: what is ignored may be an infinity, which the row has left out.
    losses = losses * factors
    return losses.sum() / factors.sum() if reduction == "mean" else reduced(losses, reduction)


_of_rows, _of_images = one_node("NllLossBackward0")(_losses), one_node("NllLoss2DBackward0")(_losses)


@shortcut("21", _C.cross_entropy)
@autocast("float32", "float32")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of logits ``[N, classes, ...]`` and a target.

    ``target`` has class indices ``[N, ...]``, as for :func:`nll_loss`, or, if it is of ``input``'s shape, a probability
    for each class. ``label_smoothing`` is the part of the target that is spread over all classes.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    label_smoothing = number(label_smoothing, "cross_entropy_loss", "label_smoothing")
    if target.dtype is _C.uint8:
        target = target.to(_C.int64)
    if weight is None and label_smoothing == 0.0 and reduction == "mean" and _is_usual(input, target):
        mean: Tensor = _nll_mean(_log_softmax(input, 1), target, ignore_index)
        return mean
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if not label_smoothing > 0.0:  # PyTorch smoothes for numbers above zero only, and refuses no other
        label_smoothing = 0.0
    classes = 0 if input.dim() == 1 else 1
    if target.shape == input.shape and input.dim() > 0:
        if not target.is_floating_point():
            raise RuntimeError(
                f"Expected floating point type for target with class probabilities, got {type_name(target)}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _soft_cross_entropy(log_softmax(input, classes), target, classes, weight, reduction, label_smoothing)
    logs = log_softmax(input, classes)
    hard = _nll_loss(logs, target, weight, ignore_index, reduction)
    if label_smoothing == 0.0:
        return hard

    # The other part: every class equally likely.
    spread = -(logs if weight is None else logs * _along(weight, logs, classes)).sum(classes)
    counted = target != ignore_index
    spread = where(counted, spread, 0.0)
    if reduction == "mean":
        spread = spread.sum() / (counted if weight is None else _factors(target, weight, ignore_index)).sum()
    else:
        spread = reduced(spread, reduction)
    return (1 - label_smoothing) * hard + label_smoothing / input.shape[classes] * spread


def _soft_cross_entropy(
    logs: Tensor, target: Tensor, classes: int, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    """Cross entropy with a probability for each class."""
    if weight is not None and (weight.dim() != 1 or weight.numel() != logs.shape[classes]):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {logs.shape[classes]} classes or no "
            f"classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if smoothing > 0.0:
        target = target * (1 - smoothing) + smoothing / logs.shape[classes]
    products = logs * target
    if weight is not None:
        products = products * _along(weight, logs, classes)
    _check_reduction(reduction)
    if reduction == "none":
        return -products.sum(classes)
    if reduction == "sum":
        return -products.sum()
    # A batch of none has the mean NaN, and not a division of Python's by zero.
    count = products.numel() // logs.shape[classes] if logs.shape[classes] else 0
    return -products.sum() / count if count else products.mean()


def _rows(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores ``[N, classes]`` and as many targets, for inputs of any number of dimensions."""
    if input.dim() == 2:
        return input, target
    if input.dim() == 1:
        return input.unsqueeze(0), target.reshape(1)
    rows = input.permute(0, *range(2, input.dim()), 1).reshape(-1, input.shape[1])
    return rows, target.reshape(-1)


def _pick(input: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    """Return ``-input[n, target[n]]``, and 0 where that is to be ignored."""
    result: Tensor = _nll(*_rows(input, target), ignore_index)
    return result if input.dim() == 2 else result.reshape(target.shape)


def _factors(target: Tensor, weight: Tensor, ignore_index: int) -> Tensor:
    """Return how much each target counts: its class's weight; 0 where it is ignored."""
    counted = target != ignore_index
    places = where(counted, target, 0)
    return where(counted, weight.index_select(0, places.reshape(-1)).reshape(target.shape), 0.0)


def _along(weight: Tensor, like: Tensor, dim: int) -> Tensor:
    """Shape a vector so that it broadcasts along ``dim`` of ``like``."""
    return weight.reshape([-1 if i == dim else 1 for i in range(like.dim())])


def _check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")


def _is_usual(input: Tensor, target: Tensor) -> bool:
    """Return whether there is a class for each of several rows: nothing is wrong, and nothing has to be rearranged."""
    return input.ndim == 2 and target.ndim == 1 and len(input) == len(target)


def _check_classes(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> None:
    """Check the arguments of a loss over classes."""
    _check_reduction(reduction)
    if weight is None and _is_usual(input, target):
        return
    if input.dim() == 0:
        raise ValueError("Expected input with at least 1 dimension (classes), got a scalar")
    shape = list(input.shape)
    count = shape.pop(0 if input.dim() == 1 else 1)
    if target.dim() and shape and target.shape[0] != shape[0]:
        raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({target.shape[0]}).")
    if list(target.shape) != shape:
        if input.dim() > 2:
            raise RuntimeError(f"Expected target size {shape}, got {list(target.shape)}")
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if weight is not None and (weight.dim() != 1 or weight.numel() != count):
        raise RuntimeError(
            f"weight tensor should be defined either for all {count} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}"
        )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return the cross entropy of ``linear(input, linear_weight, linear_bias)`` and a target.

    ``input`` is ``[features]`` or ``[N, features]`` and ``linear_weight`` ``[classes, ..., features]``, where the sizes
    between give losses of several dimensions: logits are ``[N, classes, ...]``. ``target`` has a class ``[N, ...]``,
    or, if of the logits' shape, a probability for each class. ``options`` may say how memory is saved elsewhere;
    it does not change the result.
    """
    from minitensor.nn.functional.products import linear

    if input.dim() < 1 or input.dim() > 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    sizes = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != sizes:
        raise RuntimeError(f"expected linear_bias shape {sizes}, got {tuple(linear_bias.shape)}")
    if len(sizes) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], *sizes)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if len(sizes) > 1:
        linear_weight = linear_weight.reshape((-1, linear_weight.shape[-1]))
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias).reshape(shape)
    return cross_entropy(
        logits, target, weight, None, -100 if ignore_index is None else ignore_index, None, reduction, label_smoothing
    )


def _examples(input: Tensor, target: Tensor, what: str) -> tuple[Tensor, Tensor]:
    """Return the input as ``[N, classes]`` and the target with as many rows."""
    if input.dim() > 2 or (input.numel() == 0 and input.dim() != 2):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    rows = input.reshape((1, -1)) if input.dim() < 2 else input
    return rows, target


@autocast("float32", "float32")
@grad_fn("MultiMarginLossBackward0")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return how far the other classes' scores come within ``margin`` of the target's, to the power ``p``.

    ``input`` is ``[N, classes]`` or ``[classes]``, ``target`` ``[N]`` or a number.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    _check_reduction(reduction)
    p, margin = number(p, "multi_margin_loss", "p"), number(margin, "multi_margin_loss", "margin")
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    rows, _ = _examples(input, target, "multi_margin_loss")
    count = rows.shape[1]
    if target.numel() != rows.shape[0] or target.dim() > 1:
        raise RuntimeError(f"inconsistent target size, expected {rows.shape[0]} but got {list(target.shape)}")
    if weight is not None and (weight.dim() > 1 or weight.numel() != count):
        raise (
            ValueError("weight must be one-dimensional")
            if weight.dim() != 1
            else RuntimeError(f"inconsistent weight size, expected {count} but got {list(weight.shape)}")
        )
    index = target.reshape((-1, 1))
    refuse_where((index < 0) | (index >= count), "target out of range")
    differences = (margin - gather(rows, 1, index) + rows).relu()
    if p == 2:
        differences = differences * differences
    if weight is not None:
        differences = differences * weight.index_select(0, target.reshape(-1)).unsqueeze(1)
    others = arange(count, device=index.device).unsqueeze(0) != index
    losses = where(others, differences, 0.0).sum(1) / count
    if reduction == "none" and input.dim() < 2:
        return losses.reshape(target.shape)
    return reduced(losses, reduction)


@autocast("float32", "float32")
@grad_fn("MultilabelMarginLossBackward0")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return how far scores of classes that are no targets come within 1 of those that are, over the classes.

    ``target`` is of ``input``'s shape ``[N, classes]`` or ``[classes]`` and has the target classes of each example
    first, then -1.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    _check_reduction(reduction)
    rows, _ = _examples(input, target, "multilabel_margin_loss")
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    count = rows.shape[1]
    index = target.reshape(rows.shape)
    refuse_where((index < -1) | (index >= count), "argument #2 'target' is out of range")
    listed = (index == -1).to(int64).cumsum(1) == 0  # up to the first -1
    places = where(listed, index, 0)
    chosen = gather(rows, 1, places)
    marks = zeros(tuple(rows.shape), dtype=int64, device=rows.device).scatter_add(1, places, listed.to(int64))
    free = (marks == 0).unsqueeze(1)
    margins = (1 - chosen.unsqueeze(2) + rows.unsqueeze(1)).relu()
    losses = where(listed.unsqueeze(2) & free, margins, 0.0).sum((1, 2)) / count
    if reduction == "none" and input.dim() < 2:
        return losses.reshape(())
    return reduced(losses, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropy of logits and targets ``[..., classes]``, averaged over the classes."""
    from minitensor.nn.functional.activation import logsigmoid

    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduced(losses.sum(-1) / input.shape[-1], reduction)  # losses may be broadcast
