"""A group of processes, and the calls that they make together."""

from __future__ import annotations

import atexit
import enum
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from minitensor import _C, _forks
from minitensor._C import device
from minitensor.distributed.errors import DistBackendError
from minitensor.distributed.groups.group_calls import GroupCalls
from minitensor.distributed.groups.reduce_op import RedOpType
from minitensor.distributed.groups.work import Work
from minitensor.distributed.stores.store import Store

__all__ = ["ProcessGroup"]

_live: list[ProcessGroup] = []
failed_limits: list[float] = []
"""The timeouts, in seconds, of groups that failed before they were left."""


class BackendType(enum.IntEnum):
    """The backends, by PyTorch's numbers."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, CUSTOM, XCCL = range(7)


class ProcessGroup(GroupCalls):
    """Processes that make calls together, each of them the same calls in the same order.

    `ranks` are their ranks in the default group; the place in it is the rank in this group.
    """

    BackendType = BackendType

    def __init__(
        self,
        store: Store | None,
        rank: int,
        size: int,
        *,
        communicator: Any = None,
        ranks: Sequence[int] | None = None,
        name: str = "",
        backend: str = "gloo",
        timeout: timedelta = timedelta(minutes=30),
        description: str = "",
    ) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._communicator = communicator
        self._ranks = list(range(size)) if ranks is None else list(ranks)
        self._backend = backend
        self._timeout = timeout
        self._limit = timeout.total_seconds()
        self.group_name = name
        self.group_desc = description
        self.bound_device_id = None
        self._sequence = 0
        self._made_by = os.getpid()
        if communicator is not None:
            _live.append(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object: it belongs to this process")

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self._rank} of {self._size}, {self._backend}>"

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """Return how many processes there are."""
        return self._size

    def name(self) -> str:
        """Return the backend's name."""
        return self._backend

    def get_group_store(self) -> Store | None:
        """Return the group's part of the store."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Have calls from now on take so long at most."""
        self._timeout, self._limit = timeout, timeout.total_seconds()

    _set_default_timeout = set_timeout

    @property
    def _device_types(self) -> list[Any]:
        return [device("cpu")]

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def abort(self) -> None:
        """End all calls with an error, on all ranks; no more can be made."""
        self._engine.abort("the process group was aborted")

    def _tell_of_end(self, why: str) -> None:
        """Have the others' calls fail for that reason, unless calls of this group have failed before."""
        if self._communicator is not None and self._made_by == os.getpid() and self._communicator.failure is None:
            self._communicator.abort(why)

    def shutdown(self) -> None:
        """Leave the group: no more calls can be made."""
        if self._communicator is not None:
            communicator, self._communicator = self._communicator, None
            if communicator.failure is not None:
                failed_limits.append(self._limit)
            communicator.leave()
        if self in _live:
            _live.remove(self)

    @property
    def _engine(self) -> Any:
        if self._communicator is None:
            raise ValueError(f"Invalid process group specified: {self!r} was destroyed")
        # Collective ops that are recorded come before this call.
        _C.flush("a call to other processes")
        return self._communicator

    def _started(
        self, alone: bool, call: Any, tensors: Sequence[Any], after: Sequence[Callable[[], object]]
    ) -> Work | None:
        """The work of a call that was begun; of one that was waited for None, or its error is raised."""
        self._sequence += 1
        if alone:
            return Work(call, tensors, after)
        if call.error is not None:
            raise DistBackendError(call.error)
        for step in after:
            step()
        return None

    def _exchange(
        self,
        text: str,
        sends: Sequence[Any] | None,
        recvs: Sequence[Any] | None,
        alone: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Lists of tensors, or None, for each rank: what goes there, and where what comes from there goes."""
        after: list[Callable[[], object]] = []
        out = None if sends is None else [one and [readable(t) for t in one] for one in sends]
        into = None if recvs is None else [one and [writable(t, after) for t in one] for one in recvs]
        call = self._engine.exchange(text, out, into, self._limit if timeout is None else timeout, alone)
        written = [t for one in recvs or () for t in one or ()]
        return self._started(alone, call, written, after)

    def _reduced_at_once(self, head: str, tensor: Any, op: RedOpType) -> bool:
        """Whether a small tensor was combined on all ranks, with nothing but one call of the engine."""
        if self._communicator is None:
            return False
        call = self._communicator.reduce_at_once(head, tensor, op, self._limit)
        if call is None:
            return False
        self._sequence += 1
        if call is not True and call.error is not None:
            raise DistBackendError(call.error)
        return True

    def _reduce(self, text: str, tensor: Any, op: RedOpType, root: int, alone: bool) -> Work | None:
        after: list[Callable[[], object]] = []
        there = writable(tensor, after) if root in (-1, self._rank) else readable(tensor)
        call = self._engine.reduce(text, there, int(op), root, self._limit, alone)
        return self._started(alone, call, [tensor], after)

    def _reduce_by_rank(
        self, text: str, operands: Sequence[Any], result: Any, op: RedOpType, alone: bool
    ) -> Work | None:
        after: list[Callable[[], object]] = []
        given = [readable(one) for one in operands]
        call = self._engine.reduce_by_rank(text, given, writable(result, after), int(op), self._limit, alone)
        return self._started(alone, call, [result], after)

    def _send(self, tensor: Any, to: int, tag: int, alone: bool) -> Work | None:
        text = f"send({described(tensor)}, to rank {self._ranks[to]})"
        call = self._engine.send(text, readable(tensor), to, tag, self._limit, alone)
        return self._started(alone, call, [tensor], ())

    def _receive(self, tensor: Any, source: int, tag: int) -> Work:
        """Begin to receive. Rank -1 is any."""
        origin = "any rank" if source < 0 else f"rank {self._ranks[source]}"
        after: list[Callable[[], object]] = []
        into = writable(tensor, after)
        call = self._engine.receive(f"recv({described(tensor)}, from {origin})", into, source, tag, self._limit, True)
        return Work(call, [tensor], after, self._ranks)


def described(tensor: Any) -> str:
    """The dtype and the number of elements."""
    text: str = _C._Communicator.described(tensor)
    return text


def readable(tensor: Any) -> Any:
    """The tensor, or a copy of it, contiguous in the CPU's memory."""
    if tensor.device.type != "cpu":
        tensor = tensor.detach().cpu()
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()


def writable(tensor: Any, after: list[Callable[[], object]]) -> Any:
    """The same, with what copies it back."""
    there = readable(tensor)
    if there is not tensor:
        target = tensor.detach()
        after.append(lambda: target.copy_(there))
    return there


def leave_all() -> None:
    """At the end of a program that did not destroy its groups: nothing may touch the memory of tensors any more."""
    while _live:
        _live[-1].shutdown()


def _in_child() -> None:
    for group in _live:
        if group._communicator is not None:
            group._communicator.forget()
    _live.clear()


atexit.register(leave_all)
_forks.in_child(_in_child)
