"""Functions on tensors that are composed of ops, and ops under PyTorch's other names."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops import ROWS

__all__ = ["is_tensor", "max", "mean", "min", "numel", "sort", "std", "unique", "var"]

Tensor = _C.Tensor


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Any) -> int:
    """The number of elements."""
    return int(input.numel())


def max(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; along dim, values and indices; or elementwise against another tensor."""
    return input.max(dim, keepdim)


def min(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; along dim, values and indices; or elementwise against another tensor."""
    return input.min(dim, keepdim)


mean = ROWS["mean"].call


def _as_function(name: str) -> Any:
    method = getattr(Tensor, name)

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return method(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


sort = _as_function("sort")
std = _as_function("std")
unique = _as_function("unique")
var = _as_function("var")
