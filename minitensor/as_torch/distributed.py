"""`torch.distributed` where there is one process: what programs ask before they do without."""

from __future__ import annotations

import enum
from typing import Any, NoReturn

__all__ = [
    "Backend",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "get_backend",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
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


class ProcessGroup:
    """Some of the processes; there are none of these."""


class Work:
    """What a collective call that goes on by itself returns; there are none of these."""


class Backend(str):
    """The name of what carries messages."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"


class ReduceOp(enum.Enum):
    """How the values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


def init_process_group(backend: str | None = None, *options: Any, **named: Any) -> NoReturn:
    """Raise RuntimeError: a program is one process here."""
    raise RuntimeError("torch.distributed.init_process_group: minitensor runs a program in one process only")


def _without_group(*arguments: Any, **named: Any) -> NoReturn:
    """Raise ValueError: there is no group of processes, as before `init_process_group` in PyTorch."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


all_gather = all_gather_into_tensor = all_gather_object = all_reduce = all_to_all = barrier = broadcast = _without_group
broadcast_object_list = destroy_process_group = gather = get_backend = get_rank = get_world_size = _without_group
irecv = isend = new_group = recv = reduce = reduce_scatter = reduce_scatter_tensor = scatter = send = _without_group
