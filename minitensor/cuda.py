"""Questions about CUDA devices: this build has none.

`is_available()` is False and `device_count()` is 0; whatever needs a device raises AssertionError, as in a PyTorch that
was built without CUDA.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["current_device", "device_count", "get_device_name", "is_available", "is_initialized", "synchronize"]


def _none() -> NoReturn:
    raise AssertionError("minitensor not compiled with CUDA enabled")


def is_available() -> bool:
    """Whether tensors can be on a CUDA device."""
    return False


def is_initialized() -> bool:
    """Whether a CUDA device is in use."""
    return False


def device_count() -> int:
    """How many CUDA devices there are."""
    return 0


def current_device() -> int:
    """The index of the device in use; AssertionError without one."""
    _none()


def get_device_name(device: Any = None) -> str:
    """A device's name; AssertionError without one."""
    _none()


def synchronize(device: Any = None) -> None:
    """Wait until a device has done all it was given; AssertionError without one."""
    _none()
