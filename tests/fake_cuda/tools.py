"""Stands in for `pycuda.tools`: the memory pools, whose blocks have the sizes of PyCUDA's bins."""

from __future__ import annotations

import sys

from .blocks import _allocate, _free, pagelocked_empty
from .contexts import _gpu
from .errors import MemoryError, failure

LEADING_BITS = 4


def bin_number(size: int) -> int:
    exponent = size.bit_length() - 1 if size else 0
    shift = exponent - LEADING_BITS
    chopped = (size >> shift if shift >= 0 else size << -shift) & ((1 << LEADING_BITS) - 1)
    return exponent << LEADING_BITS | chopped


def alloc_size(number: int) -> int:
    exponent, mantissa = number >> LEADING_BITS, number & ((1 << LEADING_BITS) - 1)
    shift = exponent - LEADING_BITS
    head = (1 << LEADING_BITS) | mantissa
    ones = (1 << shift) - 1 if shift > 0 else 0
    return (head << shift if shift >= 0 else head >> -shift) | ones


class PooledDeviceAllocation:
    def __init__(self, pool: DeviceMemoryPool, address: int, size: int):
        self._pool, self._address, self._size, self._valid = pool, address, size, True

    def free(self) -> None:
        if not self._valid:
            raise failure("pooled_device_allocation::free", "INVALID_HANDLE")
        self._valid = False
        self._pool._free(self._address, self._size)

    def __int__(self) -> int:
        return self._address

    __index__ = __int__

    def __len__(self) -> int:
        return self._size

    def __del__(self, at_end=sys.is_finalizing) -> None:
        # PyCUDA's is C++; this one's functions are gone when the process ends.
        if getattr(self, "_valid", False) and not at_end():
            self.free()


class DeviceMemoryPool:
    def __init__(self):
        self._bins: dict[int, list[int]] = {}
        self._gpu = None
        self._holding = True
        self.held_blocks = self.active_blocks = self.managed_bytes = self.active_bytes = 0

    bin_number = staticmethod(bin_number)
    alloc_size = staticmethod(alloc_size)

    def allocate(self, size: int) -> PooledDeviceAllocation:
        gpu = _gpu("cuMemAlloc")
        if self._gpu is None:
            self._gpu = gpu
        number = bin_number(size)
        held = self._bins.setdefault(number, [])
        if held:
            # Work in queues may still use what was given back; its shadow must stay until then.
            gpu.finish_all("cuMemAlloc")
            address = held.pop()
            self.held_blocks -= 1
        else:
            address = self._fresh(alloc_size(number))
            self.managed_bytes += alloc_size(number)
        # Of the block only what was asked for counts as memory, and nothing of it as written.
        memory = gpu.memory
        place = address - memory.base
        memory.storage.shadow[place : place + alloc_size(number)] = 0
        memory.storage.shadow[place : place + size] = 1
        self.active_blocks += 1
        self.active_bytes += size
        return PooledDeviceAllocation(self, address, size)

    def _fresh(self, size: int) -> int:
        while True:
            try:
                return _allocate(self._gpu, size)
            except MemoryError:
                if not self._release_largest():
                    raise failure(
                        "memory_pool::allocate", "OUT_OF_MEMORY", "failed to free memory for allocation"
                    ) from None

    def _release_largest(self) -> bool:
        for number in sorted(self._bins, reverse=True):
            if self._bins[number]:
                self._release(number)
                return True
        return False

    def _release(self, number: int) -> None:
        _free(self._gpu, self._bins[number].pop())
        self.managed_bytes -= alloc_size(number)
        self.held_blocks -= 1

    def _free(self, address: int, size: int) -> None:
        self.active_blocks -= 1
        self.active_bytes -= size
        number = bin_number(size)
        if self._holding:
            self._bins.setdefault(number, []).append(address)
            self.held_blocks += 1
        elif self._gpu.lost is None:
            _free(self._gpu, address)
            self.managed_bytes -= alloc_size(number)

    def free_held(self) -> None:
        for number, held in self._bins.items():
            while held:
                self._release(number)

    def stop_holding(self) -> None:
        self._holding = False
        self.free_held()


class PageLockedMemoryPool:
    """Arrays of page-locked memory; it keeps nothing."""

    def __init__(self, allocator=None):
        self.held_blocks = self.active_blocks = 0

    def allocate(self, shape, dtype, order: str = "C"):
        return pagelocked_empty(shape, dtype, order)

    def free_held(self) -> None:
        pass
