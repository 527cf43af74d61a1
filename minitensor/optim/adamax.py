"""Adamax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import zeros_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import (
    ListOptimizer,
    check_betas,
    check_number,
    check_rate,
    descent,
    kept,
    option,
)
from minitensor.optim.optimizer import ParamsT


class Adamax(ListOptimizer):
    """Adamax (Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980).

    With gradient ``g``, the average ``m`` of ``g`` decays by the first of ``betas``, and
    ``u = max(beta2 * u, abs(g) + eps)``; the parameter decreases by ``lr / (1 - beta1**step) * m / u``. The other
    options are as in :class:`Adam`.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_number(0.0, eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {"step": kept(0.0), "exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, mean, largest = option(group, "lr"), state["exp_avg"], state["exp_inf"]
        beta1, beta2 = option(group, "betas", 0), option(group, "betas", 1)
        steps = lists.count_steps(state["step"])
        grads = descent(group, params, grads)
        lists.lerp_(mean, grads, 1 - beta1)
        sizes = lists.add(lists.absolute(grads), option(group, "eps"))
        lists.copy_(largest, lists.maximum(lists.mul(largest, beta2), sizes))
        if group["differentiable"]:  # the next step writes to what gradients read
            mean, largest = lists.clone(mean), lists.clone(largest)
        lists.addcdiv_(params, mean, largest, lists.numbers(lambda step: -(lr / (1 - beta1**step)), steps))
