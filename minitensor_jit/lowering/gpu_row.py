"""What a row of the tables of lowerings for GPUs says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitensor_jit.lowering.call import RecordedCall

__all__ = ["GpuRow", "always"]


def always(_: RecordedCall) -> bool:
    """Every call."""
    return True


@dataclass(frozen=True, slots=True)
class GpuRow:
    """How an op is HLO on GPUs."""

    lower: Callable[..., Any]
    """`lower(b, *operands, *params)` gives the results."""
    fits: Callable[[RecordedCall], bool] = always
    """Whether a call has HLO."""
    integers: bool = False
    """Whether that holds for results of integers and booleans too."""
    empty_tables: bool = False
    """Whether operands but the first may be empty."""
