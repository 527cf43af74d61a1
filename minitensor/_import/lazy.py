"""Modules that are imported by the first use of them, so that importing minitensor stays quick."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["LazyModule"]


class LazyModule:
    """Stands for a module until an attribute of it is asked for."""

    def __init__(self, name: str) -> None:
        """`name`: the module's full name."""
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Import the module; its attributes are found without a detour from then on."""
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found
