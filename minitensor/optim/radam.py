"""RAdam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor import _C
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


class RAdam(ListOptimizer):
    """Rectified Adam (Liu et al., 2019, https://arxiv.org/abs/1908.03265).

    With the averages ``m`` and ``v`` of :class:`Adam`, the parameter decreases by ``lr * m / (1 - beta1**step)`` while
    ``v`` is made of too few gradients, and then by as much times ``r * sqrt(1 - beta2**step) / (sqrt(v) + eps)``, where
    ``r`` is the paper's rectification. The other options are as in :class:`Adam`.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_number(0.0, eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {"step": kept(0.0), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, mean, square = option(group, "lr"), state["exp_avg"], state["exp_avg_sq"]
        beta1, beta2, eps = option(group, "betas", 0), option(group, "betas", 1), option(group, "eps")
        steps = lists.count_steps(state["step"])
        decoupled = group["decoupled_weight_decay"]
        if decoupled and group["weight_decay"] != 0:
            lists.mul_(params, 1 - lr * option(group, "weight_decay"))
        grads = descent(group, params, grads, decay=not decoupled)
        lists.lerp_(mean, grads, 1 - beta1)
        lists.mul_(square, beta2)
        lists.addcmul_(square, grads, grads, 1 - beta2)
        longest = 2 / (1 - beta2) - 1  # of the averages' lengths

        def length(step: Any) -> Any:
            return longest - 2 * step * (beta2**step) / (1 - beta2**step)

        def rectified(step: Any) -> Any:
            rho = length(step)
            return ((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho)) ** 0.5

        enough = lists.numbers(lambda step: _C.number_exceeds(length(step), 5.0), steps)
        for does in (True, False):
            every = enough if isinstance(enough, list) else [enough] * len(steps)
            at = [i for i, is_long in enumerate(every) if is_long == does]
            if not at:
                continue
            counts = tuple(steps[i] for i in at)
            update = lists.div([mean[i] for i in at], lists.numbers(lambda step: 1 - beta1**step, counts))
            update = lists.mul(update, lr)
            if does:
                scale = lists.add(lists.sqrt([square[i] for i in at]), eps)
                factors = lists.numbers(lambda step: (1 - beta2**step) ** 0.5 * rectified(step), counts)
                update = lists.mul(lists.div(update, scale), factors)
            lists.sub_([params[i] for i in at], update)
