"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor._C import Tensor
from minitensor.optim import lists
from minitensor.optim.list_optimizer import ListOptimizer, check_fused, check_number, check_rate, descent, option
from minitensor.optim.optimizer import ParamsT


class SGD(ListOptimizer):
    """Stochastic gradient descent, with momentum if it is not zero.

    With gradient ``g`` (its negative if ``maximize``), increased by ``weight_decay * param``, the momentum buffer
    starts as ``g`` and becomes ``momentum * buffer + (1 - dampening) * g``; the parameter decreases by ``lr * buffer``,
    or, with ``nesterov``, by ``lr * (g + momentum * buffer)``.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False,
    }  # fmt: skip
    _splits_complex = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_number(0.0, momentum, f"Invalid momentum value: {momentum}")
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
            "fused": fused,
        }  # fmt: skip
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _has_state(self, group: dict[str, Any]) -> bool:
        return bool(group["momentum"] != 0)

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        grads = descent(group, params, grads)
        if group["momentum"] != 0:
            grads = self._averaged(group, grads, state.states)
            if group["differentiable"]:  # the next step writes to the buffers
                grads = lists.clone(grads)
        lists.sub_(params, lists.mul(grads, option(group, "lr")))

    def _update_sparse(self, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]) -> None:
        from minitensor.optim import sparse_updates

        sparse_updates.sgd(group, param, grad, state)

    def _averaged(self, group: dict[str, Any], grads: Sequence[Any], states: list[dict[str, Any]]) -> Sequence[Any]:
        old = [at for at, state in enumerate(states) if state.get("momentum_buffer") is not None]
        momentum = option(group, "momentum")
        if old:
            buffers, now = [states[at]["momentum_buffer"] for at in old], [grads[at] for at in old]
            lists.mul_(buffers, momentum)
            fresh = lists.mul(now, 1 - option(group, "dampening")) if group["dampening"] != 0 else now
            lists.add_(buffers, fresh)
        for state, grad in zip(states, grads, strict=True):
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = grad.detach().clone()
        buffers = [state["momentum_buffer"] for state in states]
        return lists.add(grads, lists.mul(buffers, momentum)) if group["nesterov"] else buffers
