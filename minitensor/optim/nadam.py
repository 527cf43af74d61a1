"""NAdam."""

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


class NAdam(ListOptimizer):
    """Adam with Nesterov's momentum (Dozat, 2016, https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ).

    With gradient ``g`` and the averages ``m`` and ``v`` of :class:`Adam`, ``mu(t)`` is
    ``beta1 * (1 - 0.96**(t * momentum_decay) / 2)``, and ``M(t)`` the product of all so far; the parameter decreases by
    ``lr * ((1 - mu(t)) / (1 - M(t)) * g + mu(t + 1) / (1 - M(t + 1)) * m) / (sqrt(v / (1 - beta2**t)) + eps)``. The
    other options are as in :class:`Adam`.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip
    _kept_numbers = ("step", "mu_product")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_number(0.0, momentum_decay, f"Invalid momentum_decay value: {momentum_decay}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {
            "step": kept(0.0), "mu_product": kept(1.0), "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }  # fmt: skip

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, slowing, mean, square = (
            option(group, "lr"),
            option(group, "momentum_decay"),
            state["exp_avg"],
            state["exp_avg_sq"],
        )
        beta1, beta2 = option(group, "betas", 0), option(group, "betas", 1)
        steps = lists.count_steps(state["step"])
        decoupled, traced = group["decoupled_weight_decay"], group["differentiable"]
        if decoupled and group["weight_decay"] != 0:
            lists.mul_(params, 1 - lr * option(group, "weight_decay"))
        grads = descent(group, params, grads, decay=not decoupled)

        def mu(step: Any) -> Any:
            return beta1 * (1.0 - 0.5 * (0.96 ** (step * slowing)))

        # As the product of a tensor that keeps a number with another number.
        dtype = state.states[0]["mu_product"].dtype
        state.keep(
            "mu_product",
            lists.numbers(
                lambda old, step: old * _C.rounded_number(mu(step), dtype), state.numbers("mu_product"), steps
            ),
        )
        products = state.numbers("mu_product")
        lists.lerp_(mean, grads, 1 - beta1)
        lists.mul_(square, beta2)
        lists.addcmul_(square, grads, grads, 1 - beta2)
        scale = lists.sqrt(lists.div(square, lists.numbers(lambda step: 1 - beta2**step, steps)))
        if traced:  # the gradient of the root reads its result, and the next step writes to the mean
            scale, mean = lists.add(scale, option(group, "eps")), lists.clone(mean)
        else:
            lists.add_(scale, option(group, "eps"))
        of_grad = lists.numbers(lambda step, done: -lr * (1.0 - mu(step)) / (1.0 - done), steps, products)
        of_mean = lists.numbers(lambda step, done: (-lr * mu(step + 1)) / (1.0 - done * mu(step + 1)), steps, products)
        lists.addcdiv_(params, grads, scale, of_grad)
        lists.addcdiv_(params, mean, scale, of_mean)
