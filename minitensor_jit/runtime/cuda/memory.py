"""Memory of GPUs as the core asks for it: blocks, copies to and from the host, and what to say when there is none.

The core keeps freed blocks by stream and size (`csrc/core/memory/cuda_caching_allocator.h`); what it can't serve comes
from here: small blocks from PyCUDA's pool, which cuts them from larger ones, and large ones from the driver.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

from minitensor import _C, _forks
from minitensor_jit.runtime.cuda import context, pinned, profile, streams
from minitensor_jit.runtime.cuda.context import check, current_device, enter, require, using
from minitensor_jit.runtime.cuda.driver import driver, tools

__all__ = ["Runtime", "memory_table"]

_POOLED = 1 << 20
"""Up to so many bytes a block comes from PyCUDA's pool, which rounds sizes up to a sixteenth of a power of two."""
_STAGED = 64 << 10
"""From so many bytes on, memory that is not page-locked goes through page-locked chunks, one being filled while the
other one is on its way. The driver itself keeps less than this in its queue."""
_MIB = 1 << 20


def view_of(address: int, nbytes: int) -> Any:
    """Host memory as an object with a buffer."""
    return (ctypes.c_char * nbytes).from_address(address)


class Runtime:
    """What the core calls; see `DeviceRuntime` in `csrc/core/memory/device_runtime.h`."""

    def __init__(self) -> None:
        self._pools: dict[int, Any] = {}
        self._blocks: dict[tuple[int, int], Any] = {}  # (GPU, address) -> what keeps the memory
        self._waiting: deque[tuple[int, int, int, int, list[streams.Event]]] = deque()
        self._used_by: dict[tuple[int, int], set[streams.Stream]] = {}
        self._lock = _forks.lock()

    # ---- GPUs

    current_device = staticmethod(current_device)
    require = staticmethod(require)

    # ---- blocks

    def allocate(self, index: int, nbytes: int) -> int:
        """The address of new memory; 0 if there is none."""
        enter(index)
        self.give_back_finished()
        d = driver()
        with self._lock:
            if nbytes > _POOLED:
                source = d.mem_alloc
            else:
                if index not in self._pools:
                    self._pools[index] = tools().DeviceMemoryPool()
                source = self._pools[index].allocate
        try:
            block = check(index, "allocating memory", source, nbytes)
        except d.MemoryError:
            return 0
        address = int(block)
        self._blocks[index, address] = block
        return address

    def release(self, index: int, address: int) -> None:
        """Give a block back to the driver."""
        block = self._blocks.pop((index, address))
        if context.gpu(index).lost:
            return
        with using(index):
            block.free()
            pool = self._pools.get(index)
            if pool is not None and not pool.active_blocks:
                pool.free_held()

    def release_later(self, index: int, stream: int, address: int, nbytes: int) -> None:
        """Give a block back to the core's cache once the other streams are done with it."""
        used_by = self._used_by.pop((index, address), set())
        events = [other.record_event() for other in used_by]
        self._waiting.append((index, stream, address, nbytes, events))
        self.give_back_finished()

    def give_back_finished(self) -> None:
        """Give back what other streams are done with."""
        for _ in range(len(self._waiting)):
            index, stream, address, nbytes, events = self._waiting.popleft()
            if all(event.query() for event in events):
                _C.cuda_reuse(index, stream, address, nbytes)
            else:
                self._waiting.append((index, stream, address, nbytes, events))

    def record_stream(self, tensor: Any, stream: streams.Stream) -> None:
        """Note that the stream works with a tensor that was made on another one."""
        address, number = _C.note_other_stream(tensor)
        if number != stream.number:
            self._used_by.setdefault((stream.device_index, address), set()).add(stream)

    def out_of_memory(self, index: int, nbytes: int) -> None:
        """Raise OutOfMemoryError with a table of what holds memory."""
        raise _C.OutOfMemoryError(out_of_memory_text(index, nbytes))

    # ---- copies, in the order of the current stream

    def copy_in(self, index: int, to: int, source: int, nbytes: int) -> None:
        """Copy from the host; its memory may be changed as soon as this returns, unless it is page-locked."""
        enter(index)
        stream = streams.stream_object(index, streams.number_of_current(index))
        with profile.copy(index, "MEMCPYHtoD", nbytes, stream):
            self._copy_in(index, to, source, nbytes, stream)

    def _copy_in(self, index: int, to: int, source: int, nbytes: int, stream: Any) -> None:
        block = pinned.block_of(source)
        if block is not None:
            check(index, "a copy to the GPU", driver().memcpy_htod_async, to, view_of(source, nbytes), stream)
            if pinned.non_blocking():
                block.used_by(streams.current_stream(index))
            else:
                streams.synchronize(index, streams.number_of_current(index))
        elif nbytes <= _STAGED:
            check(index, "a copy to the GPU", driver().memcpy_htod_async, to, view_of(source, nbytes), stream)
        else:
            pinned.stage_in(index, to, source, nbytes, stream)

    def copy_out(self, index: int, to: int, source: int, nbytes: int) -> None:
        """Copy to the host, and wait until it is there."""
        enter(index)
        number = streams.number_of_current(index)
        with profile.copy(index, "MEMCPYDtoH", nbytes, streams.stream_object(index, number)):
            self._copy_out(index, to, source, nbytes, number)

    def _copy_out(self, index: int, to: int, source: int, nbytes: int, number: int) -> None:
        if nbytes > _STAGED and pinned.block_of(to) is None:
            pinned.stage_out(index, to, source, nbytes, streams.stream_object(index, number))
        elif number:
            stream = streams.stream_object(index, number)
            check(index, None, driver().memcpy_dtoh_async, view_of(to, nbytes), source, stream)
            streams.synchronize(index, number)
        else:
            check(index, None, driver().memcpy_dtoh, view_of(to, nbytes), source)

    def copy_within(self, index: int, to: int, source_index: int, source: int, nbytes: int) -> None:
        """Copy on a GPU, or from another one."""
        enter(index)
        d = driver()
        stream = streams.stream_object(index, streams.number_of_current(index))
        if index == source_index:
            with profile.copy(index, "MEMCPYDtoD", nbytes, stream):
                check(index, "a copy on the GPU", d.memcpy_dtod_async, to, source, nbytes, stream)
            return
        # Addresses tell GPUs apart. (PyCUDA 2026.1 takes the wrong contexts in memcpy_peer.)
        streams.synchronize(source_index, streams.number_of_current(source_index))
        enter(index)
        check(index, "a copy between GPUs", d.memcpy_dtod_async, to, source, nbytes, stream)
        streams.synchronize(index, streams.number_of_current(index))


