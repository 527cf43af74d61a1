"""Modules whose parameters are split over ranks: the name alone, by which libraries ask what a module is."""

from __future__ import annotations

from typing import Any

import minitensor as mt

__all__ = ["FullyShardedDataParallel"]


class FullyShardedDataParallel(mt.nn.Module):
    """A module with split parameters; there are none. To make one is a NotImplementedError."""

    def __init__(self, module: mt.nn.Module, *options: Any, **named: Any) -> None:
        super().__init__()
        raise NotImplementedError(
            "FullyShardedDataParallel: parameters are not split over ranks; DistributedDataParallel keeps them whole"
        )
