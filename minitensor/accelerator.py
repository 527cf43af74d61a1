"""The accelerator of this machine that tensors can be on: CUDA, if a GPU can be used.

The functions answer as PyTorch's do, also where no accelerator is there, so that programs which ask before they use one
run.
"""

from __future__ import annotations

from typing import Any

from minitensor import _C, cuda

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


def _require() -> None:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def is_available() -> bool:
    """Whether there is an accelerator."""
    return cuda.is_available()


def device_count() -> int:
    """How many accelerators there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Any:
    """The accelerator's kind as a `device`, or None."""
    return _C.device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """The index of the accelerator in use; RuntimeError without one."""
    _require()
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Say which accelerator to use; RuntimeError without one."""
    _require()
    cuda.set_device(device)


def synchronize(device: Any = None, /) -> None:
    """Wait until the accelerator has done all it was given; RuntimeError without one."""
    _require()
    cuda.synchronize(device)


current_device_idx = current_device_index
set_device_idx = set_device_index
