"""Apple's GPUs, which are not supported."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False: no tensor can be there."""
    return False


def is_built() -> bool:
    """Return False."""
    return False
