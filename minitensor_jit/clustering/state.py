"""What clustering goes on with from one graph to the next."""

from __future__ import annotations

import itertools

__all__ = ["PROCESS_STATE", "ClusteringState"]


class ClusteringState:
    """What goes on from one graph to the next: how far clusters are counted, and how much fuel is left."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.marked = 0
        self.noted_device_rule = False

    def next_name(self) -> str:
        """Return a cluster's name that was not used before."""
        return f"cluster_{next(self._numbers)}"


PROCESS_STATE = ClusteringState()
