"""Programs of several processes, by PyTorch's names (`torch.distributed`).

Each process is a rank of a group. They find one another in a store, and then make collective calls: on one machine over
memory that they share, between machines over TCP (backend "gloo"), or by MPI (backend "mpi").
``python -m minitensor.distributed.run --nproc-per-node 2 train.py`` starts them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from minitensor.distributed.communication.collectives import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from minitensor.distributed.communication.messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from minitensor.distributed.communication.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from minitensor.distributed.device_mesh import DeviceMesh, init_device_mesh
from minitensor.distributed.errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from minitensor.distributed.groups.options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    DebugLevel,
    GatherOptions,
    GroupName,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    get_debug_level,
    record_comm,
    set_debug_level,
    set_debug_level_from_env,
)
from minitensor.distributed.groups.process_group import ProcessGroup
from minitensor.distributed.groups.reduce_op import ReduceOp, reduce_op, supports_complex
from minitensor.distributed.groups.shrink import shrink_group
from minitensor.distributed.groups.work import Work
from minitensor.distributed.groups.world import (
    GroupMember,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)
from minitensor.distributed.rendezvous import register_rendezvous_handler, rendezvous
from minitensor.distributed.stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from minitensor.distributed.transport.backends import (
    Backend,
    BackendConfig,
    get_default_backend_for_device,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
)

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend", "BackendConfig",
    "BarrierOptions", "BroadcastOptions", "DebugLevel", "DeviceMesh", "DistBackendError", "DistError",
    "DistNetworkError", "DistStoreError", "FileStore", "GatherOptions", "GroupMember", "GroupName", "HashStore",
    "P2POp", "PrefixStore", "ProcessGroup", "QueueEmptyError", "ReduceOp", "ReduceOptions", "ReduceScatterOptions",
    "ScatterOptions", "Store", "TCPStore", "Work", "all_gather", "all_gather_coalesced", "all_gather_into_tensor",
    "all_gather_object", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single",
    "barrier", "batch_isend_irecv", "breakpoint", "broadcast", "broadcast_object_list", "default_pg_timeout",
    "destroy_process_group", "gather", "gather_object", "get_backend", "get_backend_config", "get_debug_level",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_device_mesh", "init_process_group", "irecv",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend",
    "monitored_barrier", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "record_comm", "recv",
    "recv_object_list", "reduce", "reduce_op", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
    "register_rendezvous_handler", "rendezvous", "scatter", "scatter_object_list", "send", "send_object_list",
    "set_debug_level", "set_debug_level_from_env", "shrink_group", "split_group", "supports_complex",
]  # fmt: skip


def is_available() -> bool:
    """Return True: processes can work together."""
    return True


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float | None = 3600) -> None:
    """Stop in a debugger on one rank; the others wait for it, as long as `timeout_s` says."""
    import pdb
    import sys

    key = sys._getframe(1).f_code, sys._getframe(1).f_lineno
    _skipped[key] = _skipped.get(key, 0) + 1
    if _skipped[key] <= skip:
        return
    if get_rank() == rank:
        debugger = pdb.Pdb()
        debugger.message(f"distributed.breakpoint: rank {rank}; 'up' goes to where it was called")
        old, sys.stdin = sys.stdin, open("/dev/stdin")  # noqa: SIM115  (a child's own is closed)
        try:
            debugger.set_trace()
        finally:
            sys.stdin = old
    barrier(timeout=None if timeout_s is None else timedelta(seconds=timeout_s))


_skipped: dict[Any, int] = {}
