"""`Variable`, by which old programs call tensors."""

from __future__ import annotations

from typing import Any, NoReturn

from minitensor import _C
from minitensor._functions.offered import empty
from minitensor._warning import warn

__all__ = ["Variable", "variable"]


class _IsTensor(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor)


class Variable(metaclass=_IsTensor):
    """Every tensor is one. A call returns a tensor that shares the memory of another, without its history."""

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        """A tensor with `data`, or an empty one; TypeError if it is no tensor. `volatile` was removed from PyTorch."""
        if volatile:
            warn("volatile was removed (Variable.volatile is always False), please use `with torch.no_grad()` instead.")
        if data is not None and not isinstance(data, _C.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        made = empty(0) if data is None else data.detach()
        return made.requires_grad_(requires_grad)


def variable(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: it was removed from PyTorch."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")
