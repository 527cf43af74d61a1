"""Settings of what computes, by PyTorch's names."""

from __future__ import annotations

from minitensor.backends import cuda

__all__ = ["cuda"]
