"""Modules whose parameters are split over ranks: the names by which libraries ask what a module is, and policies.

No module is split. To split one is a NotImplementedError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from minitensor import nn
from minitensor._C import dtype

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullyShardedDataParallel",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "fully_shard",
]


class FullyShardedDataParallel(nn.Module):
    """A module with split parameters; there are none. To make one is a NotImplementedError."""

    def __init__(self, module: nn.Module, *options: Any, **named: Any) -> None:
        super().__init__()
        raise NotImplementedError(
            "FullyShardedDataParallel: parameters are not split over ranks; DistributedDataParallel keeps them whole"
        )


class FSDPModule:
    """What `fully_shard` makes of a module; there are none. To make one is a NotImplementedError."""

    def __new__(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("FSDPModule: parameters are not split over ranks")


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a split module would compute."""

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    output_dtype: dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Where a split module's parameters would be kept: on its device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Where a split module's parameters would be kept: in the CPU's memory."""

    pin_memory: bool = True


def fully_shard(module: Any, **options: Any) -> NoReturn:
    """Raise NotImplementedError: `DistributedDataParallel` keeps parameters whole."""
    raise NotImplementedError(
        "fully_shard: parameters are not split over ranks; DistributedDataParallel keeps them whole"
    )
