"""`minitensor.amp` for CUDA alone, under PyTorch's older names."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import minitensor as mt
from minitensor import amp
from minitensor._warning import users_level

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`minitensor.cuda.amp.{name}(args...)` is deprecated. "
        f"Please use `minitensor.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=users_level(),
    )


class autocast(amp.autocast):  # noqa: N801  (PyTorch's name)
    """``minitensor.autocast("cuda")``."""

    def __init__(self, enabled: bool = True, dtype: mt.dtype = mt.float16, cache_enabled: bool = True) -> None:
        _deprecated("autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """``minitensor.amp.GradScaler("cuda")``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _deprecated("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: mt.dtype | None = None) -> Any:
    """``minitensor.amp.custom_fwd`` for "cuda"."""
    _deprecated("custom_fwd")
    return functools.partial(amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """``minitensor.amp.custom_bwd`` for "cuda"."""
    _deprecated("custom_bwd")
    return amp.custom_bwd(bwd, device_type="cuda")
