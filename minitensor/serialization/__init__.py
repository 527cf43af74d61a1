"""Saving and loading: PyTorch's zip checkpoint format, both ways, without ever running code from a file."""

from minitensor.serialization import safetensors
from minitensor.serialization.checkpoint import load, save
from minitensor.serialization.safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "safetensors", "save"]
