"""GPUs that don't exist: memory, a queue for each stream, and what was done on them.

Work is done as late as it may be: only when something waits for it. So a program that forgets to wait reads what was
there before. The order is that of the streams and events alone, the default stream being the driver's legacy one,
before and after which the others wait.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ptx import Checks, Counts, Machine, Memory, PtxFault
from ptx.memory import GLOBAL_BASE

from .errors import failure


class _Alone:
    """One thread at a time, and in that thread one thing at a time."""

    def __init__(self):
        self._lock = threading.RLock()
        self._depth = 0
        self._put_off: deque[Callable[[], None]] = deque()

    def __enter__(self):
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_):
        try:
            while self._depth == 1 and self._put_off:
                self._put_off.popleft()()
        finally:
            self._depth -= 1
            self._lock.release()

    def afterwards(self, call: Callable[[], None]) -> None:
        self._put_off.append(call)
        with self:
            pass


_alone = _Alone()


def alone(call: Callable) -> Callable:
    """One thread at a time, as the driver has it: a thread that does work for others holds them up."""

    @functools.wraps(call)
    def locked(*arguments, **options):
        with _alone:
            return call(*arguments, **options)

    return locked


def when_alone(call: Callable[[], None]) -> None:
    """For finalizers, which may come in the middle of a call that is `alone`: at once, or at its end."""
    _alone.afterwards(call)


RESULT_OF_FAULT = {
    "out of bounds": "ILLEGAL_ADDRESS",
    "misaligned address": "MISALIGNED_ADDRESS",
    "trap": "LAUNCH_FAILED",
}
"""What a GPU notices itself. Other mistakes are raised as they are: no program shall mistake them for the driver's."""


@dataclass(eq=False)
class Work:
    """Something in a queue, after others."""

    what: str
    run: Callable[[], None]
    after: list[Work]
    done: bool = False
    finished_at: float = 0.0


@dataclass(eq=False)
class Queue:
    """A stream; number 0 is the default one."""

    number: int
    pending: list[Work] = field(default_factory=list)

    def waiting(self) -> list[Work]:
        self.pending = [w for w in self.pending if not w.done]
        return self.pending


class Gpu:
    """One device. `log` has what was asked of it, in order."""

    watch: Callable[[Gpu, str, Callable[[], None], Queue], Callable[[], None]] | None = None
    """What wraps all work that is given to any GPU, for those who record it."""

    def __init__(self, index: int, settings: Settings):
        self.index = index
        self.settings = settings
        self.memory = Memory(settings.memory, GLOBAL_BASE + (index << 38))
        self.queues = {0: Queue(0)}
        self.lost: tuple[str, str] | None = None
        """The result that every call gives since a kernel failed, and what it did."""
        self.counts = Counts()
        self.launches: Counter[str] = Counter()
        self.log: list[str] = []

    def check_alive(self, call: str) -> None:
        if self.lost is not None:
            raise failure(call, *self.lost)

    @alone
    def add(self, queue: Queue) -> None:
        """A stream was made."""
        self.queues[queue.number] = queue

    @alone
    def remove(self, queue: Queue) -> None:
        """A stream was destroyed, which finishes its work."""
        self.queues[0].pending[:0] = queue.waiting()
        self.queues.pop(queue.number, None)

    @alone
    def launch(self, name: str, run: Callable[[], None], queue: Queue) -> None:
        self.launches[name] += 1
        self.give(f"launch {name}", run, queue)

    @alone
    def give(self, what: str, run: Callable[[], None], queue: Queue, more: tuple[Work, ...] = ()) -> Work:
        """Puts work into a stream's queue."""
        after = list(more) + queue.waiting()[-1:]
        default = self.queues[0]
        if queue is default:
            after += [q.pending[-1] for q in self.queues.values() if q.waiting()]
        else:
            after += default.waiting()[-1:]
        if Gpu.watch is not None:
            run = Gpu.watch(self, what, run, queue)
        work = Work(what, run, after)
        queue.pending.append(work)
        self.log.append(what)
        if self.settings.blocking:
            self.finish(work, what)
        return work

    @alone
    def finish(self, work: Work, call: str) -> None:
        """Does work, and first what it comes after."""
        stack = [work]
        while stack:
            top = stack[-1]
            waiting = [w for w in top.after if not w.done]
            if top.done:
                stack.pop()
            elif waiting:
                stack.extend(waiting)
            else:
                top.done = True
                top.after.clear()
                if self.lost is None:
                    self.do(top, call)
                top.finished_at = time.perf_counter()
                stack.pop()
        self.check_alive(call)

    def do(self, work: Work, call: str) -> None:
        try:
            work.run()
        except PtxFault as fault:
            result = RESULT_OF_FAULT.get(fault.kind)
            if result is None:
                raise
            self.lost = (result, str(fault))
            raise failure(call, *self.lost) from fault

    @alone
    def finish_queue(self, queue: Queue, call: str) -> None:
        for work in list(queue.waiting()):
            self.finish(work, call)
        self.check_alive(call)

    @alone
    def finish_all(self, call: str) -> None:
        for queue in list(self.queues.values()):
            self.finish_queue(queue, call)
        self.check_alive(call)


@dataclass
class Settings:
    """What there is, and what goes wrong."""

    devices: int = 2
    memory: int = 256 << 20
    """Bytes of each GPU."""
    capability: tuple[int, int] = (9, 0)
    driver_version: int = 13000
    ptx_version: tuple[int, int] = (9, 0)
    """The newest that the driver reads."""
    multiprocessors: int = 4
    shared_per_block: int = 232448
    blocking: bool = False
    """Do work at once, as with CUDA_LAUNCH_BLOCKING."""
    checks: Checks = field(default_factory=Checks)
    measure: bool = False
    failures: list[Failure] = field(default_factory=list)

    def fail(self, call: str, result: str = "OUT_OF_MEMORY", *, skip: int = 0, times: int = 1) -> Failure:
        """Have the call named (as in `cuMemAlloc`) give a result, after `skip` more calls, so many times."""
        planned = Failure(call, result, skip, times)
        self.failures.append(planned)
        return planned

    @alone
    def meet(self, call: str) -> None:
        for planned in self.failures:
            if planned.call == call and planned.times:
                if planned.skip:
                    planned.skip -= 1
                    continue
                planned.times -= 1
                raise failure(call, planned.result)


@dataclass(eq=False)
class Failure:
    call: str
    result: str
    skip: int
    times: int


_machines: dict[str, tuple[object, dict]] = {}
"""What was read of a text: the module and its translated kernels."""


@alone
def machine_of(text: str, settings: Settings) -> Machine:
    """A machine with code, which is read once for each text."""
    if text not in _machines:
        if len(_machines) > 4096:
            _machines.clear()
        fresh = Machine(text)
        _machines[text] = (fresh.module, fresh.kernels)
    module, kernels = _machines[text]
    machine = Machine(module, checks=settings.checks, measure=settings.measure, shared_limit=settings.shared_per_block)
    machine.kernels = kernels
    return machine
