"""The loss of connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import minitensor as mt
from minitensor.composite import composite
from minitensor.nn.functional.arguments import REDUCTIONS

__all__ = ["ctc_loss"]


def _lengths(value: Any) -> list[int]:
    if isinstance(value, mt.Tensor):
        if value.is_floating_point():
            raise RuntimeError("input_lengths must be integral")
        value = value.tolist()
    return [int(n) for n in value] if isinstance(value, Sequence) else [int(value)]


def ctc_loss(
    log_probs: mt.Tensor,
    targets: mt.Tensor,
    input_lengths: mt.Tensor | Sequence[int],
    target_lengths: mt.Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> mt.Tensor:
    """Return the negative log-likelihood of target sequences, summed over their alignments with the inputs.

    ``log_probs`` is ``[T, N, classes]`` or ``[T, classes]``; ``targets`` is ``[N, S]``, or all targets one after the
    other. "mean" divides by the targets' lengths first. ``zero_infinity`` gives 0 for targets that don't fit.
    Graves and others, "Connectionist Temporal Classification" (2006): the forward variables, in logarithms.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    batched = log_probs.dim() == 3
    logs = log_probs if batched else log_probs.unsqueeze(1)
    steps, count, classes = logs.shape
    times, sizes = _lengths(input_lengths), _lengths(target_lengths)
    if len(times) != count:
        raise RuntimeError("input_lengths must be of size batch_size")
    if len(sizes) != count:
        raise RuntimeError("target_lengths must be of size batch_size")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if targets.dtype not in (mt.int64, mt.int32):
        raise RuntimeError(f"Expected tensor for targets to have type Long or Int; but got {targets.dtype}")
    for n in times:
        if not 0 <= n <= steps:
            raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got value {n}")
    rows = _labels(targets, sizes, batched)
    losses = _losses(logs, rows, times, blank)
    if zero_infinity:
        losses = mt.where(losses == float("inf"), 0.0, losses)
    if reduction == "mean":
        lengths = mt.tensor([max(n, 1) for n in sizes], dtype=losses.dtype)
        return (losses / lengths).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _labels(targets: mt.Tensor, sizes: list[int], batched: bool) -> list[list[int]]:
    values = targets.tolist()
    if targets.dim() == 2 or not batched:
        rows = values if targets.dim() == 2 else [values]
        if targets.dim() == 2 and sizes and max(sizes) > targets.shape[1]:
            raise RuntimeError(
                f"Expected tensor to have size at least {max(sizes)} at dimension 1, but got size {list(targets.shape)}"
            )
        return [row[:n] for row, n in zip(rows, sizes, strict=True)]
    if sum(sizes) != len(values):
        raise RuntimeError(
            f"Expected tensor to have size {sum(sizes)} at dimension 0, but got size {len(values)} for argument targets"
        )
    rows, start = [], 0
    for n in sizes:
        rows.append(values[start : start + n])
        start += n
    return rows


def _losses(logs: mt.Tensor, rows: list[list[int]], times: list[int], blank: int) -> mt.Tensor:
    """Return the loss of every example. All run together; what lies behind an example's end is not looked at."""
    steps, count, _ = logs.shape
    none = float("-inf")
    width = 2 * max((len(r) for r in rows), default=0) + 1
    extended = [[blank if s % 2 == 0 or s // 2 >= len(r) else r[s // 2] for s in range(width)] for r in rows]
    # A label may follow the one before it without a blank between them, unless they are equal.
    jumps = [[s >= 2 and e[s] != blank and e[s] != e[s - 2] for s in range(width)] for e in extended]
    index = mt.tensor(extended, dtype=mt.int64).reshape((count, width))
    may_jump = mt.tensor(jumps, dtype=mt.bool).reshape((count, width))
    emitted = mt.gather(logs, 2, index.unsqueeze(0).expand((steps, count, width)))
    start = mt.tensor([[s == 0 or (s == 1 and len(r) > 0) for s in range(width)] for r in rows], dtype=mt.bool)
    missing = logs.new_full((count, 1), none)
    ended: dict[int, list[int]] = {}
    for n, t in enumerate(times):
        ended.setdefault(t, []).append(n)
    found: list[Any] = [None] * count
    for n in ended.get(0, ()):
        found[n] = logs.new_full((), 0.0 if not rows[n] else float("inf"))
    alpha = emitted.new_full((count, width), none)
    for t in range(steps):
        if t == 0:
            alpha = mt.where(start, emitted[0], none)
        else:
            one = mt.cat([missing, alpha[:, :-1]], 1)
            two = mt.cat([missing, missing, alpha[:, :-2]], 1)[:, :width]
            two = mt.where(may_jump, two, none)
            alpha = _log_sum([alpha, one, two]) + emitted[t]
        for n in ended.get(t + 1, ()):
            last = 2 * len(rows[n])
            ends = [alpha[n, last]] if last == 0 else [alpha[n, last], alpha[n, last - 1]]
            found[n] = -_log_sum(ends)
    return mt.stack(found)


def _log_sum(terms: list[mt.Tensor]) -> mt.Tensor:
    """Return the logarithm of the sum of exponentials; minus infinity, without NaN in gradients, where all are that."""
    largest = terms[0].detach()
    for t in terms[1:]:
        largest = mt.maximum(largest, t.detach())
    empty = largest == float("-inf")
    shift = mt.where(empty, 0.0, largest)
    total: Any = None
    for t in terms:
        e = mt.exp(t - shift)
        total = e if total is None else total + e
    return mt.where(empty, float("-inf"), mt.log(mt.where(empty, 1.0, total)) + shift)


@composite(method=False, name="ctc_loss")
def _torch_ctc(
    log_probs: mt.Tensor,
    targets: mt.Tensor,
    input_lengths: mt.Tensor | Sequence[int],
    target_lengths: mt.Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> mt.Tensor:
    """Return the CTC loss. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity)
