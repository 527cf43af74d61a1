"""The driver's results: what PyCUDA raises for each, in the driver's words."""

from __future__ import annotations


class Error(Exception):
    """The base of the others, as in `pycuda.driver`."""


class MemoryError(Error):
    pass


class LogicError(Error):
    pass


class LaunchError(Error):
    pass


class RuntimeError(Error):
    pass


RESULTS: dict[str, tuple[type[Error], str]] = {
    "INVALID_VALUE": (LogicError, "invalid argument"),
    "OUT_OF_MEMORY": (MemoryError, "out of memory"),
    "NOT_INITIALIZED": (LogicError, "initialization error"),
    "NO_DEVICE": (RuntimeError, "no CUDA-capable device is detected"),
    "INVALID_DEVICE": (LogicError, "invalid device ordinal"),
    "INVALID_IMAGE": (LogicError, "device kernel image is invalid"),
    "INVALID_CONTEXT": (LogicError, "invalid device context"),
    "NO_BINARY_FOR_GPU": (RuntimeError, "no kernel image is available for execution on the device"),
    "INVALID_PTX": (LogicError, "a PTX JIT compilation failed"),
    "UNSUPPORTED_PTX_VERSION": (LogicError, "the provided PTX was compiled with an unsupported toolchain."),
    "INVALID_HANDLE": (LogicError, "invalid resource handle"),
    "NOT_FOUND": (LogicError, "named symbol not found"),
    "NOT_READY": (RuntimeError, "device not ready"),
    "ILLEGAL_ADDRESS": (LogicError, "an illegal memory access was encountered"),
    "MISALIGNED_ADDRESS": (LogicError, "misaligned address"),
    "LAUNCH_FAILED": (LaunchError, "unspecified launch failure"),
    "LAUNCH_OUT_OF_RESOURCES": (LaunchError, "too many resources requested for launch"),
    "SYSTEM_DRIVER_MISMATCH": (LogicError, "system has unsupported display driver / cuda driver combination"),
}


def failure(call: str, result: str, more: str = "") -> Error:
    """What PyCUDA raises when a call of the driver gives a result."""
    kind, words = RESULTS[result]
    return kind(f"{call} failed: {words}" + (f" - {more}" if more else ""))
