"""Memory of GPUs, and copies."""

from __future__ import annotations

import sys
import weakref
from functools import partial

import numpy as np
from ptx import PtxFault
from ptx.memory import OutOfMemoryError

from .contexts import Context, _gpu, state
from .errors import failure
from .gpus import Gpu, alone, when_alone
from .streams import Stream, _queue


class DeviceAllocation:
    def __init__(self, gpu: Gpu, address: int):
        self._gpu, self._address = gpu, address

    def free(self) -> None:
        if self._address is None:
            raise failure("device_allocation::free", "INVALID_HANDLE")
        address, self._address = self._address, None
        _free(self._gpu, address)

    def __int__(self) -> int:
        return self._address

    __index__ = __int__

    def __del__(self, at_end=sys.is_finalizing) -> None:
        if getattr(self, "_address", None) is not None and self._gpu.lost is None and not at_end():
            address, self._address = self._address, None
            when_alone(partial(_free, self._gpu, address))


@alone
def _free(gpu: Gpu, address: int) -> None:
    gpu.check_alive("cuMemFree")
    gpu.finish_all("cuMemFree")  # the driver waits for what may still use it
    gpu.memory.free(address)


@alone
def _allocate(gpu: Gpu, nbytes: int) -> int:
    if nbytes <= 0:
        raise failure("cuMemAlloc", "INVALID_VALUE")
    try:
        return gpu.memory.allocate(nbytes)
    except OutOfMemoryError:
        raise failure("cuMemAlloc", "OUT_OF_MEMORY") from None


def mem_alloc(nbytes: int) -> DeviceAllocation:
    gpu = _gpu("cuMemAlloc")
    return DeviceAllocation(gpu, _allocate(gpu, int(nbytes)))


def mem_get_info() -> tuple[int, int]:
    gpu = _gpu("cuMemGetInfo")
    return gpu.memory.capacity - gpu.memory.used, gpu.memory.capacity


def pagelocked_empty(shape, dtype, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    _gpu("cuMemHostAlloc")
    array = np.empty(shape, dtype, order)
    _locked[array.ctypes.data] = array.nbytes
    weakref.finalize(array, _locked.pop, array.ctypes.data, None)
    return array


_locked: dict[int, int] = {}
"""Page-locked memory of the host: start and size."""


def _is_locked(view: np.ndarray) -> bool:
    at = view.ctypes.data
    return any(start <= at and at + view.nbytes <= start + size for start, size in list(_locked.items()))


def _bytes(buffer, writable: bool = False) -> np.ndarray:
    view = memoryview(buffer)
    if not view.contiguous:
        raise ValueError("ndarray is not contiguous")
    if writable and view.readonly:
        raise BufferError("Object is not writable.")
    # ctypes arrays give formats that `cast` doesn't take.
    return np.frombuffer(buffer, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def _owner(address: int) -> Gpu:
    """The GPU that has an address; all share one space of addresses."""
    for gpu in state.gpus:
        if gpu.memory.base <= address < gpu.memory.base + (1 << 38):
            return gpu
    raise failure("cuMemcpy", "INVALID_VALUE", f"{address:#x} is no device memory")


@alone
def _check_range(call: str, address: int, size: int) -> None:
    if size:
        try:
            _owner(address).memory._place(address, size)
        except PtxFault as fault:
            raise failure(call, "INVALID_VALUE", str(fault)) from fault


def _htod(call: str, dest: int, src, stream: Stream | None, wait: bool) -> None:
    gpu, dest, source = _gpu(call), int(dest), _bytes(src)
    _check_range(call, dest, len(source))
    # Other memory than page-locked is read before the call returns.
    data = source if _is_locked(source) else source.copy()
    work = gpu.give(f"htod {len(source)}", lambda: _owner(dest).memory.write(dest, data), _queue(gpu, stream))
    if wait:
        gpu.finish(work, call)


def memcpy_htod(dest: int, src) -> None:
    _htod("cuMemcpyHtoD", dest, src, None, True)


def memcpy_htod_async(dest: int, src, stream: Stream | None = None) -> None:
    _htod("cuMemcpyHtoDAsync", dest, src, stream, False)


def _dtoh(call: str, dest, src: int, stream: Stream | None, wait: bool) -> None:
    gpu, src, target = _gpu(call), int(src), _bytes(dest, writable=True)
    _check_range(call, src, len(target))

    def run() -> None:
        target[:] = np.frombuffer(_owner(src).memory.read(src, len(target)), np.uint8)

    work = gpu.give(f"dtoh {len(target)}", run, _queue(gpu, stream))
    if wait or not _is_locked(target):
        gpu.finish(work, call)


def memcpy_dtoh(dest, src: int) -> None:
    _dtoh("cuMemcpyDtoH", dest, src, None, True)


def memcpy_dtoh_async(dest, src: int, stream: Stream | None = None) -> None:
    _dtoh("cuMemcpyDtoHAsync", dest, src, stream, False)


def _dtod(call: str, dest: int, src: int, size: int, stream: Stream | None) -> None:
    gpu, dest, src, size = _gpu(call), int(dest), int(src), int(size)
    _check_range(call, src, size)
    _check_range(call, dest, size)

    def run() -> None:
        here, there = _owner(dest), _owner(src)
        if here is there:
            here.memory.copy(dest, src, size)
        else:
            here.memory.write(dest, there.memory.read(src, size))

    gpu.give(f"dtod {size}", run, _queue(gpu, stream))


def memcpy_dtod(dest: int, src: int, size: int) -> None:
    _dtod("cuMemcpyDtoD", dest, src, size, None)


def memcpy_dtod_async(dest: int, src: int, size: int, stream: Stream | None = None) -> None:
    _dtod("cuMemcpyDtoDAsync", dest, src, size, stream)


def memcpy_peer(dest: int, src: int, size: int, dest_context: Context = None, src_context: Context = None) -> None:
    memcpy_peer_async(dest, src, size, dest_context, src_context, None)


def memcpy_peer_async(dest, src, size, dest_context=None, src_context=None, stream=None) -> None:
    """PyCUDA takes the current context for both, whatever it's given, and ends the process where that is None."""
    if dest_context is None or src_context is None:
        raise SystemExit("PyCUDA 2026.1 reads a null context here, which ends the process")
    _dtod("cuMemcpyPeerAsync", dest, src, size, stream)


def _memset(call: str, dest: int, value: int, count: int, width: int, stream: Stream | None) -> None:
    gpu, dest = _gpu(call), int(dest)
    _check_range(call, dest, count * width)
    if dest % width:
        raise failure(call, "INVALID_VALUE")
    data = np.full(count, value, f"u{width}")
    gpu.give(f"memset {count * width}", lambda: gpu.memory.write(dest, data), _queue(gpu, stream))


def memset_d8(dest: int, data: int, size: int) -> None:
    _memset("cuMemsetD8", dest, data, size, 1, None)


def memset_d16(dest: int, data: int, size: int) -> None:
    _memset("cuMemsetD16", dest, data, size, 2, None)


def memset_d32(dest: int, data: int, size: int) -> None:
    _memset("cuMemsetD32", dest, data, size, 4, None)


def memset_d8_async(dest: int, data: int, size: int, stream: Stream | None = None) -> None:
    _memset("cuMemsetD8Async", dest, data, size, 1, stream)


def memset_d16_async(dest: int, data: int, size: int, stream: Stream | None = None) -> None:
    _memset("cuMemsetD16Async", dest, data, size, 2, stream)


def memset_d32_async(dest: int, data: int, size: int, stream: Stream | None = None) -> None:
    _memset("cuMemsetD32Async", dest, data, size, 4, stream)
