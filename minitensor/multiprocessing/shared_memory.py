"""Tensors in memory that other processes may see.

The memory has no name (``memfd_create``): processes that get it are sent its descriptor, and it is gone with the last
tensor over it, whoever dies.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, uint8
from minitensor._functions.offered import frombuffer
from minitensor.autograd import inference_mode


class Memory(mmap.mmap):
    """Shared memory, as long as a tensor over it lives."""

    descriptor: int

    def tensor(self) -> Tensor:
        """Its bytes."""
        return frombuffer(self, dtype=uint8)


_by_address: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()
_by_file: weakref.WeakValueDictionary[tuple[int, int], Memory] = weakref.WeakValueDictionary()


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)


def opened(descriptor: int) -> Memory:
    """The memory of a descriptor, which is taken over; the same one for descriptors of the same memory."""
    found = os.fstat(descriptor)
    key = found.st_dev, found.st_ino
    if (known := _by_file.get(key)) is not None:
        os.close(descriptor)
        return known
    try:
        memory = Memory(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    memory.descriptor = descriptor
    weakref.finalize(memory, _close, descriptor)
    _by_file[key] = memory
    _by_address[int(memory.tensor().data_ptr())] = memory
    return memory


def memory_of(tensor: Any) -> Memory | None:
    """The shared memory in which a tensor lies, if it does."""
    return _by_address.get(int(_C.storage_bytes(tensor).data_ptr())) if _by_address else None


def is_shared(tensor: Any) -> bool:
    """Whether other processes may see the tensor's memory; that of a GPU they always may."""
    return tensor.device.type == "cuda" or (tensor.device.type == "cpu" and memory_of(tensor) is not None)


def share_memory_(tensor: Any) -> Any:
    """Move the tensor to shared memory. Tensors that had memory in common with it keep the old one."""
    if tensor.device.type != "cpu" or memory_of(tensor) is not None:
        return tensor
    data = tensor.detach()
    content = _C.storage_bytes(data)
    descriptor = os.memfd_create("minitensor", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, max(int(content.numel()), 1))
    except BaseException:
        os.close(descriptor)
        raise
    shared = opened(descriptor).tensor()
    if content.numel():
        shared.copy_(content)
    size, stride = tuple(data.shape), data.stride()
    with inference_mode(tensor.is_inference()):
        tensor.data = _C.over_storage(shared, data.dtype, data.storage_offset(), size, stride)
    return tensor
