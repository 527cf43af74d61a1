"""`torch.version`: which release's API this is, and that of no vendor's library."""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = "2.13.0+minitensor"
cuda = debug = hip = rocm = xpu = None
git_version = "unknown"
