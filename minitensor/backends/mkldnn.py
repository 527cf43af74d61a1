"""Settings of oneDNN, which nothing here uses: they can be set, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["deterministic", "enabled", "flags", "is_acl_available", "is_available"]

enabled = True
"""Whether the library may be used, if it were there."""
deterministic = False
"""Whether only algorithms that give the same at every run are allowed; all of those here do."""


def is_available() -> bool:
    """Return False: there is no oneDNN."""
    return False


def is_acl_available() -> bool:
    """Return False: there is no Arm Compute Library."""
    return False


@contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Iterator[None]:
    """Set them within the block."""
    state = globals()
    before = {name: state[name] for name in ("enabled", "deterministic")}
    state.update(enabled=enabled, deterministic=deterministic)
    try:
        yield
    finally:
        state.update(before)
