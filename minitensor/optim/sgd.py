"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import minitensor as mt
from minitensor import _C
from minitensor.optim.optimizer import Optimizer


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if it is not zero.

    With gradient ``g`` (its negative if ``maximize``), increased by ``weight_decay * param``, the momentum buffer
    starts as ``g`` and becomes ``momentum * buffer + (1 - dampening) * g``; the parameter decreases by ``lr * buffer``,
    or, with ``nesterov``, by ``lr * (g + momentum * buffer)``.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        for what, value in (("learning rate", lr), ("momentum value", momentum), ("weight_decay value", weight_decay)):
            if not value >= 0.0:  # NaN too
                raise ValueError(f"Invalid {what}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return what ``closure`` returned."""
        loss = None
        if closure is not None:
            with mt.enable_grad():
                loss = closure()
        with mt.no_grad():
            for group in self.param_groups:
                self._update(group)
        self._end_step()
        return loss

    def _update(self, group: dict[str, Any]) -> None:
        number = _C.bound_number
        lr = number(group, "lr")
        decay = number(group, "weight_decay") if group["weight_decay"] != 0 else None
        momentum = number(group, "momentum") if group["momentum"] != 0 else None
        fresh = 1 - number(group, "dampening") if group["dampening"] != 0 else None
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if group["maximize"]:
                grad = -grad
            if decay is not None:
                grad = grad + param * decay
            if momentum is not None:
                state = self.state[param]
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = state["momentum_buffer"] = grad.detach().clone()
                else:
                    buffer.mul_(momentum).add_(grad if fresh is None else grad * fresh)
                grad = grad + buffer * momentum if group["nesterov"] else buffer
            param -= grad * lr
