"""What PyTorch's groups take and say besides: options of calls, levels of checks, names of calls in profiles."""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from minitensor.distributed.groups.reduce_op import ReduceOp

__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "DebugLevel",
    "GatherOptions",
    "GroupName",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
    "get_debug_level",
    "record_comm",
    "set_debug_level",
    "set_debug_level_from_env",
]


class _Options:
    """What a call of a `ProcessGroup` takes; a timeout of None is the group's."""

    def __init__(self) -> None:
        self.timeout: timedelta | None = None
        self.asyncOp = True


class AllreduceOptions(_Options):
    """`reduceOp`."""

    def __init__(self) -> None:
        super().__init__()
        self.reduceOp: Any = ReduceOp.SUM


class AllreduceCoalescedOptions(AllreduceOptions):
    """`reduceOp`."""


class ReduceScatterOptions(AllreduceOptions):
    """`reduceOp`."""


class BroadcastOptions(_Options):
    """`rootRank`, a rank in the group, and `rootTensor`."""

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0
        self.rootTensor = 0


class ReduceOptions(BroadcastOptions):
    """`reduceOp` and `rootRank`."""

    def __init__(self) -> None:
        super().__init__()
        self.reduceOp: Any = ReduceOp.SUM


class GatherOptions(BroadcastOptions):
    """`rootRank`."""


class ScatterOptions(BroadcastOptions):
    """`rootRank`."""


class AllgatherOptions(_Options):
    """Nothing besides."""


class AllToAllOptions(_Options):
    """Nothing besides."""


class BarrierOptions(_Options):
    """`device_ids` and `device`, which don't matter here."""

    def __init__(self) -> None:
        super().__init__()
        self.device_ids: list[int] = []
        self.device: Any = None


class GroupName(str):
    """A group's name."""

    __slots__ = ()


class DebugLevel(enum.IntEnum):
    """How much is checked: here calls are always compared between ranks, at any level."""

    OFF, INFO, DETAIL = range(3)


_level = [DebugLevel.OFF]


def get_debug_level() -> DebugLevel:
    """Return the level."""
    return _level[0]


def set_debug_level(level: DebugLevel) -> None:
    """Set the level."""
    _level[0] = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Set it by ``TORCH_DISTRIBUTED_DEBUG``: OFF, INFO or DETAIL. RuntimeError for anything else."""
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if text not in DebugLevel.__members__:
        raise RuntimeError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    _level[0] = DebugLevel[text]


@contextlib.contextmanager
def record_comm(name: str) -> Iterator[None]:
    """Name the calls in a block for a profiler."""
    from minitensor.profiler import record_function

    with record_function(name):
        yield
