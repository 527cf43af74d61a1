"""The GPUs, each with its primary context, and which of them a thread uses."""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from minitensor import _C, _forks
from minitensor_jit.errors import CudaError
from minitensor_jit.runtime.cuda.driver import device_total, driver
from minitensor_jit.runtime.cuda.program import GpuTarget

__all__ = [
    "Gpu",
    "all_gpus",
    "check",
    "current_device",
    "enter",
    "gpu",
    "initialized",
    "keep_for_ever",
    "let_go",
    "require",
    "set_device",
    "using",
]

_PTX_OF_DRIVER = (
    # (CUDA version of the driver, newest PTX version that it reads): the release notes of the PTX ISA.
    ((13, 0), (9, 0)),
    ((12, 9), (8, 8)),
    ((12, 8), (8, 7)),
    ((12, 7), (8, 6)),
    ((12, 5), (8, 5)),
    ((12, 4), (8, 4)),
    ((12, 3), (8, 3)),
    ((12, 2), (8, 2)),
    ((12, 1), (8, 1)),
    ((12, 0), (8, 0)),
    ((11, 8), (7, 8)),
    ((11, 7), (7, 7)),
    ((11, 6), (7, 6)),
    ((11, 5), (7, 5)),
    ((11, 4), (7, 4)),
    ((11, 3), (7, 3)),
    ((11, 2), (7, 2)),
    ((11, 1), (7, 1)),
    ((11, 0), (7, 0)),
    ((10, 2), (6, 5)),
    ((10, 1), (6, 4)),
    ((10, 0), (6, 3)),
)


@dataclass(slots=True)
class Gpu:
    """One GPU that is in use."""

    index: int
    device: Any
    """PyCUDA's `Device`."""
    context: Any
    """Its primary context, which other libraries in the process use too."""
    target: GpuTarget
    lost: str = ""
    """Why nothing can run on it any more; empty as long as it can."""
    dead: list[Any] = field(default_factory=list)
    """What is no longer used of it, until a thread that has entered it lets go of that."""

    def attribute(self, name: str) -> int:
        """One of the driver's numbers, such as `MULTIPROCESSOR_COUNT`."""
        return int(self.device.get_attribute(getattr(driver().device_attribute, name)))


class _Leave:
    """Held by a thread that has entered a GPU: at its end it leaves, since PyCUDA ends the process otherwise.

    What else the thread had of its own is gone by then, and at the end of the process so are modules: all that is
    needed is kept here.
    """

    __slots__ = ("_entered", "_note", "_pop", "_thread", "context")

    def __init__(self) -> None:
        self.context: Any = None
        self._pop = driver().Context.pop
        self._note = _C.set_inside_gpu
        self._thread = threading.get_ident()
        self._entered = _entered

    def enter(self, context: Any) -> None:
        """Make the context current."""
        context.push()
        self.context = context
        self._note(True)
        self._entered.add(self._thread)

    def leave(self) -> None:
        """Leave the context that is current, if one is."""
        context, self.context = self.context, None
        if context is None:
            return
        try:
            self._pop()
        except Exception:
            # The driver is of no use any more, as in a forked child. PyCUDA forgets a context that is detached.
            with suppress(Exception):
                context.detach()
        self._note(False)
        self._entered.discard(self._thread)

    def __del__(self, get_ident: Callable[[], int] = threading.get_ident) -> None:
        # At the end of the process the main thread also takes apart what others have.
        if self._thread == get_ident():
            self.leave()


class _Thread(threading.local):
    """What a thread uses: the GPU that `cuda` means, and the one whose context is current."""

    device: int = 0
    entered: int = -1
    at_end: _Leave | None = None


_thread = _Thread()
_lock = _forks.lock()
_gpus: dict[int, Gpu] = {}
_entered: set[int] = set()
"""The threads that a GPU's context is current on."""
_ending = False
"""Whether the process ends: no thread but the main one may enter a GPU then."""
_PATIENCE = 0.5
"""Seconds that the end of the process waits for daemon threads to leave their GPUs."""


def driver_version() -> tuple[int, int]:
    """The newest version of CUDA that the driver knows."""
    number = int(driver().get_driver_version())
    return number // 1000, number % 1000 // 10


def newest_ptx(version: tuple[int, int] | None = None) -> tuple[int, int]:
    """The newest PTX that a driver of that CUDA version reads; CudaError if it is older than 10.0."""
    version = driver_version() if version is None else version
    for cuda, ptx in _PTX_OF_DRIVER:
        if version >= cuda:
            return ptx
    raise CudaError(f"the NVIDIA driver is for CUDA {version[0]}.{version[1]}; 10.0 is the oldest that will do")


def _target(device: Any) -> GpuTarget:
    major, minor = device.compute_capability()
    attribute = driver().device_attribute.MULTIPROCESSOR_COUNT
    try:
        # An older driver gets code in a PTX version that it reads, of an older processor if need be.
        return GpuTarget.of(
            f"sm_{major}{minor}", multiprocessors=int(device.get_attribute(attribute)), ptx_version=newest_ptx()
        )
    except ValueError as error:
        raise CudaError(f"device cuda: {device.name()} can't be used: {error}") from error


