"""Python objects between processes: they are pickled. Only processes of the job, with its token, can send some."""

from __future__ import annotations

import pickle
from typing import Any

from minitensor._C import int64, uint8
from minitensor._functions import offered
from minitensor._functions.offered import cat, empty, frombuffer, zeros
from minitensor.distributed.communication.collectives import all_gather, broadcast, gather, root_of, scatter
from minitensor.distributed.communication.messages import recv, send
from minitensor.distributed.groups.world import chosen, not_in_group

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _packed(value: Any) -> Any:
    return frombuffer(bytearray(pickle.dumps(value, protocol=5)), dtype=uint8)


def _unpacked(tensor: Any) -> Any:
    return pickle.loads(memoryview(tensor))


def _sizes(size: int, group: Any) -> list[int]:
    own = offered.tensor([size], dtype=int64)
    found = [empty(1, dtype=int64) for _ in range(chosen(group).size())]
    all_gather(found, own, group)
    return [int(one.item()) for one in found]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the objects of all ranks into a list, which has that length, on each of them."""
    if not_in_group(group, "all_gather_object"):
        return
    data = _packed(obj)
    parts = [empty(size, dtype=uint8) for size in _sizes(data.numel(), group)]
    if len(object_list) < len(parts):
        raise ValueError(f"all_gather_object: the list has {len(object_list)} places for {len(parts)} ranks")
    all_gather(parts, data, group)
    for i, part in enumerate(parts):
        object_list[i] = _unpacked(part)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put the objects of all ranks into a list on rank `dst`, 0 unless given."""
    if not_in_group(group, "gather_object"):
        return
    given = chosen(group)
    root = root_of(given, dst, group_dst, default=0)
    if given.rank() == root and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if given.rank() != root and object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    data = _packed(obj)
    sizes = _sizes(data.numel(), group)
    # Of one length, as `gather` has them.
    longest = zeros(max(sizes), dtype=uint8)
    longest[: data.numel()] = data
    if given.rank() != root:
        gather(longest, None, group=given, group_dst=root)
        return
    assert object_gather_list is not None
    parts = [empty(max(sizes), dtype=uint8) for _ in sizes]
    gather(longest, parts, group=given, group_dst=root)
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        object_gather_list[i] = _unpacked(part[:size])


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Put the objects in the list of rank `src`, 0 unless given, into the lists of all others, as long as it."""
    if not_in_group(group, "broadcast_object_list"):
        return
    given = chosen(group)
    root = root_of(given, src, group_src, default=0)
    if given.rank() == root:
        data = [_packed(one) for one in object_list]
        sizes = offered.tensor([one.numel() for one in data], dtype=int64)
    else:
        data, sizes = [], empty(len(object_list), dtype=int64)
    broadcast(sizes, group=given, group_src=root)
    joined = cat(data) if data else empty(int(sizes.sum().item()), dtype=uint8)
    broadcast(joined, group=given, group_src=root)
    if given.rank() == root:
        return
    for i, part in enumerate(joined.split(sizes.tolist())):
        object_list[i] = _unpacked(part)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Put object r of the list of rank `src`, 0 unless given, into the first place of the list of rank r."""
    if not_in_group(group, "scatter_object_list"):
        return
    given = chosen(group)
    root = root_of(given, src, group_src, default=0)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    size = empty(1, dtype=int64)
    if given.rank() != root:
        scatter(size, group=given, group_src=root)
        longest = empty(1, dtype=int64)
        broadcast(longest, group=given, group_src=root)
        data = empty(int(longest.item()), dtype=uint8)
        scatter(data, group=given, group_src=root)
    else:
        if scatter_object_input_list is None or len(scatter_object_input_list) != given.size():
            raise ValueError(f"scatter_object_input_list: expected an object for each of {given.size()} ranks")
        packed = [_packed(one) for one in scatter_object_input_list]
        scatter(size, [offered.tensor([one.numel()]) for one in packed], group=given, group_src=root)
        most = max(one.numel() for one in packed)
        broadcast(offered.tensor([most]), group=given, group_src=root)
        data = empty(most, dtype=uint8)
        padded = [cat([one, zeros(most - one.numel(), dtype=uint8)]) for one in packed]
        scatter(data, padded, group=given, group_src=root)
    scatter_object_output_list[0] = _unpacked(data[: int(size.item())])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send the objects of a list to rank `dst`."""
    if not_in_group(group, "send_object_list"):
        return
    data = [_packed(one) for one in object_list]
    send(offered.tensor([one.numel() for one in data], dtype=int64), dst, group, group_dst=group_dst)
    send(cat(data) if data else empty(0, dtype=uint8), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive as many objects as the list has places; return the rank that they came from."""
    if not_in_group(group, "recv_object_list"):
        return -1
    sizes = empty(len(object_list), dtype=int64)
    source = recv(sizes, src, group, group_src=group_src)
    data = empty(int(sizes.sum().item()), dtype=uint8)
    recv(data, source, group)
    for i, part in enumerate(data.split(sizes.tolist())):
        object_list[i] = _unpacked(part)
    return source
