"""Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import zeros_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import ListOptimizer, check_number, check_rate, descent, kept, option
from minitensor.optim.optimizer import ParamsT


class Adadelta(ListOptimizer):
    """Adadelta (Zeiler, 2012, https://arxiv.org/abs/1212.5701).

    With gradient ``g``, the average ``v`` of ``g * g`` decays by ``rho``; the step is
    ``d = sqrt(u + eps) / sqrt(v + eps) * g``, where ``u`` is the average of ``d * d`` so far, and the parameter
    decreases by ``lr * d``. The other options are as in :class:`Adam`.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_number(0.0, eps, f"Invalid epsilon value: {eps}")
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {"step": kept(0.0), "square_avg": zeros_like(param), "acc_delta": zeros_like(param)}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        rho, eps, square, sum_of_steps = (
            option(group, "rho"),
            option(group, "eps"),
            state["square_avg"],
            state["acc_delta"],
        )
        lists.count_steps(state["step"])
        grads = descent(group, params, grads)
        lists.mul_(square, rho)
        lists.addcmul_(square, grads, grads, 1 - rho)
        steps = lists.sqrt(lists.add(sum_of_steps, eps))
        steps = lists.div(steps, lists.sqrt(lists.add(square, eps)))
        if group["differentiable"]:
            steps = lists.mul(steps, grads)
        else:
            lists.mul_(steps, grads)
        lists.mul_(sum_of_steps, rho)
        lists.addcmul_(sum_of_steps, steps, steps, 1 - rho)
        lists.sub_(params, lists.mul(steps, option(group, "lr")))
