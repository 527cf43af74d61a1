"""Functions on tensors that are neither ops nor composed of them."""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["is_tensor", "typename"]

Tensor = _C.Tensor


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


def typename(obj: Any, /) -> str:
    """The name of an object's type, or of a class, with its module: of a tensor that of its old constructor."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    return str(named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}")
