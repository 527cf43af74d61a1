"""The worker processes of a loader, seen from the loader's process."""

from __future__ import annotations

import itertools
import multiprocessing
import select
import signal
import time
import weakref
from collections.abc import Iterator
from typing import Any

from minitensor import _forks
from minitensor.multiprocessing.messages import Channel
from minitensor.utils.data.worker import Raised, Task, work

_PATIENCE = 5.0  # seconds for a worker to end by itself
_open: weakref.WeakSet[Channel] = weakref.WeakSet()


def _forget() -> None:
    # A child that held these would keep workers from seeing that the loader's process is gone.
    for channel in list(_open):
        channel.socket.close()


_forks.in_child(_forget)


class Workers:
    """Processes that fetch batches, each over a connection of its own: one that dies takes nothing with it.

    Batches go to the workers in turn. With ``in_order`` they come back in the order of their numbers.
    """

    def __init__(self, task: Task, context: Any, timeout: float, prefetch: int, in_order: bool) -> None:
        context = multiprocessing if context is None else context
        self._timeout, self._prefetch, self._in_order = timeout, prefetch, in_order
        self.channels: list[Channel] = []
        self.processes: list[Any] = []
        self._stop = weakref.finalize(self, _stop, self.channels, self.processes)
        self._epoch = 0
        try:
            for number in range(task.num_workers):
                mine, theirs = Channel.pair()
                _open.add(mine)
                self.channels.append(mine)
                process = context.Process(target=work, args=(theirs, task, number), daemon=True)
                process.start()
                self.processes.append(process)
                theirs.socket.close()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the processes."""
        self._stop()

    def epoch(self, indices: Iterator[Any], anew: bool, shared_seed: int | None) -> Iterator[Any]:
        """The batches with these numbers; ``anew`` if the workers have worked before. The seed is for pipes."""
        self._epoch += 1
        epoch = self._epoch
        count = len(self.channels)
        active = [True] * count
        outstanding: dict[int, int] = {}  # batch: worker
        arrived: dict[int, Any] = {}
        turns = itertools.cycle(range(count))
        places = itertools.count()
        wanted = 0
        if anew:
            for worker in range(count):
                self._put(worker, (epoch, None, shared_seed))

        def ask() -> None:
            for _ in range(count):
                worker = next(turns)
                if active[worker] and (self._in_order or load(worker) < self._prefetch):
                    break
            else:
                return
            try:
                index = next(indices)
            except StopIteration:
                return
            place = next(places)
            outstanding[place] = worker
            self._put(worker, (epoch, place, index))

        def load(worker: int) -> int:
            return sum(of == worker for of in outstanding.values())

        for _ in range(self._prefetch * count):
            ask()
        while outstanding or arrived:
            if self._in_order:
                while wanted not in arrived and wanted not in outstanding and (arrived or outstanding):
                    wanted += 1
                ready = wanted if wanted in arrived else None
            else:
                ready = next(iter(arrived), None)
            if ready is not None:
                data = arrived.pop(ready)
                wanted += self._in_order
                ask()
                if isinstance(data, Raised):
                    data.reraise()
                yield data
                continue
            for worker, (of_epoch, place, ended, data) in self._receive():
                if of_epoch != epoch or place not in outstanding:
                    continue
                del outstanding[place]
                if not ended:
                    arrived[place] = data
                    continue
                if active[worker]:
                    active[worker] = False
                    for other in [p for p, of in outstanding.items() if of == worker]:
                        del outstanding[other]
                    ask()

    def _put(self, worker: int, message: Any) -> None:
        try:
            self.channels[worker].put(message)
        except ConnectionError:
            self._died(worker)

    def _receive(self) -> list[tuple[int, Any]]:
        """What has come, after waiting for something."""
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            poll = select.poll()
            of: dict[int, int] = {}
            for worker, channel in enumerate(self.channels):
                of[channel.fileno()] = worker
                poll.register(channel.fileno(), select.POLLIN | (select.POLLOUT if channel.has_waiting else 0))
                of[self.processes[worker].sentinel] = worker
                poll.register(self.processes[worker].sentinel, select.POLLIN)
            left = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
            events = dict(poll.poll(left))
            found = []
            dead = None
            for descriptor, event in events.items():
                worker = of[descriptor]
                channel = self.channels[worker]
                if descriptor != channel.fileno():
                    dead = worker
                    continue
                if event & select.POLLOUT:
                    channel.flush()
                if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    try:
                        found.append((worker, channel.get()))
                    except EOFError:
                        dead = worker
            if found:
                return found
            if dead is not None:
                self._died(dead)
            if deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _died(self, worker: int) -> None:
        process = self.processes[worker]
        process.join(_PATIENCE)
        pid, code = process.pid, process.exitcode
        self.stop()
        if code is not None and code < 0:
            name = signal.strsignal(-code)
            raise RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: {name}. ")
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly with exit code {code}")


def _stop(channels: list[Channel], processes: list[Any]) -> None:
    for channel in channels:
        channel.close()
    deadline = time.monotonic() + _PATIENCE
    for process in processes:
        if process._parent_pid != multiprocessing.current_process().pid:
            continue  # a forked child has it from its parent
        process.join(max(deadline - time.monotonic(), 0))
        if process.is_alive():
            process.terminate()
            process.join()
