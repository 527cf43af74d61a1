"""Settings of another library: they can be set and read, as scripts do at their start, and change nothing here.

Convolutions on GPUs are minitensor's own kernels, exact and the same from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "set_flags",
    "version",
]

enabled = True
"""Whether the library may be used, if it were there."""
benchmark = False
"""Whether it should measure its algorithms first."""
benchmark_limit: int | None = None
"""How many algorithms it should measure."""
deterministic = False
"""Whether only algorithms that give the same at every run are allowed; all of those here do."""
allow_tf32 = True
"""Whether its convolutions may round to TF32; those here don't."""


def is_available() -> bool:
    """Return False: nothing here runs in cuDNN."""
    return False


def version() -> int | None:
    """Return None: there is no cuDNN."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Return False, for every tensor."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[bool, bool, int | None, bool, bool]:
    """Set what is not None; return what was set before."""
    before = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    globals().update({name: value for name, value in zip(names, given, strict=True) if value is not None})
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Set them within the block."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
        globals()["benchmark_limit"] = before[2]
