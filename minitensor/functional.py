"""Functions on tensors that are neither ops nor composed of them."""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["is_tensor", "numel"]

Tensor = _C.Tensor


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Any) -> int:
    """The number of elements."""
    return int(input.numel())
