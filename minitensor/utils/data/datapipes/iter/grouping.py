"""Pipes of batches and groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from minitensor.utils.data.datapipes.datapipe import DataChunk, IterDataPipe
from minitensor.utils.data.datapipes.decorators import functional_datapipe
from minitensor.utils.data.datapipes.functions import length_of, warn_of_unpicklable

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Batches of samples; with `drop_last` without a last one that is smaller."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk) -> None:
        """AssertionError for an empty batch."""
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(length_of(self, self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The samples in batches, to a depth; -1 is all of it. IndexError for what is not as deep."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        """How deep."""
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for sample in self.datapipe:
            yield from self._apart(sample, self.unbatch_level)

    def _apart(self, sample: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level == -1 and not isinstance(sample, list)):
            yield sample
        elif isinstance(sample, list):
            for item in sample:
                yield from self._apart(item, max(level - 1, -1) if level > 0 else -1)
        else:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Batches of samples of one key, which a function gives; with `keep_key` each with its key.

    A group ends with `group_size` samples, or as the largest when the buffer is full: one that is smaller than
    `guaranteed_group_size` is then a RuntimeError, or dropped with `drop_remaining`. The rest comes at the end.
    """

    def __init__(
        self, datapipe: Any, group_key_fn: Callable[[Any], Any], *, keep_key: bool = False, buffer_size: int = 10000,
        group_size: int | None = None, guaranteed_group_size: int | None = None, drop_remaining: bool = False,
    ) -> None:  # fmt: skip
        """AssertionError for sizes that don't fit each other."""
        warn_of_unpicklable(group_key_fn)
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = None
        if group_size is not None and buffer_size is not None:
            if not 0 < group_size <= buffer_size:
                raise AssertionError("group_size must be > 0 and <= buffer_size")
            self.guaranteed_group_size = group_size
        if guaranteed_group_size is not None:
            if group_size is None or not 0 < guaranteed_group_size <= group_size:
                raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
            self.guaranteed_group_size = guaranteed_group_size
        self.wrapper_class = DataChunk
        self.reset()

    def reset(self) -> None:
        """Empty the buffer."""
        self._groups: defaultdict[Any, list[Any]] = defaultdict(list)
        self._held = 0

    def _given(self, key: Any, samples: list[Any]) -> Any:
        chunk = self.wrapper_class(samples)
        return (key, chunk) if self.keep_key else chunk

    def _take(self, key: Any) -> list[Any]:
        samples = self._groups.pop(key)
        self._held -= len(samples)
        return samples

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            self._groups[key].append(sample)
            self._held += 1
            if len(self._groups[key]) == self.group_size:
                yield self._given(key, self._take(key))
            if self._held == self.max_buffer_size:
                largest = max(self._groups, key=lambda k: len(self._groups[k]))
                size, least = len(self._groups[largest]), self.guaranteed_group_size
                if least is not None and size < least:
                    if not self.drop_remaining:
                        raise RuntimeError("Failed to group items", str(self._groups[largest]))
                    self._take(largest)
                else:
                    yield self._given(largest, self._take(largest))
        for key in tuple(self._groups):
            yield self._given(key, self._take(key))
