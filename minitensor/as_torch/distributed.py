"""`torch.distributed` where there is one process: what programs ask before they do without."""

from __future__ import annotations

__all__ = [
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]


def is_available() -> bool:
    """Return whether processes can work together: they can't."""
    return False


def is_initialized() -> bool:
    """Return whether a group of processes was set up: there is none."""
    return False


def is_torchelastic_launched() -> bool:
    """Return whether a launcher of PyTorch's started this process."""
    return False


is_gloo_available = is_mpi_available = is_nccl_available = is_ucc_available = is_xccl_available = is_available
