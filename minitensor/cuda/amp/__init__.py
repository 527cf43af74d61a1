"""`minitensor.amp` for CUDA alone, under PyTorch's older names."""

from __future__ import annotations

import functools
from typing import Any

from minitensor import amp
from minitensor._C import dtype, float16
from minitensor.amp.older import classes_for, deprecated

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = classes_for("cuda", float16)


def custom_fwd(fwd: Any = None, *, cast_inputs: dtype | None = None) -> Any:
    """``minitensor.amp.custom_fwd`` for "cuda"."""
    deprecated("cuda", "custom_fwd")
    return functools.partial(amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """``minitensor.amp.custom_bwd`` for "cuda"."""
    deprecated("cuda", "custom_bwd")
    return amp.custom_bwd(bwd, device_type="cuda")
