"""`torch._C`: what libraries call of PyTorch's extension, and whatever minitensor's has under the same name."""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["_get_tracing_state", "_log_api_usage_once"]


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nobody is told of what is used."""


def _get_tracing_state() -> None:
    """Return None: it is always the Python function that runs."""


def __getattr__(name: str) -> Any:
    return getattr(_C, name)
