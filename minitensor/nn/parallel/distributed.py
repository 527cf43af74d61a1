"""Modules whose gradients are averaged over processes: the name alone, since a program is one process."""

from __future__ import annotations

from typing import Any

from minitensor.nn.modules import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module that several processes train. Programs ask `isinstance(model, DistributedDataParallel)` without it.

    To make one is a RuntimeError: there is no group of processes.
    """

    def __init__(self, module: Module, *options: Any, **named: Any) -> None:
        super().__init__()
        raise RuntimeError(
            "DistributedDataParallel: minitensor runs a program in one process only; train the module itself"
        )
