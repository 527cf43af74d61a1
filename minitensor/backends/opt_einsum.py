"""The order of products in `einsum`."""

from __future__ import annotations

from typing import Any

__all__ = ["enabled", "get_opt_einsum", "is_available", "strategy"]

enabled = False
"""Whether a library looks for the best order; it is not used here."""
strategy: str | None = None
"""How it should look."""


def is_available() -> bool:
    """Return False: `einsum` finds the cheapest order by itself, whether the package is installed or not."""
    return False


def get_opt_einsum() -> Any:
    """Return None: the package is not used."""
    return None
