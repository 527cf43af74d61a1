"""The loader of batches."""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.context
import os
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from minitensor import accelerator
from minitensor._profile.events import begin_range, end_range
from minitensor._warning import warn
from minitensor.random import Generator
from minitensor.utils.data.collate import default_collate, default_convert
from minitensor.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from minitensor.utils.data.dataset import IterableDataset
from minitensor.utils.data.graph_settings import apply_random_seed, apply_sharding, apply_shuffle_settings
from minitensor.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, drawn_seed
from minitensor.utils.data.worker import Fetcher, Task, get_worker_info
from minitensor.utils.data.worker_pool import Workers

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler[None]):
    """The sampler of datasets whose samples have no numbers."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """The samples of a dataset in batches, as often as it is iterated over.

    ``batch_size=None`` gives single samples, by ``sampler``; ``batch_sampler`` gives lists of numbers by itself.
    ``shuffle`` is for :class:`RandomSampler`, with ``generator``. ``collate_fn`` makes a batch of a list of samples.
    With ``num_workers`` processes fetch batches ahead, ``prefetch_factor`` for each worker; their tensors lie in memory
    that both processes see. A worker begins with the generators of Python, NumPy and minitensor seeded by a number of
    ``generator`` and its own number, and calls ``worker_init_fn`` with its number. With ``persistent_workers`` it lives
    as long as the loader. ``multiprocessing_context`` says how it is started. What a worker raises is raised here; one
    that dies is a RuntimeError, and so is waiting longer than ``timeout`` seconds (0: for ever). Without ``in_order``
    batches come as they are ready. ``pin_memory`` is for GPUs.
    """

    _initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None."
            )
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        elif prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if isinstance(dataset, IterDataPipe):
            dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            for name, value, plain in (
                ("shuffle", shuffle, shuffle in (False, None)),
                ("sampler", sampler, sampler is None),
                ("batch_sampler", batch_sampler, batch_sampler is None),
            ):
                if not plain:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator: _Iterator | None = None
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started: a context of ``multiprocessing``, or None for its default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{known!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string specifying the start "
                    f"method, but got multiprocessing_context={context}"
                )
        self._context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.persistent_workers:
            return _Iterator(self)
        if self._iterator is None:
            self._iterator = _Iterator(self)
        else:
            self._iterator._begin(self)
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors."""
        checked = hasattr(os, "sched_getaffinity")
        most = len(os.sched_getaffinity(0)) if checked else os.cpu_count()
        if most is not None and self.num_workers > most:
            unsure = "" if checked else " (`cpuset` is not taken into account)"
            warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {most}{unsure}, which is smaller than what this DataLoader is going "
                "to create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary."
            )


class _Iterator:
    """One pass over a loader, or with persistent workers one after the other."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._iterable = loader._dataset_kind == _DatasetKind.Iterable
        self._dataset = loader.dataset
        self._sampler = loader._index_sampler
        if loader.pin_memory and not accelerator.is_available():
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used."
            )
        shared_seed = self._shared_seed(loader)
        self._workers: Workers | None = None
        self._fetcher: Fetcher | None = None
        self._sampler_iter = iter(self._sampler)
        base_seed = drawn_seed(loader.generator)
        batched, collate_fn = loader._auto_collation, loader.collate_fn
        self._base_seed = base_seed
        if loader.num_workers:
            loader.check_worker_number_rationality()
            task = Task(
                loader.dataset, self._iterable, batched, collate_fn, loader.drop_last, loader.worker_init_fn,
                base_seed, loader.num_workers, shared_seed,
            )  # fmt: skip
            prefetch = loader.prefetch_factor or 1
            self._persistent = loader.persistent_workers
            self._workers = Workers(task, loader.multiprocessing_context, loader.timeout, prefetch, loader.in_order)
            self._shared_seed(loader)  # as PyTorch draws one more here
            self._batches = self._workers.epoch(self._sampler_iter, False, None)
        else:
            if isinstance(loader.dataset, (IterDataPipe, MapDataPipe)):
                apply_sharding(loader.dataset, 1, 0)
            self._fetcher = Fetcher(loader.dataset, self._iterable, batched, collate_fn, loader.drop_last)
        self._num_yielded = 0
        self._told = loader._IterableDataset_len_called

    def _shared_seed(self, loader: DataLoader[Any]) -> int | None:
        """Seed what shuffles among the pipes of a dataset; the number, for workers to do the same."""
        if not isinstance(loader.dataset, IterDataPipe):
            return None
        seed = drawn_seed(loader.generator)
        apply_random_seed(loader.dataset, Generator().manual_seed(seed))
        return seed

    def _begin(self, loader: DataLoader[Any]) -> None:
        """Another pass with the same workers."""
        assert self._workers is not None
        self._sampler_iter = iter(self._sampler)
        self._num_yielded = 0
        self._told = loader._IterableDataset_len_called
        self._batches = self._workers.epoch(self._sampler_iter, True, self._shared_seed(loader))

    def __iter__(self) -> _Iterator:
        return self

    def __len__(self) -> int:
        return len(self._sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)

    def __next__(self) -> Any:
        started = begin_range()
        data = self._next()
        if started >= 0:
            kind = "_SingleProcessDataLoaderIter" if self._workers is None else "_MultiProcessingDataLoaderIter"
            end_range(f"enumerate(DataLoader)#{kind}.__next__", started)
        self._num_yielded += 1
        if self._iterable and self._told is not None and self._num_yielded > self._told:
            message = (
                f"Length of IterableDataset {self._dataset} was reported to be {self._told}(when accessing "
                f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
            )
            if self._workers is not None:
                message += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the "
                    "IterableDataset replica at each worker. Please see "
                    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warn(message)
        return data

    def _next(self) -> Any:
        if self._fetcher is not None:
            return self._fetcher.fetch(next(self._sampler_iter))
        assert self._workers is not None
        try:
            return next(self._batches)
        except StopIteration:
            if not self._persistent:
                self._workers.stop()
            raise
        except BaseException:
            self._workers.stop()
            raise
