"""NumPy arrays over the memory of launches, for observers of what compiled code reads and writes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitensor_jit.ir.shape import Shape

__all__ = ["array_at"]


def array_at(address: int, shape: Shape) -> NDArray[Any]:
    """The array of that shape at an address, which is not copied; bfloat16 as `ir.shape.BFLOAT16`."""
    dtype = np.dtype(shape.numpy_dtype)
    if shape.size == 0:
        return np.empty(shape.dims, dtype)
    memory = (ctypes.c_char * (shape.size * dtype.itemsize)).from_address(address)
    array: NDArray[Any] = np.frombuffer(memoryview(memory), dtype)
    return array.reshape(shape.dims)
