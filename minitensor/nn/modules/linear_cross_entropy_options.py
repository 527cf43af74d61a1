"""How :class:`LinearCrossEntropyLoss` may go about its work."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal

from minitensor._C import bfloat16, float16, float32, float64

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("accurate", "balanced", "compact", "auto")


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How the logits are cut into chunks, and in what dtype sums are accumulated.

    They trade memory for time and change no result but for rounding. Here the logits of all rows are computed at once,
    and compiled code decides what is kept, so that the options are checked and otherwise without effect.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        """Refuse what PyTorch refuses: ValueError."""
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto") and not re.fullmatch(
            r"aspect_ratio(:0*[1-9][0-9]*)?", str(self.chunking_method)
        ):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, float16, bfloat16, float32, float64):
            raise ValueError(f"acc_dtype must be a floating-point dtype or None, got {self.acc_dtype!r}")
