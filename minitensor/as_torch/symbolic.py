"""Sizes of PyTorch's compiler that are not known yet, by name: sizes are always ints here."""

from __future__ import annotations

from typing import Any

__all__ = ["SymBool", "SymFloat", "SymInt"]


class SymInt:
    """An int that is not known yet; programs ask `isinstance(size, SymInt)`. To make one is a NotImplementedError."""

    def __init__(self, *arguments: Any) -> None:
        raise NotImplementedError(f"torch.{type(self).__name__}: sizes and numbers are always known in minitensor")


class SymFloat:
    """A float that is not known yet."""

    __init__ = SymInt.__init__


class SymBool:
    """A bool that is not known yet."""

    __init__ = SymInt.__init__


for _cls in (SymInt, SymFloat, SymBool):
    _cls.__module__ = "torch"
