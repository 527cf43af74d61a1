"""A tensor that a module owns and an optimizer updates."""

from __future__ import annotations

import minitensor as mt
from minitensor._copying import deepcopy_parameter


class Parameter(mt.Tensor):
    """A tensor that becomes a parameter of the module that it is assigned to.

    It shares ``data``'s storage, and is a leaf: it has no history of how ``data`` was computed. The results of
    operations on it are ordinary tensors.
    """

    def __new__(cls, data: mt.Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Make a parameter of ``data``, by default an empty one."""
        if data is None:
            data = mt.empty(0)
        if not isinstance(data, mt.Tensor):
            raise TypeError(f"Parameter(): data must be a Tensor, not {type(data).__name__}")
        return mt.Tensor._as_subclass(cls, data, requires_grad)

    __deepcopy__ = deepcopy_parameter

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
