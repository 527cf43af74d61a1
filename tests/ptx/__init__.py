"""An emulator of PTX on NumPy: tests run the kernels that are emitted for GPUs, and see what kernels must not do."""

from .errors import PtxError, PtxFault
from .lanes import Checks
from .machine import Counts, Machine
from .memory import Memory

__all__ = ["Checks", "Counts", "Machine", "Memory", "PtxError", "PtxFault"]
