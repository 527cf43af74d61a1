"""The accelerator of this machine that tensors can be on: this build drives none.

The functions answer as PyTorch's do where no accelerator is there, so that programs which ask before they use one run.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "device_count",
    "is_available",
    "set_device_idx",
    "set_device_index",
    "synchronize",
]


def _none() -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


def is_available() -> bool:
    """Whether there is an accelerator."""
    return False


def device_count() -> int:
    """How many accelerators there are."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The accelerator's kind as a `device`, or None."""
    return None


def current_device_index() -> int:
    """The index of the accelerator in use; RuntimeError without one."""
    _none()


def set_device_index(device: Any, /) -> None:
    """Say which accelerator to use; RuntimeError without one."""
    _none()


def synchronize(device: Any = None, /) -> None:
    """Wait until the accelerator has done all it was given; RuntimeError without one."""
    _none()


current_device_idx = current_device_index
set_device_idx = set_device_index
