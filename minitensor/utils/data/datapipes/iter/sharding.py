"""Parts of pipes, for workers and processes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from minitensor.utils.data.datapipes.datapipe import IterDataPipe
from minitensor.utils.data.datapipes.decorators import functional_datapipe
from minitensor.utils.data.datapipes.functions import length_of

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):  # noqa: N801
    """For whom parts are: lower ones are divided first."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe[Any]):
    """Every n-th sample: a :class:`DataLoader` gives each worker its part."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        """`sharding_group_filter`: the only group whose parts count."""
        super().__init__()
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self._divide()

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: int = SHARDING_PRIORITIES.DEFAULT
    ) -> None:
        """Be part `instance_id` of so many, for a group. RuntimeError for DEFAULT beside other groups."""
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        others = set(self.groups) - {sharding_group}
        default = SHARDING_PRIORITIES.DEFAULT
        if others and (sharding_group == default or default in others):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self._divide()

    def _divide(self) -> None:
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                count, number = self.groups[group]
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[Any]:
        for number, sample in enumerate(self.source_datapipe):
            if number % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self, self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < rest)
