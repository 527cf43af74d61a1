"""Rprop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import full_like, zeros_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import ListOptimizer, check_rate, kept, option
from minitensor.optim.optimizer import ParamsT


class Rprop(ListOptimizer):
    """Resilient backpropagation (Riedmiller and Braun, 1993, https://doi.org/10.1109/ICNN.1993.298623).

    Each element has a step size, which begins as ``lr``. It is multiplied by the second of ``etas`` if the gradient has
    the sign of the last one, by the first if it has the other sign, which then counts as no gradient; it stays within
    ``step_sizes``. The parameter decreases by the step size times the gradient's sign.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        lr = float(group["lr"])
        size = full_like(param, complex(lr, lr) if param.is_complex() else lr, requires_grad=False)
        return {"step": kept(0.0), "prev": zeros_like(param), "step_size": size}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        before, sizes = state["prev"], state["step_size"]
        lists.count_steps(state["step"])
        option(group, "lr")  # schedules change it, which means nothing after the first step
        if group["maximize"]:
            grads = lists.neg(grads)
        agreement = lists.mul(grads, lists.clone(before) if group["differentiable"] else before)
        turned = lists.less(agreement, 0.0)
        other = lists.where(turned, lists.mul(sizes, option(group, "etas", 0)), sizes)
        longer = lists.mul(sizes, option(group, "etas", 1))
        lists.copy_(sizes, lists.where(lists.greater(agreement, 0.0), longer, other))
        lists.clamp_(sizes, *group["step_sizes"])
        grads = lists.where(turned, 0.0, grads)
        lists.sub_(params, lists.mul(lists.sign(grads), sizes))
        lists.copy_(before, grads)
