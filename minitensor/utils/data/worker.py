"""What a worker process does: it fetches the batches whose numbers it gets, and sends them back."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass
from typing import Any

from minitensor._C import set_num_threads
from minitensor._functions.offered import manual_seed
from minitensor.multiprocessing.messages import Channel
from minitensor.random import Generator
from minitensor.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from minitensor.utils.data.graph_settings import apply_random_seed, apply_sharding

__all__ = ["Fetcher", "Raised", "Task", "WorkerInfo", "get_worker_info"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker process knows of itself: its number, how many there are, its seed, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_info: list[WorkerInfo] = []


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a :class:`DataLoader` what it knows of itself, elsewhere None."""
    return _info[-1] if _info else None


class Raised:
    """An exception of a worker process, as its class and its text."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = type(error)
        self.text = "".join(traceback.format_exception(error))
        self.where = where

    def reraise(self) -> None:
        """Raise it here, with the traceback of there as its message."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if issubclass(self.kind, KeyError):
            raise self.kind(_Shown(message))
        try:
            error = self.kind(message)
        except Exception:  # it takes other arguments
            raise RuntimeError(message) from None
        raise error


class _Shown(str):
    """A text that a KeyError shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Fetcher:
    """The batches of a dataset, by lists of numbers; of an iterable one the next ones."""

    def __init__(self, dataset: Any, iterable: bool, batched: bool, collate_fn: Any, drop_last: bool) -> None:
        self._dataset, self._batched, self._collate, self._drop_last = dataset, batched, collate_fn, drop_last
        self._samples = iter(dataset) if iterable else None
        self._ended = False

    def fetch(self, index: Any) -> Any:
        """One batch, or one sample where there are no batches. StopIteration where an iterable dataset ends."""
        if self._samples is not None:
            return self._collate(self._next(index))
        if not self._batched:
            return self._collate(self._dataset[index])
        several = getattr(self._dataset, "__getitems__", None)
        return self._collate(several(index) if several else [self._dataset[i] for i in index])

    def _next(self, index: Any) -> Any:
        if self._ended:
            raise StopIteration
        if not self._batched:
            return next(self._samples)  # type: ignore[arg-type]
        batch = []
        for _ in index:
            try:
                batch.append(next(self._samples))  # type: ignore[arg-type]
            except StopIteration:
                self._ended = True
                break
        if not batch or (self._drop_last and len(batch) < len(index)):
            raise StopIteration
        return batch


@dataclass(frozen=True)
class Task:
    """What all workers of a loader are started with."""

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Any
    drop_last: bool
    init_fn: Any
    base_seed: int
    num_workers: int
    shared_seed: int | None = None

    def seed_pipes(self, seed: int | None) -> None:
        """Seed what shuffles among the pipes of the dataset: alike in all workers."""
        if isinstance(self.dataset, IterDataPipe):
            assert seed is not None
            apply_random_seed(self.dataset, Generator().manual_seed(seed))

    def divide(self, number: int) -> None:
        """Give a worker its part of pipes that can be divided."""
        if isinstance(self.dataset, (IterDataPipe, MapDataPipe)):
            apply_sharding(self.dataset, self.num_workers, number)

    def fetcher(self) -> Fetcher:
        """Begin with the dataset anew."""
        return Fetcher(self.dataset, self.iterable, self.batched, self.collate_fn, self.drop_last)


def _seed(base: int, number: int) -> int:
    import numpy as np

    seed = base + number
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(np.random.SeedSequence([number, base & 0xFFFFFFFF, base >> 32, 0]).generate_state(4))
    return seed


def work(channel: Channel, task: Task, number: int) -> None:
    """Answer requests until the loader closes its end, or its process is gone.

    A request is the number of the epoch, of the batch, and of its samples; without samples a new epoch begins.
    """
    where = f"in DataLoader worker process {number}"
    fetcher: Fetcher | None = None
    failed: Raised | None = None
    try:
        set_num_threads(1)
        seed = _seed(task.base_seed, number)
        _info.append(WorkerInfo(number, task.num_workers, seed, task.dataset))
        try:
            task.seed_pipes(task.shared_seed)
            if task.init_fn is not None:
                task.init_fn(number)
            task.divide(number)
            fetcher = task.fetcher()
        except Exception as error:
            failed = Raised(error, where)
        while True:
            epoch, place, index = channel.get()
            if place is None:
                task.seed_pipes(index)
                fetcher = task.fetcher()
                continue
            data: Any = failed
            ended = False
            if failed is None and fetcher is not None:
                try:
                    data = fetcher.fetch(index)
                except Exception as error:
                    ended = task.iterable and isinstance(error, StopIteration)
                    data = None if ended else Raised(error, where)
            _answer(channel, epoch, place, ended, data, where)
            del data
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass
    finally:
        channel.close()


def _answer(channel: Channel, epoch: int, place: int, ended: bool, data: Any, where: str) -> None:
    try:
        channel.put((epoch, place, ended, data))
    except (ConnectionError, KeyboardInterrupt):
        raise
    except Exception as error:
        channel.put((epoch, place, False, Raised(error, where)))
    channel.flush(wait=True)
