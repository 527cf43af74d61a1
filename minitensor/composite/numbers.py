"""Arguments that are numbers."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from minitensor import _C

__all__ = ["check_kind", "number", "whole", "whole_sizes"]


def number(value: Any, function: str, name: str) -> Any:
    """The number that an argument is, or that a tensor of one element holds.

    Raises TypeError for what is no number, as PyTorch does: neither are others than Python's and NumPy's, nor tensors
    that require grad, since a number has no history, so that the gradient would be lost.
    """
    if not isinstance(value, _C.Tensor):
        if type(value) is not float and type(value) is not int and value is not None:
            check_kind(value, "Number", function, name)
        return value
    if value.requires_grad:
        raise TypeError(f"{function}(): argument '{name}' must be Number, not Tensor")
    return value.item()


def check_kind(value: Any, kind: str, function: str, name: str) -> None:
    """Raise TypeError unless an argument is of the kind that is asked for: "bool", "int", "float" or "Number"."""
    if not _C.is_of_kind(kind, value):
        raise TypeError(f"{function}(): argument '{name}' must be {kind}, not {type(value).__name__}")


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
