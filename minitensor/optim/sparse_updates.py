"""Updates by sparse gradients: only of what they have elements for."""

from __future__ import annotations

import math
from typing import Any

from minitensor.autograd import no_grad
from minitensor.sparse.coalesce import coalesce
from minitensor.sparse.elementwise import add, add_to_dense_, multiply
from minitensor.sparse.masks import at_places
from minitensor.sparse.tensor import build, elements_of

__all__ = ["adagrad", "adam", "sgd"]


def _signed(grad: Any, maximize: bool) -> Any:
    return multiply(grad, -1) if maximize else grad


def _no_decay(group: dict[str, Any]) -> None:
    if group["weight_decay"] != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")


def sgd(group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]) -> None:
    """A step of SGD. The momentum buffer is sparse, too."""
    _no_decay(group)
    grad = _signed(grad, group["maximize"])
    if group["momentum"] != 0:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = build(grad._pattern, elements_of(grad).clone())
        else:
            buffer = add(multiply(buffer, group["momentum"]), grad, alpha=1 - group["dampening"])
        state["momentum_buffer"] = buffer
        grad = add(grad, buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
    add_to_dense_(param, grad, alpha=-group["lr"])


def adagrad(group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any], step: float) -> None:
    """A step of Adagrad: the sums grow where the gradient has elements."""
    _no_decay(group)
    rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
    grad = coalesce(_signed(grad, group["maximize"]))  # the update is not linear
    values, pattern = elements_of(grad), grad._pattern
    add_to_dense_(state["sum"], build(pattern, values * values))
    root = at_places(state["sum"], pattern).sqrt() + group["eps"]
    add_to_dense_(param, build(pattern, values / root), alpha=-rate)


def adam(group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]) -> None:
    """A step of SparseAdam: moments and parameters change where the gradient has elements."""
    beta1, beta2 = group["betas"]
    step = state["step"]
    grad = coalesce(_signed(grad, group["maximize"]))
    values, pattern = elements_of(grad), grad._pattern
    if not values.numel():
        return
    old = at_places(state["exp_avg"], pattern)
    change = (values - old) * (1 - beta1)
    add_to_dense_(state["exp_avg"], build(pattern, change))
    old_square = at_places(state["exp_avg_sq"], pattern)
    change_of_square = (values * values - old_square) * (1 - beta2)
    add_to_dense_(state["exp_avg_sq"], build(pattern, change_of_square))
    mean, square = change + old, change_of_square + old_square
    size = group["lr"] * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    with no_grad():
        add_to_dense_(param, build(pattern, mean / (square.sqrt() + group["eps"]) * -size))
