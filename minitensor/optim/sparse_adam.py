"""SparseAdam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor._C import Tensor
from minitensor._functions.offered import zeros_like
from minitensor.optim.list_optimizer import ListOptimizer, check_betas
from minitensor.optim.optimizer import ParamsT


class SparseAdam(ListOptimizer):
    """Adam for sparse gradients: moments and parameters change only where a gradient has elements.

    The formulas are those of :class:`Adam`, with `step` counting all steps. RuntimeError for a dense gradient.
    """

    _later_options: ClassVar[dict[str, Any]] = {}
    _kept_numbers = ()
    _splits_complex = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        complex_params = [
            [number, place]
            for number, group in enumerate(self.param_groups)
            for place, param in enumerate(group["params"])
            if param.is_complex()
        ]
        if complex_params:
            raise ValueError(
                f"Complex params at indices {complex_params}: SparseAdam does not support complex parameters"
            )

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {"step": 0, "exp_avg": zeros_like(param.detach()), "exp_avg_sq": zeros_like(param.detach())}

    def _update_sparse(self, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]) -> None:
        from minitensor.optim import sparse_updates

        state["step"] += 1
        sparse_updates.adam(group, param, grad, state)

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
