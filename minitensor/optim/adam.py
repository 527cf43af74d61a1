"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor._C import Tensor
from minitensor._functions.offered import zeros_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import (
    ListOptimizer,
    check_betas,
    check_fused,
    check_number,
    check_rate,
    descent,
    kept,
    option,
)
from minitensor.optim.optimizer import ParamsT


class Adam(ListOptimizer):
    """Adam (Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980), by PyTorch's formula.

    With gradient ``g`` (its negative if ``maximize``), increased by ``weight_decay * param``, or, with
    ``decoupled_weight_decay``, after the parameter has been multiplied by ``1 - lr * weight_decay``: the averages
    ``m`` of ``g`` and ``v`` of ``g * g`` decay by ``betas``; the parameter decreases by
    ``lr / (1 - beta1**step) * m / (sqrt(v) / sqrt(1 - beta2**step) + eps)``. With ``amsgrad`` the largest ``v`` so far
    takes the place of ``v``.

    ``lr`` and ``betas`` may be tensors of one element. ``foreach``, ``fused`` and ``capturable`` choose among
    PyTorch's implementations; here there is one. With ``differentiable`` gradients flow through a step.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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
        alone = foreach and not capturable
        if isinstance(lr, Tensor) and alone:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_rate(lr)
        check_number(0.0, eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check_number(0.0, weight_decay, f"Invalid weight_decay value: {weight_decay}")
        if not any(all(isinstance(beta, kind) for beta in betas) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")
        for number, beta in enumerate(betas):
            if not isinstance(beta, Tensor):
                continue
            if alone:
                raise ValueError(f"betas[{number}] as a Tensor is not supported for capturable=False and foreach=True")
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{number}] must be 1-element")
        betas = tuple(beta.squeeze() if isinstance(beta, Tensor) else beta for beta in betas)  # type: ignore[assignment]
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * bool(group["amsgrad"])
        return {"step": kept(0.0), **{name: zeros_like(param) for name in names}}

    def _update_sparse(self, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]) -> None:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, eps = option(group, "lr"), option(group, "eps")
        beta1, beta2 = option(group, "betas", 0), option(group, "betas", 1)
        decoupled, traced = group["decoupled_weight_decay"], group["differentiable"]
        steps = lists.count_steps(state["step"])
        if decoupled and group["weight_decay"] != 0:
            lists.mul_(params, 1 - lr * option(group, "weight_decay"))
        grads = descent(group, params, grads, decay=not decoupled)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        lists.lerp_(mean, grads, 1 - beta1)
        lists.mul_(square, beta2)
        lists.addcmul_(square, grads, grads, 1 - beta2)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            if traced:  # the gradient of the maximum reads both
                square = lists.clone(square)
            lists.copy_(largest, lists.maximum(lists.clone(largest) if traced else largest, square))
            square = largest
        scale = lists.sqrt(square)
        corrections = lists.numbers(lambda step: (1 - beta2**step) ** 0.5, steps)
        if traced:  # the gradient of the root reads its result
            scale, mean = lists.div(scale, corrections), lists.clone(mean)
        else:
            lists.div_(scale, corrections)
        lists.add_(scale, eps)
        lists.addcdiv_(params, mean, scale, lists.numbers(lambda step: -(lr / (1 - beta1**step)), steps))


class AdamW(Adam):
    """Adam with a decay of the weights apart from the gradients (https://arxiv.org/abs/1711.05101)."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
