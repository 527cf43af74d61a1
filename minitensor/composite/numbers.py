"""Arguments that are numbers."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from minitensor import _C

__all__ = ["number", "whole", "whole_sizes"]


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


def whole(value: Any, function: str, name: str) -> int:
    """The int that an argument is, or that a tensor of one integer holds.

    TypeError for all else, so that nothing behind the point is dropped, and no gradient.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{function}(): argument '{name}' must be int, not {type(value).__name__}") from None


def whole_sizes(values: Iterable[Any], function: str, name: str) -> tuple[int, ...]:
    """The ints that an argument of several has; TypeError if one of them isn't."""
    values = tuple(values)
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        wrong = next(v for v in values if not hasattr(type(v), "__index__") or isinstance(v, _C.Tensor))
        raise TypeError(
            f"{function}(): argument '{name}' must be tuple of ints, but found element of type {type(wrong).__name__}"
        ) from None
