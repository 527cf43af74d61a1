"""Adafactor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import lerp, norm, where, zeros_like
from minitensor.dtypes import finfo
from minitensor.optim import lists
from minitensor.optim.list_optimizer import ListOptimizer, check_number, check_rate, kept, option
from minitensor.optim.optimizer import ParamsT


class Adafactor(ListOptimizer):
    """Adafactor (Shazeer and Stern, 2018, https://arxiv.org/abs/1804.04235).

    The average of the squared gradient of a matrix, or of the matrices in the last two dimensions, is kept as those of
    its rows and of its columns. It moves by ``step**beta2_decay``. ``eps`` is a least root of that average (None: the
    dtype's epsilon) and a least scale of a parameter; ``d`` is the largest root mean square of an update before it is
    multiplied by the scale and by ``min(lr, 1 / sqrt(step))``. The weights decay by ``1 - lr * weight_decay``.
    """

    _later_options: ClassVar[dict[str, Any]] = {"foreach": None}
    _refuses_complex = "Adafactor does not support complex parameters"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_rate(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            check_number(0.0, eps[0], f"epsilon1 should be >= 0 but is: {eps[0]}")
        check_number(0.0, eps[1], f"epsilon2 should be >= 0 but is: {eps[1]}")
        check_number(1.0, d, f"Clipping threshold d should be >= 1 but is: {d}")
        check_number(0.0, weight_decay, f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        grad = param.grad
        if grad.ndim <= 1:
            return {"step": kept(0.0), "variance": zeros_like(grad)}
        rows, columns = list(grad.shape), list(grad.shape)
        rows[-1] = columns[-2] = 1
        return {"step": kept(0.0), "row_var": grad.new_zeros(rows), "col_var": grad.new_zeros(columns)}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: Any) -> None:
        lr, power = option(group, "lr"), option(group, "beta2_decay")
        if isinstance(lr, Tensor):
            lr = lr.item()
        steps = lists.count_steps(state["step"])
        if group["maximize"]:
            grads = lists.neg(grads)
        moves = lists.numbers(lambda step: step**power, steps)
        rates = lists.numbers(lambda step: _C.least_number(lr, 1 / (step**0.5)), steps)
        scales = lists.mul([_at_least(_mean_root(param), option(group, "eps", 1)) for param in params], rates)
        if group["weight_decay"] != 0:
            lists.mul_(params, 1 - lr * option(group, "weight_decay"))
        updates = []
        for at, (grad, of_param) in enumerate(zip(grads, state.states, strict=True)):
            least = group["eps"][0] if group["eps"][0] is not None else finfo(params[at].dtype).eps
            move = moves[at] if isinstance(moves, list) else moves
            updates.append(_variance(grad, of_param, move, least).clamp_(min=least * least).rsqrt_().mul_(grad))
        sizes = lists.div([_mean_root(update) for update in updates], option(group, "d"))
        lists.sub_(params, lists.mul(updates, lists.div(scales, [_at_least(size, 1.0) for size in sizes])))


def _variance(grad: Any, state: dict[str, Any], move: Any, least: float) -> Any:
    """Move the averages of the squared gradient; what they say of each element."""
    if grad.ndim <= 1:
        return lerp(state["variance"], grad * grad, move, out=state["variance"]).clone()
    rows, columns = state["row_var"], state["col_var"]
    rows.lerp_(norm(grad, dim=-1, keepdim=True).square_().div_(grad.size(-1)), move)
    columns.lerp_(norm(grad, dim=-2, keepdim=True).square_().div_(grad.size(-2)), move)
    return (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=least))


def _mean_root(tensor: Any) -> Any:
    """The root of the mean square, as float64, without dimensions."""
    return tensor.norm(2).double() / tensor.numel() ** 0.5


def _at_least(tensor: Any, lowest: Any) -> Any:
    return where(tensor > lowest, tensor, lowest)
