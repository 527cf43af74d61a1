"""OpenMP, which nothing here uses."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: the thread pool is minitensor's own; `set_num_threads` sets its size."""
    return False
