"""The pipes themselves."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from minitensor._C import int64
from minitensor._functions.offered import empty
from minitensor._warning import warn
from minitensor.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, MapDataPipe
from minitensor.utils.data.datapipes.decorators import functional_datapipe
from minitensor.utils.data.datapipes.functions import length_of, warn_of_unpicklable

__all__ = [
    "BatcherMapDataPipe", "ConcaterMapDataPipe", "MapperMapDataPipe", "SequenceWrapperMapDataPipe",
    "ShufflerIterDataPipe", "ZipperMapDataPipe",
]  # fmt: skip


class SequenceWrapperMapDataPipe(MapDataPipe[Any]):
    """A list or dict as a pipe, copied unless `deepcopy` is False."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        """The samples."""
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warn(
                    "The input sequence can not be deepcopied, please be aware of in-place modification would affect "
                    "source data"
                )

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """A function of each sample."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any] = lambda x: x) -> None:
        """The function."""
        super().__init__()
        warn_of_unpicklable(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[Any]):
    """Batches of samples; with `drop_last` without a last one that is smaller."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk) -> None:
        """AssertionError for an empty batch."""
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        batch = []
        try:
            for number in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[number])
        except IndexError as error:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from error
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self, self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[Any]):
    """The samples of several pipes, one pipe after the other."""

    def __init__(self, *datapipes: Any) -> None:
        """ValueError without pipes, TypeError for what is none or has no length."""
        _check(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        place = index
        for pipe in self.datapipes:
            if place < len(pipe):
                return pipe[place]
            place -= len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[Any]):
    """The samples of several pipes together, as tuples."""

    def __init__(self, *datapipes: Any) -> None:
        """ValueError without pipes, TypeError for what is none or has no length."""
        _check(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        found = []
        for pipe in self.datapipes:
            try:
                found.append(pipe[index])
            except IndexError as error:
                raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes {pipe}.") from error
        return tuple(found)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


def _check(pipes: tuple[Any, ...]) -> None:
    if not pipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in pipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    if not all(hasattr(type(pipe), "__len__") for pipe in pipes):
        raise TypeError("Expected all inputs be `Sized`")


@functional_datapipe("shuffle")
class _OfMap(MapDataPipe[Any]):
    """Makes a :class:`ShufflerIterDataPipe`."""

    def __new__(cls, datapipe: Any, *, indices: list[Any] | None = None) -> Any:
        """The pipe of samples in a random order."""
        return ShufflerIterDataPipe(datapipe, indices=indices)


class ShufflerIterDataPipe(IterDataPipe[Any]):
    """The samples of a pipe in a random order, one after the other."""

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        """`indices`: the numbers or keys of the samples; by default from 0."""
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()
        self._shuffled: list[Any] = self.indices

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Turn it on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Seed the next iteration."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        for index in reversed(self._shuffled) if self._enabled else self.indices:
            yield self.datapipe[index]

    def reset(self) -> None:
        """Draw another order."""
        if self._enabled:
            if self._seed is None:
                self._seed = int(empty((), dtype=int64).random_().item())
            self._rng.seed(self._seed)
            self._seed = None
            self._shuffled = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.datapipe)
