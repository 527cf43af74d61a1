"""The CPU as a device, for programs that ask every device the same questions."""

from __future__ import annotations

import contextlib
from typing import Any

__all__ = [
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether tensors can be on the CPU: True."""
    return True


def is_initialized() -> bool:
    """Whether the CPU is in use: True."""
    return True


def device_count() -> int:
    """How many CPU devices there are, whatever the number of cores: 1."""
    return 1


def current_device() -> str:
    """The device in use: "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one CPU."""


def synchronize(device: Any = None) -> None:
    """Nothing: what runs on the CPU is done when it returns."""


def current_stream(device: Any = None) -> None:
    """None: the CPU has no streams."""


def stream(stream: Any) -> contextlib.AbstractContextManager[Any]:
    """A context in which nothing is different."""
    return contextlib.nullcontext()


def __getattr__(name: str) -> Any:
    if name == "amp":
        import importlib

        return importlib.import_module("minitensor.cpu.amp")
    raise AttributeError(f"module 'minitensor.cpu' has no attribute '{name}'")
