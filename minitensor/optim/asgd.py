"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import zeros_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import ListOptimizer, check_number, check_rate, descent, kept, option
from minitensor.optim.optimizer import ParamsT


class ASGD(ListOptimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992, https://doi.org/10.1137/0330046).

    With gradient ``g``, the parameter is multiplied by ``1 - lambd * eta`` and decreases by ``eta * g``, where ``eta``
    begins as ``lr`` and becomes ``lr / (1 + lambd * lr * step)**alpha``. The average ``ax`` in the state moves towards
    the parameter by ``mu``, which begins as 1 and becomes ``1 / max(1, step - t0)``. The other options are as in
    :class:`Adam`.
    """

    _kept_numbers = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {
            "step": kept(0.0), "eta": kept(float(group["lr"])), "mu": kept(1.0), "ax": zeros_like(param),
        }  # fmt: skip

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, shrink, power = option(group, "lr"), option(group, "lambd"), option(group, "alpha")
        if isinstance(lr, Tensor):
            lr = lr.item()
        start = option(group, "t0")
        steps = lists.count_steps(state["step"])
        grads = descent(group, params, grads)
        etas = state.numbers("eta")
        lists.mul_(params, lists.numbers(lambda eta: 1 - shrink * eta, etas))
        lists.sub_(params, lists.mul(grads, lists.numbers(lambda eta: eta, etas)))
        self._average(params, state["ax"], state.numbers("mu"))
        # Both become tensors of the default dtype first.
        dtype = kept(0.0).dtype

        def eta_after(step: Any) -> Any:
            return _C.rounded_number(lr / ((1 + shrink * lr * step) ** power), dtype)

        def mu_after(step: Any) -> Any:
            return _C.rounded_number(1 / _C.greatest_number(1.0, step - start), dtype)

        state.keep("eta", lists.numbers(eta_after, steps))
        state.keep("mu", lists.numbers(mu_after, steps))

    @staticmethod
    def _average(params: Sequence[Any], averages: Sequence[Any], weights: Sequence[Any]) -> None:
        moved = [_C.number_exceeds(1.0, weight) for weight in weights]
        for moves in (False, True):
            at = [i for i, does in enumerate(moved) if does == moves]
            if not at:
                continue
            now, average = [params[i] for i in at], [averages[i] for i in at]
            if moves:
                towards = lists.sub(now, average)
                lists.add_(average, lists.mul(towards, lists.numbers(lambda weight: weight, [weights[i] for i in at])))
            else:
                lists.copy_(average, now)
