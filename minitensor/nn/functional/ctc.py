"""The loss of connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, int64
from minitensor._functions.offered import tensor, where
from minitensor.composite import composite
from minitensor.composite.numbers import whole_sizes
from minitensor.composite.registry import autocast
from minitensor.nn.functional.arguments import REDUCTIONS
from minitensor.ops import ROWS

__all__ = ["ctc_loss"]


_loss = ROWS["_ctc_loss"].call


def _lengths(value: Any, name: str) -> Tensor:
    """Return lengths as a vector of int64."""
    if not isinstance(value, Tensor):
        value = tensor(whole_sizes(value if isinstance(value, Sequence) else (value,), "ctc_loss", name), dtype=int64)
    if value.is_floating_point() or value.is_complex() or value.dtype == _C.bool:
        raise RuntimeError(f"{name} must be integral")
    return value.to(int64).reshape(-1)


@autocast("float32", "")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the negative log-likelihood of target sequences, summed over their alignments with the inputs.

    ``log_probs`` is ``[T, N, classes]`` or ``[T, classes]``; ``targets`` is ``[N, S]``, or all targets one after the
    other, of any dtype: whole parts count. "mean" divides by the targets' lengths first. ``zero_infinity`` gives 0 for
    targets that don't fit.
    Graves and others, "Connectionist Temporal Classification" (2006). The gradient is, as PyTorch's, that with respect
    to what ``log_probs`` is the log-softmax of, and can't be differentiated again.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if log_probs.dim() not in (2, 3):
        raise RuntimeError(
            f"Expected 2-dimensional or 3-dimensional tensor, but got {log_probs.dim()}-dimensional tensor for "
            "argument #1 'log_probs' (while checking arguments for ctc_loss)"
        )
    batched = log_probs.dim() == 3
    counts = _lengths(target_lengths, "target_lengths")
    losses: Tensor = _loss(
        log_probs if batched else log_probs.unsqueeze(1),
        targets.to(int64),
        _lengths(input_lengths, "input_lengths"),
        counts,
        blank,
        zero_infinity,
    )
    if zero_infinity:
        losses = where(losses == float("inf"), 0.0, losses)
    if reduction == "mean":
        return (losses / counts.clamp(min=1)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


@composite(method=False, name="ctc_loss")
@autocast("float32", "")
def _torch_ctc(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """Return the CTC loss. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity)
