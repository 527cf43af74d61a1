"""Adagrad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor._C import Tensor
from minitensor._functions.offered import full_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import (
    ListOptimizer,
    check_fused,
    check_number,
    check_rate,
    descent,
    kept,
    option,
)
from minitensor.optim.optimizer import ParamsT


class Adagrad(ListOptimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011, https://jmlr.org/papers/v12/duchi11a.html).

    With gradient ``g``, the sum ``s`` of ``g * g``, which begins as ``initial_accumulator_value``, makes the parameter
    decrease by ``lr / (1 + (step - 1) * lr_decay) * g / (sqrt(s) + eps)``. The other options are as in :class:`Adam`.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_number(0.0, lr_decay, f"Invalid lr_decay value: {lr_decay}")
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        check_number(
            0.0, initial_accumulator_value, f"Invalid initial_accumulator_value value: {initial_accumulator_value}"
        )
        check_number(0.0, eps, f"Invalid epsilon value: {eps}")
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = self._first_state(group, param)

    def share_memory(self) -> None:
        """Move the sums to memory that is shared with other processes."""
        for param in self._every_param():
            self.state[param]["sum"].share_memory_()

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        first = self.defaults["initial_accumulator_value"]
        return {
            "step": kept(0.0),
            "sum": full_like(param, complex(first, first) if param.is_complex() else first, requires_grad=False),
        }

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, decay, sums = option(group, "lr"), option(group, "lr_decay"), state["sum"]
        steps = lists.count_steps(state["step"])
        grads = descent(group, params, grads)
        lists.addcmul_(sums, grads, grads, 1.0)
        scale = lists.sqrt(sums)
        if group["differentiable"]:  # the gradient of the root reads its result
            scale = lists.add(scale, option(group, "eps"))
        else:
            lists.add_(scale, option(group, "eps"))
        rates = lists.numbers(lambda step: -(lr / (1 + (step - 1) * decay)), steps)
        lists.addcdiv_(params, grads, scale, rates)

    def _update_sparse(self, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]) -> None:
        from minitensor.optim import sparse_updates

        (step,) = lists.count_steps([state["step"]])
        sparse_updates.adagrad(group, param, grad, state, step)
