"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import minitensor as mt
from minitensor import _C
from minitensor.ops import ROWS
from minitensor.optim.optimizer import Optimizer

_lerp_ = _C.inplace_form(ROWS["lerp"].call)
_addcmul_ = _C.inplace_form(ROWS["addcmul"].call)
_addcdiv_ = _C.inplace_form(ROWS["addcdiv"].call)


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980), by PyTorch's formula.

    With gradient ``g`` (its negative if ``maximize``), increased by ``weight_decay * param``, or, with
    ``decoupled_weight_decay``, after the parameter has been multiplied by ``1 - lr * weight_decay``: the averages
    ``m`` of ``g`` and ``v`` of ``g * g`` decay by ``betas``; the parameter decreases by
    ``lr / (1 - beta1**step) * m / (sqrt(v) / sqrt(1 - beta2**step) + eps)``. With ``amsgrad`` the largest ``v`` so far
    takes the place of ``v``.

    ``foreach``, ``fused`` and ``capturable`` choose among PyTorch's implementations; here there is one.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        for what, value in (("learning rate", lr), ("epsilon value", eps), ("weight_decay value", weight_decay)):
            if not value >= 0.0:  # NaN too
                raise ValueError(f"Invalid {what}: {value}")
        for number, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {number}: {beta}")
        if differentiable:
            raise NotImplementedError(f"{type(self).__name__}: differentiable=True is not supported")
        defaults = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
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
        lr, eps = number(group, "lr"), number(group, "eps")
        beta1, beta2 = number(group, "betas", 0), number(group, "betas", 1)
        decay = number(group, "weight_decay") if group["weight_decay"] != 0 else None
        decoupled = group["decoupled_weight_decay"]
        keep = 1 - lr * decay if decay is not None and decoupled else None
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            state = self.state[param]
            if not state:
                state["step"] = mt.tensor(0.0)
                state["exp_avg"] = mt.zeros_like(param)
                state["exp_avg_sq"] = mt.zeros_like(param)
                if group["amsgrad"]:
                    state["max_exp_avg_sq"] = mt.zeros_like(param)
            if group["maximize"]:
                grad = -grad
            step = _C.count_step(state["step"])
            if keep is not None:
                param *= keep
            elif decay is not None:
                grad = grad + param * decay
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            _lerp_(mean, grad, 1 - beta1)
            square *= beta2
            _addcmul_(square, grad, grad, 1 - beta2)
            if group["amsgrad"]:
                square = mt.maximum(state["max_exp_avg_sq"], square, out=state["max_exp_avg_sq"])
            scale = square.sqrt()
            scale /= (1 - beta2**step) ** 0.5
            scale += eps
            rate = lr / (1 - beta1**step)
            if isinstance(rate, mt.Tensor):
                param -= mean / scale * rate
            else:
                _addcdiv_(param, mean, scale, -rate)


class AdamW(Adam):
    """Adam with a decay of the weights apart from the gradients (https://arxiv.org/abs/1711.05101)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
