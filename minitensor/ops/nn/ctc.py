"""The loss of connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops.row import index

__all__: list[str] = []


def _backward_vjp() -> Any:
    raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")


def _ctc_vjp(
    g: Any, _out: Any, x: Any, targets: Any, times: Any, counts: Any, blank: int, zero_infinity: bool
) -> tuple[Any, None, None, None]:
    return ctc_loss_backward(g, x, targets, times, counts, blank, zero_infinity), None, None, None


_LABELS = "Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, bool zero_infinity"

ctc_loss: _C.Op = index(
    f"_ctc_loss(Tensor log_probs, {_LABELS})",
    "The negative log-likelihood [N] of the targets, summed over their alignments with log_probs [T, N, classes]. "
    "zero_infinity is for the gradient, which is that of what log_probs is the log-softmax of.",
    vjp=_ctc_vjp, function=False, method=False,
)  # fmt: skip
ctc_loss_backward: _C.Op = index(
    f"_ctc_loss_backward(Tensor grad, Tensor log_probs, {_LABELS})",
    "The gradient of _ctc_loss with respect to log_probs; as PyTorch's it can't be differentiated.",
    vjp=lambda _g, _out, _grad, _x, _targets, _times, _counts, *_more: _backward_vjp(), function=False, method=False,
)  # fmt: skip
