"""`minitensor.amp` for CPU alone, under PyTorch's older names."""

from __future__ import annotations

import warnings

import minitensor as mt
from minitensor import amp
from minitensor._warning import users_level

__all__ = ["GradScaler", "autocast"]


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`minitensor.cpu.amp.{name}(args...)` is deprecated. "
        f"Please use `minitensor.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
        stacklevel=users_level(),
    )


class autocast(amp.autocast):  # noqa: N801  (PyTorch's name)
    """``minitensor.autocast("cpu")``."""

    def __init__(self, enabled: bool = True, dtype: mt.dtype = mt.bfloat16, cache_enabled: bool = True) -> None:
        _deprecated("autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """``minitensor.amp.GradScaler("cpu")``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _deprecated("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
