"""Kernels that are C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["c_kernel"]

_POINTER = ctypes.c_void_p


def c_kernel(function: Any) -> Callable[..., Any]:
    """The kernel of an elementwise op that a C function computes.

    `function` is a foreign function of ctypes (`ctypes.CDLL(path).name`) or the address of one, which is

        void name(int64_t n, const T *x0, ..., const T *xk, T *out, p0, ..., pm)

    n elements of each operand, contiguous, broadcast and converted to the op's dtype T, and the parameters: double for
    a Python float, int64_t for an int or a bool. It is called without the interpreter's lock, possibly on several
    threads at once, and must not keep the pointers.
    """
    if isinstance(function, int):
        call = ctypes.CFUNCTYPE(None)(function)
    elif callable(function) and hasattr(function, "argtypes"):
        call = function
    else:
        raise TypeError(f"expected a foreign function or its address, got {type(function).__name__}")

    def kernel(*arguments: Any) -> Any:
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        if not arrays:
            raise TypeError("a C kernel needs a tensor among its operands")
        dtype = np.result_type(*arrays)
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        operands = [np.ascontiguousarray(np.broadcast_to(a, shape), dtype) for a in arrays]
        out = np.empty(shape, dtype)
        parameters = [_parameter(a) for a in arguments if not isinstance(a, np.ndarray)]
        pointers = [_POINTER(a.ctypes.data) for a in (*operands, out)]
        call(ctypes.c_int64(out.size), *pointers, *parameters)
        return out

    kernel.__doc__ = getattr(function, "__doc__", None)
    return kernel


def _parameter(value: Any) -> Any:
    if isinstance(value, (bool, int)):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    raise TypeError(f"a C kernel takes numbers as parameters, not {type(value).__name__}")
