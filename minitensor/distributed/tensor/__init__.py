"""Tensors whose dimensions are split over ranks: the names by which libraries ask what a tensor is, and placements.

No tensor is split. To make one that is is a NotImplementedError.
"""

from __future__ import annotations

from typing import Any, NoReturn

from minitensor._C import Tensor
from minitensor.distributed.device_mesh import DeviceMesh, init_device_mesh
from minitensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
]


class DTensor(Tensor):
    """A tensor split over ranks; there are none."""

    def __new__(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(
            "DTensor: tensors are not split over ranks; all_gather and all_to_all move their parts"
        )

    @staticmethod
    def from_local(*arguments: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("DTensor.from_local: tensors are not split over ranks")


def distribute_tensor(*arguments: Any, **named: Any) -> NoReturn:
    """Raise NotImplementedError."""
    raise NotImplementedError("distribute_tensor: tensors are not split over ranks")


def distribute_module(*arguments: Any, **named: Any) -> NoReturn:
    """Raise NotImplementedError."""
    raise NotImplementedError("distribute_module: parameters are not split over ranks")
