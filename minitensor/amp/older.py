"""The classes of `minitensor.amp` for one type of device, which PyTorch deprecates."""

from __future__ import annotations

from minitensor import _C, amp
from minitensor._warning import warn

__all__ = ["classes_for", "deprecated"]


def deprecated(device: str, name: str) -> None:
    """Warn that `name` has a form that takes the device."""
    form = f"args..., device_type='{device}'" if name.startswith("custom") else f"'{device}', args..."
    warn(
        f"`minitensor.{device}.amp.{name}(args...)` is deprecated. Please use `minitensor.amp.{name}({form})` instead.",
        FutureWarning,
    )


def classes_for(device: str, lower: _C.dtype) -> tuple[type[amp.autocast], type[amp.GradScaler]]:
    """Return `autocast`, whose dtype is `lower` by default, and `GradScaler` of a type of device."""

    class autocast(amp.autocast):  # noqa: N801  (PyTorch's name)
        def __init__(self, enabled: bool = True, dtype: _C.dtype = lower, cache_enabled: bool = True) -> None:
            deprecated(device, "autocast")
            super().__init__(device, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    class GradScaler(amp.GradScaler):
        def __init__(
            self,
            init_scale: float = 2.0**16,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ) -> None:
            deprecated(device, "GradScaler")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    for one in (autocast, GradScaler):
        one.__module__, one.__qualname__ = f"minitensor.{device}.amp", one.__name__
        one.__doc__ = f'``minitensor.amp.{one.__name__}("{device}")``.'
    return autocast, GradScaler