def require(index: int) -> None:
    """Raise CudaError unless there is a GPU with that index."""
    driver()
    if not 0 <= index < device_total():
        there = "there is only cuda:0" if device_total() == 1 else f"there are cuda:0 to cuda:{device_total() - 1}"
        raise CudaError(f"CUDA error: invalid device ordinal: there is no cuda:{index}; {there}")


def gpu(index: int) -> Gpu:
    """The GPU with that index, with its context made."""
    known = _gpus.get(index)
    if known is None:
        require(index)
        with _lock:
            known = _gpus.get(index)
            if known is None:
                device = driver().Device(index)
                if not _gpus:
                    atexit.register(_end)
                target = _target(device)  # before there is a context, which PyCUDA doesn't give back cleanly
                known = Gpu(index, device, device.retain_primary_context(), target)
                keep_for_ever(known)
                _gpus[index] = known
    return known


def keep_for_ever(what: Any) -> None:
    """Have PyCUDA's objects in there outlive the interpreter: the driver takes all back when the process ends.

    PyCUDA would give them back one by one, and warns of those whose context was made by another thread.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(what))


def let_go(index: int, *what: Any) -> None:
    """Give PyCUDA's objects back where their GPU is current: elsewhere PyCUDA can't, and leaks them with a warning."""
    known = _gpus.get(index)
    if known is not None:
        known.dead.extend(what)


def _end() -> None:
    """At the end of the process: leave, and wait for daemon threads to do so, as the interpreter ends them soon."""
    global _ending
    _ending = True
    leave()
    until = time.monotonic() + _PATIENCE
    while _entered and time.monotonic() < until:
        time.sleep(0.001)


def _in_child() -> None:
    """In a forked child the driver doesn't work: `driver` says so when a GPU is asked for."""
    keep_for_ever(dict(_gpus))
    _gpus.clear()
    _entered.clear()


_forks.in_child(_in_child)


def all_gpus() -> list[Gpu]:
    """Those that are in use."""
    return list(_gpus.values())


def initialized() -> bool:
    """Whether any GPU is in use."""
    return bool(_gpus)


def forget_gpus() -> None:
    """Begin anew, for another driver."""
    _gpus.clear()
    _thread.entered, _thread.device = -1, 0


def current_device() -> int:
    """The index of the GPU that `cuda` means on this thread."""
    return _thread.device


def set_device(index: int) -> None:
    """Have `cuda` mean that GPU on this thread."""
    require(index)
    _thread.device = index


def enter(index: int) -> Gpu:
    """The GPU, its context current on this thread; CudaError if it is lost."""
    known = _gpus.get(index) or gpu(index)
    if known.lost:
        raise CudaError(known.lost)
    if _ending and threading.get_ident() != threading.main_thread().ident:
        leave()
        raise SystemExit
    if _thread.entered != index:
        leave()
        if _thread.at_end is None:
            _thread.at_end = _Leave()
        _thread.at_end.enter(known.context)
        _thread.entered = index
    if known.dead:
        known.dead.clear()
    return known


def leave() -> None:
    """No GPU's context is current on this thread any more."""
    _thread.entered = -1
    if _thread.at_end is not None:
        _thread.at_end.leave()


@contextmanager
def using(index: int) -> Iterator[Gpu]:
    """The GPU, current for as long as the context."""
    before = _thread.entered
    try:
        yield enter(index)
    finally:
        if before >= 0 and before != _thread.entered:
            enter(before)


RECENT = 32
_recent: dict[int, deque[str]] = {}
"""By GPU: what was launched last, to say what may have failed where the driver only tells later."""


def recent_launches(device: int) -> deque[str]:
    """Where the names of launches are put, to say what may have failed."""
    return _recent.setdefault(device, deque(maxlen=RECENT))


def launched_last(device: int) -> str:
    """What may have failed, for a message."""
    recent = list(dict.fromkeys(reversed(_recent.get(device, ()))))
    if not recent:
        return "waiting for the GPU"
    if len(recent) == 1:
        return recent[0]
    return f"one of the last launches ({', '.join(reversed(recent[:5]))})"


def check(index: int, what: str | None, call: Callable[..., Any], *arguments: Any) -> Any:
    """The call's result; what the driver raises says what was done, and that a GPU is lost if it is.

    None for `what` stands for the last launches: the driver tells of a failure when somebody waits.
    """
    d = driver()
    try:
        return call(*arguments)
    except d.MemoryError:
        raise
    except d.Error as error:
        raise failure(index, launched_last(index) if what is None else what, error) from error


_FATAL = ("illegal", "misaligned", "launch failed", "unspecified", "hardware", "assert", "timeout", "trap")


def failure(index: int, what: str, error: Exception) -> CudaError:
    """The error to raise for one of the driver's, noting that the GPU is lost if it is."""
    text = str(error)
    known = _gpus.get(index)
    result = text.partition(" - ")[0].lower()  # the assembler's words come behind it
    if known is not None and not known.lost and any(word in result for word in _FATAL):
        known.lost = (
            f"CUDA error: cuda:{index} can't be used any more in this process: its context was lost when {what} failed "
            f"({text}). Restart the program"
        )
        return CudaError(
            f"CUDA error: {what} failed on cuda:{index}: {text}. The GPU's context is lost, so nothing can run there "
            "any more in this process. With MT_CUDA_LAUNCH_BLOCKING=1 each launch is waited for, and the error names "
            "the one that fails"
        )
    return CudaError(f"CUDA error: {what} failed on cuda:{index}: {text}")
