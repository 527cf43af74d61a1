"""Intel's Math Kernel Library, which nothing here uses."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: products are minitensor's own, and LAPACK is SciPy's or NumPy's."""
    return False
