"""RMSprop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor._C import Tensor
from minitensor._functions.offered import zeros_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import ListOptimizer, check_number, check_rate, descent, kept, option
from minitensor.optim.optimizer import ParamsT


class RMSprop(ListOptimizer):
    """RMSprop (Hinton's lecture 6 of "Neural Networks for Machine Learning"; centered: https://arxiv.org/abs/1308.0850).

    With gradient ``g``, the average ``v`` of ``g * g`` decays by ``alpha``; the parameter decreases by
    ``lr * g / (sqrt(v) + eps)``. With ``centered`` the square of the average of ``g`` is subtracted from ``v``. With
    ``momentum`` the parameter decreases by ``lr * b``, where ``b`` becomes ``momentum * b + g / (sqrt(v) + eps)``. The
    other options are as in :class:`Adam`.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_number(0.0, eps, f"Invalid epsilon value: {eps}")
        check_number(0.0, momentum, f"Invalid momentum value: {momentum}")
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        check_number(0.0, alpha, f"Invalid alpha value: {alpha}")
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * bool(group["centered"])
        return {"step": kept(0.0), **{name: zeros_like(param) for name in names}}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, alpha, square = option(group, "lr"), option(group, "alpha"), state["square_avg"]
        traced = group["differentiable"]
        lists.count_steps(state["step"])
        grads = descent(group, params, grads)
        lists.mul_(square, alpha)
        lists.addcmul_(square, grads, grads, 1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            lists.lerp_(mean, grads, 1 - alpha)
            if traced:  # the next step writes to it
                mean = lists.clone(mean)
            scale = lists.sqrt(lists.addcmul(square, mean, mean, -1.0))
        else:
            scale = lists.sqrt(square)
        if traced:  # the gradient of the root reads its result
            scale = lists.add(scale, option(group, "eps"))
        else:
            lists.add_(scale, option(group, "eps"))
        if group["momentum"] > 0:
            buffers = state["momentum_buffer"]
            lists.mul_(buffers, option(group, "momentum"))
            lists.addcdiv_(buffers, grads, scale, 1.0)
            lists.sub_(params, lists.mul(lists.clone(buffers) if traced else buffers, lr))
        else:
            lists.addcdiv_(params, grads, scale, -lr)
