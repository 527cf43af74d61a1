"""Many tensors sent as few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._functions.offered import cat
from minitensor.autograd import no_grad
from minitensor.distributed.communication.collectives import broadcast
from minitensor.distributed.groups.exchange import number_of
from minitensor.ops.row import ROWS

__all__ = ["broadcast_coalesced"]


def broadcast_coalesced(tensors: Sequence[Any], group: Any, source: int, nbytes: int = 250 << 20) -> None:
    """Have all ranks of a group have the tensors of one, by its rank in the group; those of one dtype go together.

    So many bytes at most go in one message, unless a tensor has more.
    """
    by_dtype: dict[Any, list[Any]] = {}
    for tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append(tensor.detach())
    for same in by_dtype.values():
        part: list[Any] = []
        size = 0
        for tensor in same:
            more = tensor.numel() * tensor.element_size()
            if part and size + more > nbytes:
                _broadcast(part, group, source)
                part, size = [], 0
            part.append(tensor)
            size += more
        _broadcast(part, group, source)


def _broadcast(tensors: list[Any], group: Any, source: int) -> None:
    recorded = _C.in_recorded_call()
    if len(tensors) == 1 and tensors[0].is_contiguous() and not recorded:
        broadcast(tensors[0], group=group, group_src=source)
        return
    with no_grad():
        flat = cat([tensor.reshape(-1) for tensor in tensors])
        if recorded:
            flat = ROWS["_collective_broadcast"].call(flat, source, number_of(group))
        else:
            broadcast(flat, group=group, group_src=source)
        if group.rank() == source:
            return
        for tensor, piece in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(piece.view(tensor.shape))
