"""Runs compiled modules on NumPy arrays, with the core's own runtime: for tools and tests, not for launches."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitensor import _C

from . import host_call
from .executable import AnyExecutable, Executable

__all__ = ["run_on_arrays"]

Array = NDArray[Any]
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_ALIGNMENT = 64
_HOST = host_call.run  # compiled code may call it


def _aligned(nbytes: int) -> Array:
    raw = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + nbytes]


def run_on_arrays(executable: AnyExecutable, args: Sequence[Array]) -> list[Array]:
    """The results for these arguments, which are copied; raises `RuntimeError` where the code reports a failure."""
    if len(args) != len(executable.parameter_shapes):
        raise ValueError(f"{executable.name} takes {len(executable.parameter_shapes)} arguments, got {len(args)}")
    for arg, shape in zip(args, executable.parameter_shapes, strict=True):
        if arg.shape != shape.dims or arg.dtype != shape.numpy_dtype:
            raise ValueError(f"an argument of {executable.name} is {arg.dtype}{list(arg.shape)}, expected {shape}")
    if not isinstance(executable, Executable):
        return executable.run_on_arrays(args)
    buffers = []
    for arg, shape in zip(args, executable.parameter_shapes, strict=True):
        copy = _aligned(shape.nbytes)
        copy[...] = np.frombuffer(np.ascontiguousarray(arg).tobytes(), np.uint8)
        buffers.append(copy)
    results = [_aligned(shape.nbytes) for shape in executable.result_shapes]
    buffers += [*results, _aligned(executable.scratch_bytes)]
    pointers = (ctypes.c_void_p * len(buffers))(*(b.ctypes.data for b in buffers))
    status = _ENTRY(executable.entry_address)(ctypes.cast(pointers, ctypes.c_void_p), _C.runtime_address())
    _C.raise_runtime_error()
    if status:
        raise RuntimeError(f"{executable.name} failed with status {status}")
    shapes = executable.result_shapes
    return [r.view(s.numpy_dtype).reshape(s.dims) for r, s in zip(results, shapes, strict=True)]
