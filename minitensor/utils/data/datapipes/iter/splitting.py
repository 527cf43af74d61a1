"""One pipe as several: each of them gets all samples, or those that a function says."""

from __future__ import annotations

import copy as copying
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

from minitensor._warning import warn
from minitensor.utils.data.datapipes.datapipe import IterDataPipe
from minitensor.utils.data.datapipes.decorators import functional_datapipe
from minitensor.utils.data.datapipes.functions import StreamWrapper, length_of, warn_of_unpicklable

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]

_COPIES: dict[Any, Callable[[Any], Any]] = {"shallow": copying.copy, "deep": copying.deepcopy}


class _Source(IterDataPipe[Any]):
    """A pipe that several children read; what one has read and others not yet waits in their queues."""

    name: str

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int) -> None:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        if buffer_size < 0:
            warn(f"Unlimited buffer size is set for `{self.name}`, please be aware of OOM at random places")
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        self.reset()

    def reset(self) -> None:
        """Forget what waits, and read from the start."""
        self._iterator: Iterator[Any] | None = None
        self._ended = False
        self._queues: list[deque[Any]] = [deque() for _ in range(self.num_instances)]
        self._done = [False] * self.num_instances

    def __getstate__(self) -> Any:
        fresh: dict[str, Any] = {"_iterator": None, "_ended": False, "_queues": [deque() for _ in self._queues]}
        return self._state({**self.__dict__, **fresh, "_done": [False] * self.num_instances})

    def finished(self) -> bool:
        """Whether every child has had all."""
        return self._ended and all(self._done)

    def read(self, child: int) -> Iterator[Any]:
        """The samples of a child."""
        if self._iterator is None and not self._ended:
            self._iterator = iter(self.main_datapipe)
        try:
            while True:
                while not self._queues[child]:
                    if self._ended:
                        return
                    assert self._iterator is not None
                    try:
                        sample = next(self._iterator)
                    except StopIteration:
                        self._ended, self._iterator = True, None
                        return
                    self._share(sample)
                    self._check(child)
                yield self._taken(self._queues[child].popleft())
        finally:
            self._done[child] = True
            for sample in self._queues[child]:
                self._dropped(sample)
            self._queues[child].clear()

    def _share(self, sample: Any) -> None:
        raise NotImplementedError

    def _check(self, child: int) -> None:
        raise NotImplementedError

    def _taken(self, sample: Any) -> Any:
        return sample

    def _dropped(self, sample: Any) -> None:
        StreamWrapper.close_streams(sample)

    def length(self) -> int:
        """How many samples a child has."""
        raise TypeError(f"{type(self).__name__} instance doesn't have valid length")


class _ForkerIterDataPipe(_Source):
    name = "fork"

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int, copy: Any) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        if copy is not None and copy not in _COPIES:
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        self.copy = copy

    def _share(self, sample: Any) -> None:
        for queue, done in zip(self._queues, self._done, strict=True):
            if not done:
                queue.append(sample)

    def _check(self, child: int) -> None:
        waiting = max(len(queue) for queue in self._queues)
        if 0 <= self.buffer_size < waiting:
            raise BufferError(f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient.")

    def _taken(self, sample: Any) -> Any:
        return sample if self.copy is None else _COPIES[self.copy](sample)

    def _dropped(self, sample: Any) -> None:
        """Others may have it still."""

    def length(self) -> int:
        return length_of(self, self.main_datapipe)


class _DemultiplexerIterDataPipe(_Source):
    name = "demux"

    def __init__(
        self, datapipe: Any, num_instances: int, classifier_fn: Callable[[Any], Any], drop_none: bool, buffer_size: int
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def _share(self, sample: Any) -> None:
        number = self.classifier_fn(sample)
        if number is None and self.drop_none:
            StreamWrapper.close_streams(sample)
            return
        if number is None or not 0 <= number < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {number} is "
                "returned."
            )
        self._queues[number].append(sample)

    def _check(self, child: int) -> None:
        waiting = sum(len(queue) for number, queue in enumerate(self._queues) if number != child)
        if 0 <= self.buffer_size < waiting:
            raise BufferError(
                f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient."
            )


class _ChildDataPipe(IterDataPipe[Any]):
    """One of those that read a source. All of them begin together: a second iterator of one ends those of all."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe: _Source, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.read(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.length()

    def _begin(self) -> int:
        source = self.main_datapipe
        if source._valid_iterator_id is None:
            source._valid_iterator_id = 0
        elif source._valid_iterator_id == self._valid_iterator_id:
            source._valid_iterator_id += 1
            if not source.finished():
                warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and "
                    "each child DataPipe will read from the start again."
                )
            source.reset()
        self._valid_iterator_id = source._valid_iterator_id
        return self._valid_iterator_id

    def _is_valid(self, number: Any) -> bool:
        return number == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Several pipes with all samples of one; the pipe itself if it is to be one.

    At most `buffer_size` samples wait for the slowest, more is a BufferError; negative: without a limit. `copy` is
    `"shallow"` or `"deep"` for samples of their own.
    """

    def __new__(  # noqa: D102
        cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: Literal["shallow", "deep"] | None = None
    ) -> Any:
        if num_instances == 1:
            return datapipe
        source = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(source, number) for number in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Several pipes, each with the samples of one for which a function gives its number.

    None is a ValueError, or with `drop_none` a sample that goes. At most `buffer_size` samples wait.
    """

    def __new__(  # noqa: D102
        cls, datapipe: Any, num_instances: int, classifier_fn: Callable[[Any], int | None], drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:  # fmt: skip
        warn_of_unpicklable(classifier_fn)
        source = _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(source, number) for number in range(num_instances)]
