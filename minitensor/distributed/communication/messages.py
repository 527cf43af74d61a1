"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor.distributed.communication.collectives import _tensor, root_of
from minitensor.distributed.groups.process_group import ProcessGroup
from minitensor.distributed.groups.work import Work
from minitensor.distributed.groups.world import chosen, get_global_rank, not_in_group

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _other(given: ProcessGroup, global_rank: int | None, group_rank: int | None, kind: str) -> int:
    rank = root_of(given, global_rank, group_rank)
    if rank == given.rank():
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")
    return rank


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send a tensor to rank `dst`; it must not be written before the work is done."""
    _tensor(tensor, "tensor")
    if not_in_group(group, "isend"):
        return None
    given = chosen(group)
    return given._send(tensor, _other(given, dst, group_dst, "destination"), tag, alone=True)


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive a tensor of the same dtype and number of elements, from rank `src` or from any."""
    _tensor(tensor, "tensor")
    if not_in_group(group, "irecv"):
        return None
    given = chosen(group)
    source = -1 if src is None and group_src is None else _other(given, src, group_src, "source")
    return given._receive(tensor, source, tag)


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to rank `dst`. Short ones are on their way when this returns, long ones have come."""
    _tensor(tensor, "tensor")
    if not_in_group(group, "send"):
        return
    given = chosen(group)
    given._send(tensor, _other(given, dst, group_dst, "destination"), tag, alone=False)


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor; return the rank that it came from, or -1 if this process isn't in the group."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """A message for `batch_isend_irecv`: `op` is `isend` or `irecv`, `peer` the other's rank."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        self.op = op
        self.tensor = _tensor(tensor, "tensor")
        self.group = chosen(group)
        self.group_peer = _other(self.group, peer, group_peer, "peer")
        self.peer = get_global_rank(self.group, self.group_peer)
        self.tag = tag

    def __repr__(self) -> str:
        return (
            f"P2POp({self.op.__name__} pg={self.group}, group_src={self.group.rank()}, group_dst={self.group_peer}, "
            f"{tuple(self.tensor.shape)}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages of one group; return their works, in the same order."""
    if not isinstance(p2p_op_list, (list, tuple)) or not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if not p2p_op_list:
        raise ValueError("Invalid ``p2p_op_list``: it is empty")
    if any(one.group is not p2p_op_list[0].group for one in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works = [one.op(one.tensor, group=one.group, tag=one.tag, **_peer(one)) for one in p2p_op_list]
    return [work for work in works if work is not None]


def _peer(one: P2POp) -> dict[str, int]:
    return {"group_dst" if one.op is isend else "group_src": one.group_peer}
