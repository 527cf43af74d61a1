"""Losses that compare numbers: of regressions, of probabilities, of distances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, float16
from minitensor._functions import offered
from minitensor._functions.offered import broadcast_tensors, exp, log, minimum, where
from minitensor._warning import warn
from minitensor.composite import composite
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, grad_fn
from minitensor.nn.functional.arguments import REDUCTIONS, reduced, reduction_of
from minitensor.ops.checks import refuse_where
from minitensor.ops.nn.fused_gradients import logits_loss, smooth_l1, squared_difference

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def _of_one_size(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the common size, with a warning if they were not; so none counts as a number in the result's dtype."""
    if input.shape != target.shape:
        warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
        input, target = broadcast_tensors(input, target)
    return input, target


def _weighted(losses: Tensor, weight: Tensor | None, reduction: str, input: Tensor) -> Tensor:
    """Reduce; a weighted mean divides by the sum of the weights."""
    if weight is None:
        return reduced(losses, reduction)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    losses = losses * weight
    return losses.sum() / weight.sum() if reduction == "mean" else reduced(losses, reduction)


@autocast("float32", "float32")
@grad_fn("MseLossBackward0")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared difference, reduced to its "mean" or "sum", or, with "none", element by element."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    return _weighted(squared_difference(*_of_one_size(input, target)), weight, reduction, input)


@autocast("float32", "float32")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute difference, reduced."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    expanded, expanded_target = _of_one_size(input, target)
    return _weighted((expanded - expanded_target).abs(), weight, reduction, input)


@autocast("float32", "float32")
@grad_fn("SmoothL1LossBackward0")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return ``d ** 2 / (2 * beta)`` for differences ``|d| < beta``, ``|d| - beta / 2`` for larger ones, reduced."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    input, target = _of_one_size(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0.0:
        return reduced((input - target).abs(), reduction)
    return reduced(smooth_l1(input, target, beta), reduction)


@autocast("float32", "float32")
@grad_fn("HuberLossBackward0")
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return ``d ** 2 / 2`` for differences ``|d| <= delta``, ``delta * (|d| - delta / 2)`` for others, reduced."""
    if weight is not None and weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    input, target = _of_one_size(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    dtype = input.dtype
    narrow = dtype == target.dtype and dtype in (_C.float16, _C.bfloat16)
    signed = input.to(_C.float32) - target.to(_C.float32) if narrow else input - target
    d = signed.abs()
    near = where(d > delta, 0.0, signed)  # an infinite one has no part in the square's gradient
    losses = where(d > delta, (d - 0.5 * delta) * delta, near * near * 0.5)
    losses = losses.to(dtype)
    if weight is not None:
        losses = losses * weight
    return reduced(losses, reduction)


@autocast("float32", "float32")
@grad_fn("BinaryCrossEntropyBackward0")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross entropy of probabilities and targets of one shape; logarithms are at least -100."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    for name, given in (("input", input), ("target", target)):
        # A NaN is not between them either.
        within = given.detach()
        refuse_where(((within >= 0) & (within <= 1)).logical_not(), f"all elements of {name} should be between 0 and 1")
    losses = _binary(input, target)
    return reduced(losses if weight is None else losses * weight, reduction)


def _binary(p: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of each pair; its slope is ``(p - target) / max(p * (1 - p), 1e-12)``."""
    fixed = p.detach()
    edge = fixed * (1 - fixed) <= 1e-12  # 0, in float16
    inside = where(edge, 0.5, p)
    regular = -(target * log(inside) + (1 - target) * log(1 - inside))
    value = -(target * log(fixed).clamp(min=-100.0) + (1 - target) * log(1 - fixed).clamp(min=-100.0))
    steep = 1e12 if p.dtype is not float16 else 65504.0  # its largest: an infinite slope times 0 is NaN
    return where(edge, value + (p - fixed) * ((fixed - target.detach()) * steep), regular)


@composite(method=False, name="binary_cross_entropy_with_logits")
@autocast("float32", "float32")
@grad_fn("BinaryCrossEntropyWithLogitsBackward0")
def _torch_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """Return the cross entropy of logits and targets. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    return binary_cross_entropy_with_logits(
        input, target, weight, reduction=REDUCTIONS[reduction], pos_weight=pos_weight
    )


@autocast("float32", "float32")
@grad_fn("BinaryCrossEntropyWithLogitsBackward0")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the cross entropy of ``sigmoid(input)`` and targets, without overflow; ``pos_weight`` multiplies hits."""
    from minitensor.nn.functional.activation import logsigmoid

    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if pos_weight is None:
        losses = logits_loss(input, target)
    else:
        losses = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid(input)
    return reduced(losses if weight is None else losses * weight, reduction)


@autocast("float32", "float32")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return ``target * (log(target) - input)``, for log-probabilities ``input``.

    "batchmean", which is the divergence, divides the sum by the size of the batch. With ``log_target`` the target is a
    logarithm too.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release."
        )
    return _divergence(input, target, reduction, log_target)


