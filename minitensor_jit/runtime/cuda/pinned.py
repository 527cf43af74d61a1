"""Page-locked memory of the host, which GPUs read and write by themselves; and chunks of it for copies of the rest."""

from __future__ import annotations

import bisect
import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitensor import _C, _forks
from minitensor_jit.runtime.cuda.context import check, current_device, enter, keep_for_ever
from minitensor_jit.runtime.cuda.driver import driver
from minitensor_jit.runtime.cuda.streams import Event, Stream

__all__ = ["block_of", "make_pinned", "non_blocking", "stage_in", "stage_out", "without_waiting"]

CHUNK = 4 << 20


class Block:
    """Page-locked memory. It is given out again when its tensor is gone and no copy uses it any more."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.address: int = array.ctypes.data
        self.nbytes: int = array.nbytes
        self.events: list[Event] = []

    def used_by(self, stream: Stream) -> None:
        """What the stream was given so far uses the memory."""
        self.events.append(stream.record_event())

    def idle(self) -> bool:
        """Whether nothing uses it any more."""
        self.events = [event for event in self.events if not event.query()]
        return not self.events


_lock = _forks.lock()
_free: list[Block] = []
_addresses: list[int] = []
_blocks: list[Block] = []
keep_for_ever(_blocks)


class _Lease:
    """What a tensor holds of a block: gives it back when the tensor dies."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def __del__(self, lock: Any = _lock, free: list[Block] = _free) -> None:
        with lock:
            free.append(self.block)


def _new_block(nbytes: int) -> Block:
    array = driver().pagelocked_empty((max(nbytes, 1),), np.uint8)
    block = Block(array)
    at = bisect.bisect(_addresses, block.address)
    _addresses.insert(at, block.address)
    _blocks.insert(at, block)
    return block


def _size_class(nbytes: int) -> int:
    return 1 << max(nbytes - 1, 511).bit_length()


def _take(size: int) -> Block:
    """A block that nothing uses."""
    with _lock:
        block = next((b for b in _free if b.nbytes == size and b.idle()), None)
        if block is not None:
            _free.remove(block)
        else:
            block = _new_block(size)
    return block


def make_pinned(nbytes: int) -> Any:
    """A uint8 tensor over page-locked memory."""
    enter(current_device())
    block = _take(_size_class(nbytes))
    return _C.pinned(block.address, nbytes, _Lease(block))


def block_of(address: int) -> Block | None:
    """The page-locked block that has the address."""
    if not _addresses:
        return None
    with _lock:
        at = bisect.bisect_right(_addresses, address) - 1
        if at < 0:
            return None
        block = _blocks[at]
        return block if address < block.address + block.nbytes else None


class _Mode(threading.local):
    non_blocking: bool = False


_mode = _Mode()


def non_blocking() -> bool:
    """Whether copies from page-locked memory need not be waited for."""
    return _mode.non_blocking


@contextmanager
def without_waiting() -> Iterator[None]:
    """Have copies from page-locked memory go on while the program does."""
    before, _mode.non_blocking = _mode.non_blocking, True
    try:
        yield
    finally:
        _mode.non_blocking = before


# ---- chunks that copies of other memory go through


class _Chunks(threading.local):
    """Two chunks a thread and GPU, and the events after which they are free. Others have them when the thread ends."""

    def __init__(self) -> None:
        self.by_gpu: dict[int, list[tuple[_Lease, Event]]] = {}


_chunks = _Chunks()


def _chunk(index: int) -> tuple[_Lease, Event]:
    block, event = _take(CHUNK), Event(index)
    block.events.append(event)
    return _Lease(block), event


def _chunks_of(index: int) -> list[tuple[Block, Event]]:
    chunks = _chunks.by_gpu.get(index)
    if chunks is None:
        chunks = _chunks.by_gpu[index] = [_chunk(index) for _ in range(2)]
    return [(lease.block, event) for lease, event in chunks]


def _view(address: int, nbytes: int) -> Any:
    return (ctypes.c_char * nbytes).from_address(address)


def stage_in(index: int, to: int, source: int, nbytes: int, stream: Any) -> None:
    """Copy to the GPU: one chunk is filled while the other one is on its way."""
    chunks = _chunks_of(index)
    for turn, offset in enumerate(range(0, nbytes, CHUNK)):
        block, event = chunks[turn % 2]
        event.synchronize()
        size = min(CHUNK, nbytes - offset)
        ctypes.memmove(block.address, source + offset, size)
        check(index, "a copy to the GPU", driver().memcpy_htod_async, to + offset, _view(block.address, size), stream)
        _record(event, index, stream)


def stage_out(index: int, to: int, source: int, nbytes: int, stream: Any) -> None:
    """Copy to the host: one chunk is emptied while the other one is filled."""
    chunks = _chunks_of(index)
    waiting: list[tuple[Block, Event, int, int]] = []

    def finish() -> None:
        block, event, offset, size = waiting.pop(0)
        check(index, None, event.raw.synchronize)
        ctypes.memmove(to + offset, block.address, size)

    for turn, offset in enumerate(range(0, nbytes, CHUNK)):
        block, event = chunks[turn % 2]
        if len(waiting) == 2:
            finish()
        event.synchronize()
        size = min(CHUNK, nbytes - offset)
        check(index, None, driver().memcpy_dtoh_async, _view(block.address, size), source + offset, stream)
        _record(event, index, stream)
        waiting.append((block, event, offset, size))
    while waiting:
        finish()


def _record(event: Event, index: int, stream: Any) -> None:
    if event.raw is None:
        event.device_index = index
        event.raw = driver().Event(int(driver().event_flags.DISABLE_TIMING))
    event.raw.record(stream)
