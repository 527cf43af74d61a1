"""Costs of a batch: weighted means over its elements, kept in the collection of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._C import float32
from minitensor._functions.offered import where
from minitensor.compat.v1 import nn
from minitensor.compat.v1.framework.constants import convert_to_tensor, node
from minitensor.compat.v1.framework.graph import GraphKeys, Tensor, add_to_collection, get_collection, name_scope
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.ops import math_ops as m

__all__ = [
    "Reduction", "absolute_difference", "add_loss", "compute_weighted_loss", "get_losses", "get_regularization_loss",
    "get_regularization_losses", "get_total_loss", "hinge_loss", "huber_loss", "log_loss", "mean_squared_error",
    "sigmoid_cross_entropy", "softmax_cross_entropy", "sparse_softmax_cross_entropy",
]  # fmt: skip


class Reduction:
    """How the costs of a batch's elements become one."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """`losses` times `weights`, which broadcast, reduced: summed, and divided by how many weights aren't zero."""
    cost = convert_to_tensor(losses)
    scale = convert_to_tensor(weights, cost.dtype)
    plain = scale.op.type == "Const" and scale.shape.ndims == 0 and float(scale.op.held) == 1.0

    def reduced(a: _C.Tensor, w: _C.Tensor) -> _C.Tensor:
        if plain and reduction in (_DEFAULT, Reduction.MEAN, Reduction.SUM_OVER_BATCH_SIZE):
            return a.mean()
        weighted = a if plain else a * w
        if reduction == Reduction.NONE:
            return weighted
        if reduction == Reduction.SUM:
            return weighted.sum()
        if reduction == Reduction.SUM_OVER_BATCH_SIZE:
            return weighted.mean()
        all_weights = w.expand(a.shape)
        total = all_weights.sum() if reduction == Reduction.MEAN else (all_weights != 0).sum().to(a.dtype)
        return where(total == 0, 0.0, weighted.sum() / where(total == 0, 1.0, total))

    known = {value for name, value in vars(Reduction).items() if name.isupper()}
    if reduction not in known:
        raise ValueError(f"Invalid Reduction Key {reduction}; there are {', '.join(sorted(known))}")
    with name_scope(scope, "weighted_loss"):
        found = node("value", reduced, [cost, scale])
    if loss_collection and reduction != Reduction.NONE:
        add_to_collection(loss_collection, found)
    return found


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of integer labels [...] and logits [..., classes]."""
    with name_scope(scope, "sparse_softmax_cross_entropy_loss"):
        costs = nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(costs, weights, None, loss_collection, reduction)


def _smoothed(labels: Any, dtype: _C.dtype, smoothing: float, classes: int) -> Tensor:
    """Labels of which a part is spread evenly over the classes."""
    target = m.cast(labels, dtype)
    return m.add(m.multiply(target, 1 - smoothing), smoothing / classes) if smoothing else target


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of labels that are probabilities and logits, both [..., classes]."""
    with name_scope(scope, "softmax_cross_entropy_loss"):
        x = convert_to_tensor(logits)
        classes = x.shape[-1].value if label_smoothing else 1
        if classes is None:
            raise ValueError("label_smoothing needs logits whose number of classes is known")
        target = _smoothed(onehot_labels, x.dtype, label_smoothing, classes)
        costs = nn.softmax_cross_entropy_with_logits(labels=target, logits=x, name="xentropy")
        return compute_weighted_loss(costs, weights, None, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of labels that are probabilities, each for itself, and logits."""
    with name_scope(scope, "sigmoid_cross_entropy_loss"):
        x = convert_to_tensor(logits)
        target = _smoothed(multi_class_labels, x.dtype, label_smoothing, 2)
        costs = nn.sigmoid_cross_entropy_with_logits(labels=target, logits=x, name="xentropy")
        return compute_weighted_loss(costs, weights, None, loss_collection, reduction)


def _alike(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    guess = m.cast(predictions, float32)
    target = m.cast(labels, float32)
    if not guess.shape.is_compatible_with(target.shape):
        raise ValueError(f"Shapes {guess.shape} and {target.shape} are incompatible")
    return guess, target


def _of_two(scope_name: str, cost: Callable[[Tensor, Tensor], Tensor], says: str) -> Any:
    """A loss that takes nothing beside what all take; `cost` gets predictions and labels."""

    def made(
        labels: Any,
        predictions: Any,
        weights: Any = 1.0,
        scope: str | None = None,
        loss_collection: Any = GraphKeys.LOSSES,
        reduction: str = _DEFAULT,
    ) -> Tensor:
        with name_scope(scope, scope_name):
            return compute_weighted_loss(cost(*_alike(predictions, labels)), weights, None, loss_collection, reduction)

    made.__doc__ = says
    return made


mean_squared_error = _of_two("mean_squared_error", m.squared_difference, "The squares of the differences.")
absolute_difference = _of_two(
    "absolute_difference", lambda guess, target: m.abs(m.subtract(guess, target)), "The absolute differences."
)
m.named(globals())


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """Half of the squared differences up to `delta`, and beyond it lines that go on from there."""
    with name_scope(scope, "huber_loss"):
        guess, target = _alike(predictions, labels)
        error = m.abs(m.subtract(guess, target))
        near = m.minimum(error, m.cast(delta, error.dtype))
        half = m.multiply(m.cast(0.5, error.dtype), m.multiply(near, near))
        cost = m.add(half, m.multiply(m.cast(delta, error.dtype), m.subtract(error, near)))
        return compute_weighted_loss(cost, weights, None, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of probabilities with labels of 0 and 1, each logarithm that of `epsilon` more."""
    with name_scope(scope, "log_loss"):
        guess, target = _alike(predictions, labels)
        one, small = (m.cast(number, guess.dtype) for number in (1.0, epsilon))
        of_ones = m.multiply(target, m.log(m.add(guess, small)))
        of_zeros = m.multiply(m.subtract(one, target), m.log(m.add(m.subtract(one, guess), small)))
        cost = m.negative(m.add(of_ones, of_zeros))
        return compute_weighted_loss(cost, weights, None, loss_collection, reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = _DEFAULT,
) -> Tensor:
    """max(0, 1 - y * logits), with y = -1 for labels of 0 and 1 for those of 1."""
    with name_scope(scope, "hinge_loss"):
        guess, target = _alike(logits, labels)
        one, two = (m.cast(number, guess.dtype) for number in (1.0, 2.0))
        sign = m.subtract(m.multiply(two, target), one)
        cost = m.maximum(m.cast(0.0, guess.dtype), m.subtract(one, m.multiply(sign, guess)))
        return compute_weighted_loss(cost, weights, None, loss_collection, reduction)


def get_losses(scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES) -> list[Tensor]:
    """The costs in the collection."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """The costs of regularizers."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def add_loss(loss: Tensor, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Put a cost in the collection; None puts it nowhere."""
    if loss_collection:
        add_to_collection(loss_collection, loss)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """The sum of the costs of regularizers, 0 if there are none."""
    found = get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)
    return m.add_n(found, name=name) if found else convert_to_tensor(0.0)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Tensor:
    """The sum of all costs in the collections."""
    found = get_losses()
    if add_regularization_losses:
        found += get_collection(GraphKeys.REGULARIZATION_LOSSES)
    if not found:
        raise ValueError("there are no losses")
    return m.add_n(found, name=name)


__getattr__ = _missing(__name__)