def _divergence(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    if log_target:
        losses = exp(target) * (target - input)
    else:
        safe = where(target > 0, target, 1.0)
        logs = where(target >= 0, target * log(safe), float("nan"))
        losses = logs - target * input
    if reduction == "batchmean":
        return losses.sum() / input.shape[0] if input.dim() else losses.sum()
    return reduced(losses, reduction)


@autocast("float32", "float32")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-08,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of counts under a Poisson distribution, up to a constant unless ``full``.

    ``input`` is the expectation, or its logarithm. ``full`` adds Stirling's approximation for targets above 1.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    eps = number(eps, "poisson_nll_loss", "eps")
    losses = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        stirling = safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe)
        losses = losses + where(target > 1, stirling, 0.0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-06,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of targets under normal distributions, up to a constant unless ``full``.

    ``var`` is of ``input``'s shape, or of that with a last dimension of 1 or without it, or a number; it counts as
    ``eps`` at least, which its gradient does not see.
    """
    if not isinstance(var, Tensor):
        var = offered.full(tuple(input.shape), var, dtype=input.dtype, device=input.device)
    refuse_where(var.detach() < 0, "var has negative entry/entries")
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif not (tuple(input.shape[:-1]) == tuple(var.shape[:-1]) and var.shape[-1] == 1):
            broadcast = len(var.shape) == len(input.shape) and all(
                a in (1, b) for a, b in zip(var.shape, input.shape, strict=True)
            )
            if not broadcast:
                raise ValueError("var is of incorrect size")
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    var = var + (var.detach().clamp(min=eps) - var.detach())
    difference = input - target
    losses = 0.5 * (log(var) + difference * difference / var)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)


@autocast("float32", "float32")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, -target * (input1 - input2) + margin)``; ``target`` is 1 where ``input1`` should win, or -1."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0.0), reduction)


@autocast("float32", "float32")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``input`` where ``target`` is 1 and ``max(0, margin - input)`` where it is -1, reduced."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if not isinstance(input, Tensor):
        raise TypeError(
            f"hinge_embedding_loss(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    near = where(target != -1, input, 0.0)
    far = where(target != 1, (margin - input).clamp(min=0.0), 0.0)
    return reduced(near + far, reduction)


@autocast("float32", "float32")
@grad_fn("SoftMarginLossBackward0")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``log(1 + exp(-target * input))`` for targets 1 and -1, reduced."""
    from minitensor.nn.functional.activation import logsigmoid

    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    losses = -logsigmoid(target * input)
    if losses.shape != input.shape:
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(losses.shape)}"
        )
    return reduced(losses, reduction)


@autocast("float32", "float32")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``1 - cos`` where ``target`` is 1 and ``max(0, cos - margin)`` where it is -1, reduced.

    ``cos`` is the cosine of the angle between the rows of ``[N, D]``, or between two vectors.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    wanted = (1, 2)[target.dim()]
    if input1.dim() != wanted or input2.dim() != wanted:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {wanted}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    dot = (input1 * input2).sum(-1)
    tiny = 1e-12
    cosine = dot / (((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)).sqrt()
    near = where(target == 1, 1 - cosine, 0.0)
    return reduced(near + where(target == -1, (cosine - margin).clamp(min=0.0), 0.0), reduction)


@composite(method=False, name="triplet_margin_loss")
@autocast("float32", "float32")
def _torch_triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """Return the triplet margin loss. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    return triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=REDUCTIONS[reduction])


@autocast("float32", "float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, distance to positive - distance to negative + margin)`` in the ``p``-norm, reduced.

    With ``swap`` the nearer of anchor and positive counts as the distance to the negative. Balntas and others,
    "Learning shallow convolutional feature descriptors with triplet losses" (2016).
    """
    from minitensor.nn.functional.distance import pairwise_distance

    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    return _triplet(anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with any distance; by default the Euclidean one."""
    from minitensor.nn.functional.distance import pairwise_distance

    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    return _triplet(anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0.0), reduction)


def _offer(name: str, function: Callable[..., Tensor]) -> None:
    """Enter the package's own form of a loss, whose reduction is a number."""

    def margin_form(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Tensor:
        return function(input1, input2, target, margin, reduction=REDUCTIONS[reduction])

    margin_form.__doc__ = (
        f"Return ``nn.functional.{name}``. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."
    )
    composite(method=False, name=name)(autocast("float32", "float32")(margin_form))


_offer("cosine_embedding_loss", cosine_embedding_loss)
_offer("margin_ranking_loss", margin_ranking_loss)


@composite(method=False, name="hinge_embedding_loss")
@autocast("float32", "float32")
def _torch_hinge(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """Return the hinge embedding loss. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    return hinge_embedding_loss(input, target, margin, reduction=REDUCTIONS[reduction])


@composite(method=False, name="kl_div")
@autocast("float32", "float32")
def _torch_kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """Return the divergence's terms. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    return _divergence(input, target, REDUCTIONS[reduction], log_target)


@composite(method=False, name="poisson_nll_loss")
@autocast("float32", "float32")
def _torch_poisson(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """Return the Poisson loss. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    return poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=REDUCTIONS[reduction])
