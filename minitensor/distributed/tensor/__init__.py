"""Tensors whose dimensions are split over ranks: the names alone, by which libraries ask what a tensor is.

No tensor is one. To make one is a NotImplementedError.
"""

from __future__ import annotations

from typing import Any, NoReturn

import minitensor as mt
from minitensor.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DTensor", "DeviceMesh", "distribute_tensor", "init_device_mesh"]


class DTensor(mt.Tensor):
    """A tensor split over ranks; there are none."""

    def __new__(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(
            "DTensor: tensors are not split over ranks; all_gather and all_to_all move their parts"
        )


def distribute_tensor(*arguments: Any, **named: Any) -> NoReturn:
    """Raise NotImplementedError."""
    raise NotImplementedError("distribute_tensor: tensors are not split over ranks")
