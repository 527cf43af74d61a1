"""What the functions share: sizes given as one number or several, and the reduction of losses."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from minitensor._C import Tensor
from minitensor._warning import warn
from minitensor.composite.dims import is_int
from minitensor.composite.numbers import whole_sizes

__all__ = ["REDUCTIONS", "ntuple", "reduced", "reduction_of", "spatial"]

REDUCTIONS = ("none", "mean", "sum")


def ntuple(value: Any, count: int, name: str, what: str = "") -> tuple[int, ...]:
    """Return `value` as `count` ints: one for all, or as many."""
    if is_int(value):
        return (operator.index(value),) * count
    if isinstance(value, Tensor):
        value = value.tolist()
        if isinstance(value, int):
            return (value,) * count
    if not isinstance(value, Sequence):
        raise TypeError(f"{what}(): argument '{name}' must be tuple of ints, not {type(value).__name__}")
    values = whole_sizes(value, what, name)
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise RuntimeError(f"{what}: {name} must either be a single int, or a tuple of {count} ints")
    return values


def spatial(input: Tensor, rank: int, what: str) -> tuple[Tensor, bool]:
    """Return the input with a batch dimension, and whether it had one."""
    if input.dim() == rank + 2:
        return input, True
    if input.dim() == rank + 1:
        return input.unsqueeze(0), False
    where = "" if what.startswith("conv") else f"{what}(): "  # PyTorch's convolutions are named once
    raise RuntimeError(
        f"{where}Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {what}, but got input of size: "
        f"{list(input.shape)}"
    )


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that PyTorch's deprecated two switches stand for, or else `reduction`."""
    if size_average is None and reduce is None:
        return reduction
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    meant = "none" if not reduce else "mean" if size_average else "sum"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.")
    return meant


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Return the losses, or their mean or sum."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"{reduction} is not a valid value for reduction")
