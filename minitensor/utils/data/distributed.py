"""A sampler that gives each of several processes its part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

from minitensor._functions.offered import randperm
from minitensor.random import Generator
from minitensor.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


class DistributedSampler(Sampler[_T_co]):
    """Every ``num_replicas``-th number, from ``rank`` on, of all samples, which are shuffled by ``seed + epoch``.

    All processes get as many: some numbers come twice, or with ``drop_last`` the last ones not at all. Where
    ``num_replicas`` or ``rank`` isn't given it is that of the default group. ValueError if there is none.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from minitensor import distributed as group

            num_replicas = group.get_world_size() if num_replicas is None else num_replicas
            rank = group.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)
        if drop_last and count % num_replicas:
            count -= num_replicas
        self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = randperm(count, generator=generator).tolist()
        order = (order * math.ceil(self.total_size / max(count, 1)))[: self.total_size]
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Have another order from now on."""
        self.epoch = epoch
