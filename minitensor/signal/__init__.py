"""Signal processing: windows."""

from minitensor.signal import windows

__all__ = ["windows"]
