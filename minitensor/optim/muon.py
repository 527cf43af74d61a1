"""Muon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor._functions.offered import addmm, zeros_like
from minitensor.optim import lists
from minitensor.optim.list_optimizer import ListOptimizer, check_number, check_rate, option
from minitensor.optim.optimizer import ParamsT


class Muon(ListOptimizer):
    """Momentum, made orthogonal, for matrices (https://kellerjordan.github.io/posts/muon).

    The average ``b`` of the gradient ``g`` moves by ``1 - momentum``. The update is ``b``, or with ``nesterov`` what is
    ``momentum`` of the way from ``g`` to ``b``, brought near an orthogonal matrix by ``ns_steps`` turns of the
    iteration of Newton and Schulz in bfloat16, with the polynomial of ``ns_coefficients``; it is divided by its norm,
    or by ``eps`` if that is larger.
    The rate is multiplied by ``sqrt(max(1, rows / columns))``, with ``adjust_lr_fn="match_rms_adamw"`` by
    ``0.2 * sqrt(max(rows, columns))``. The weights decay by ``1 - lr * weight_decay``.
    """

    _later_options: ClassVar[dict[str, Any]] = {}
    _kept_numbers = ()
    _refuses_complex = "Muon does not support complex parameters"

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_rate(lr, "Learning rate should be >= 0 but is: {}")
        check_number(0.0, momentum, f"momentum should be >= 0 but is: {momentum}")
        check_number(0.0, weight_decay, f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for param in self._every_param():
            if param.ndim != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                )

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {"momentum_buffer": zeros_like(param.grad)}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, momentum, buffers = option(group, "lr"), option(group, "momentum"), state["momentum_buffer"]
        if any(grad.ndim != 2 for grad in grads):
            raise ValueError("Param gradient must be a 2D matrix")
        lists.lerp_(buffers, grads, 1 - momentum)
        updates = lists.lerp(grads, buffers, momentum) if group["nesterov"] else buffers
        updates = [_orthogonal(u, group["ns_coefficients"], group["ns_steps"], group["eps"]) for u in updates]
        rates = [lr * _adjustment(group["adjust_lr_fn"], *param.shape) for param in params]
        lists.mul_(params, 1 - lr * option(group, "weight_decay"))
        lists.sub_(params, lists.mul([u.to(p.dtype) for u, p in zip(updates, params, strict=True)], rates))


def _orthogonal(matrix: Any, coefficients: Sequence[float], turns: int, eps: float) -> Any:
    """A matrix with the singular vectors of this one, whose singular values are near 1; in bfloat16."""
    if turns >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.bfloat16()
    wide = matrix.size(0) > matrix.size(1)
    x = x.T if wide else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(turns):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if wide else x


def _adjustment(rule: str | None, rows: int, columns: int) -> float:
    return 0.2 * math.sqrt(max(rows, columns)) if rule == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