def _size(nbytes: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (_MIB, "MiB"), (1 << 10, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"


def out_of_memory_text(index: int, nbytes: int) -> str:
    """What to say of a request that can't be served."""
    enter(index)
    free, total = driver().mem_get_info()
    stats = _C.cuda_memory_stats(index)
    others = total - free - stats["reserved"]
    return (
        f"CUDA out of memory. Tried to allocate {_size(nbytes)}. GPU {index} has a total capacity of {_size(total)} of "
        f"which {_size(free)} is free. This process holds {_size(stats['reserved'])}, of which "
        f"{_size(stats['allocated'])} is in tensors and {_size(stats['reserved'] - stats['allocated'])} cached; "
        f"contexts, code and other programs hold {_size(max(others, 0))}.\n{memory_table(index)}"
    )


def memory_table(index: int, rows: int = 12) -> str:
    """What holds a GPU's memory, the largest first."""
    in_use, cached = _C.cuda_blocks(index)
    lines = [f"{'blocks':>8} {'each':>12} {'together':>12}"]
    for title, blocks in (("in tensors", in_use), ("cached", cached)):
        blocks = sorted(blocks, key=lambda block: -block[0] * block[1])
        for size, count in blocks[:rows]:
            lines.append(f"{count:>8,} {_size(size):>12} {_size(size * count):>12}  {title}")
        rest = blocks[rows:]
        if rest:
            together = sum(size * count for size, count in rest)
            lines.append(f"{sum(count for _, count in rest):>8,} {'':>12} {_size(together):>12}  {title}, smaller ones")
    return "\n".join(lines) if len(lines) > 1 else "No tensor is on the GPU."
