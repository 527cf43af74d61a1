"""Arguments that are numbers."""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["number"]


def number(value: Any, function: str, name: str) -> Any:
    """The number that an argument is, or that a tensor of one element holds.

    Raises TypeError for a tensor that requires grad, as PyTorch does: a number has no history, so that the gradient
    would be lost.
    """
    if not isinstance(value, _C.Tensor):
        return value
    if value.requires_grad:
        raise TypeError(f"{function}(): argument '{name}' must be Number, not Tensor")
    return value.item()
