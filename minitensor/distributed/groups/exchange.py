"""Process groups as the ops of collectives see them (`minitensor.ops.collective`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from minitensor._C import from_numpy
from minitensor.distributed.communication.collectives import (
    all_gather_into_tensor,
    all_reduce,
    all_to_all_single,
    broadcast,
    reduce_scatter_tensor,
)
from minitensor.distributed.groups.process_group import ProcessGroup, described
from minitensor.distributed.groups.reduce_op import ReduceOp
from minitensor.distributed.groups.world import _world, chosen
from minitensor.ops.collective import GROUPS

__all__ = ["GroupExchange", "number_of", "renew"]

_KINDS = {int(kind): kind for kind in ReduceOp.RedOpType}


class GroupExchange:
    """The exchanges of a group, each with a new tensor as its result, or into one that is there."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self.rank = group.rank()
        self.ranks = tuple(group._ranks)
        self.name = group.group_name

    def all_reduce(self, x: Any, op: int) -> Any:
        """The tensors of all processes combined, in the order of their ranks."""
        result = _copied(x)
        self.all_reduce_into([result], op)
        return result

    def all_reduce_into(self, tensors: Sequence[Any], op: int) -> None:
        """The same in place of each of the tensors, which are on their way together."""
        kind = _KINDS[op]
        if len(tensors) == 1:
            all_reduce(tensors[0], kind, self.group)
            return
        for work in [all_reduce(tensor, kind, self.group, async_op=True) for tensor in tensors]:
            assert work is not None
            work.wait()

    def all_reduce_begun(self, tensor: Any, op: int) -> Any:
        """The same in place of a tensor, as a work to wait for."""
        return all_reduce(tensor, _KINDS[op], self.group, async_op=True)

    def all_gather(self, x: Any) -> Any:
        """The tensors of all processes, one behind the other."""
        return self.all_gather_into(x.new_empty((x.shape[0] * len(self.ranks), *x.shape[1:])), x)

    def all_gather_into(self, result: Any, x: Any) -> Any:
        """The same, into a result that is there."""
        all_gather_into_tensor(result, x, self.group)
        return result

    def reduce_scatter(self, x: Any, op: int) -> Any:
        """This process's part of the tensors of all processes combined."""
        return self.reduce_scatter_into(x.new_empty((x.shape[0] // len(self.ranks), *x.shape[1:])), x, op)

    def reduce_scatter_into(self, result: Any, x: Any, op: int) -> Any:
        """The same, into a result that is there."""
        reduce_scatter_tensor(result, x, _KINDS[op], self.group)
        return result

    def all_to_all(self, x: Any, results: Sequence[int], parts: Sequence[int]) -> Any:
        """This process's part of each tensor."""
        return self.all_to_all_into(x.new_empty((sum(results), *x.shape[1:])), x, results, parts)

    def all_to_all_into(self, result: Any, x: Any, results: Sequence[int] = (), parts: Sequence[int] = ()) -> Any:
        """The same, into a result that is there; parts are equal if no sizes are given."""
        all_to_all_single(result, x.contiguous(), list(results) or None, list(parts) or None, self.group)
        return result

    def broadcast(self, x: Any, source: int) -> Any:
        """The tensor of one process."""
        return self.broadcast_into(_copied(x), source)

    def broadcast_into(self, tensor: Any, source: int) -> Any:
        """The same, in place."""
        broadcast(tensor, group=self.group, group_src=source)
        return tensor

    def permute(self, x: Any, pairs: Sequence[int]) -> Any:
        """The tensor of the process that has this one as its target; zeros where none has."""
        return self.permute_into(x.new_zeros(tuple(x.shape)), x.contiguous(), pairs)

    def permute_into(self, result: Any, x: Any, pairs: Sequence[int]) -> Any:
        """The same, into a result that has zeros."""
        sends: list[Any] = [None] * len(self.ranks)
        receives: list[Any] = [None] * len(self.ranks)
        for source, target in zip(pairs[::2], pairs[1::2], strict=True):
            if source == target == self.rank:
                result.copy_(x)
            elif source == self.rank:
                sends[target] = [x]
            elif target == self.rank:
                receives[source] = [result]
        named = ",".join(f"{s}>{t}" for s, t in zip(pairs[::2], pairs[1::2], strict=True))
        self.group._exchange(f"permute({described(x)}, {named})", sends, receives)
        return result


def _copied(x: Any) -> Any:
    return x.new_empty(tuple(x.shape)).copy_(x)


def number_of(group: Any = None) -> int:
    """The number that stands for a group in calls of ops: made of its name and ranks, so the same in every run.

    A group is a ProcessGroup, its name, a list of ranks that some group has, or None for the default one. ValueError
    where there is none such.
    """
    known_groups = [one for one in (_world.default, *_world.groups) if one is not None]
    if isinstance(group, str):
        found = [one for one in known_groups if one.group_name == group]
    elif isinstance(group, (list, tuple)):
        found = [one for one in known_groups if one._ranks == list(group)]
    else:
        found = [chosen(group)]
    if not found:
        raise ValueError(f"no process group has the ranks or the name {group}; new_group makes one")
    one = found[0]
    number = _number(one)
    known = GROUPS.get(number)
    if known is None or getattr(known, "group", None) is not one:
        GROUPS[number] = GroupExchange(one)
    return number


def _number(group: ProcessGroup) -> int:
    number: int | None = group.__dict__.get("_number")
    if number is None:
        digest = hashlib.sha256(f"{group.group_name} {group._ranks}".encode()).digest()
        number = group.__dict__["_number"] = int.from_bytes(digest[:7], "big") + 1
    return number


def renew(group: ProcessGroup) -> None:
    """Have calls that were recorded or compiled for a group of that name and those ranks be this one's."""
    if (number := _number(group)) in GROUPS:
        GROUPS[number] = GroupExchange(group)


def tensor_of(array: Any) -> Any:
    """A tensor over memory that compiled code owns."""
    return from_numpy(array)
