"""Functions that the CPU calls and a GPU has no library for: the same operations, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..llvm import Value

__all__ = ["FUNCTIONS"]

FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {}
