"""Channels of groups in turn."""

from __future__ import annotations

from minitensor._C import Tensor
from minitensor.nn import functional as F
from minitensor.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Takes the channels of ``[N, C, ...]`` from ``groups`` groups in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Return the channels in the other order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the groups."""
        return f"groups={self.groups}"
