"""PyCUDA's driver, imported when a GPU is first asked for; and what is missing where there is none."""

from __future__ import annotations

import importlib
from typing import Any

from minitensor import _forks
from minitensor_jit.errors import CudaUnavailableError

__all__ = ["device_total", "driver", "forget", "tools", "why_unavailable"]

_lock = _forks.lock()
_driver: Any = None
_tools: Any = None
_count = 0
_missing: str | None = None
_asked = False

_NO_PACKAGE = (
    "the package pycuda is not installed. Install it with `pip install minitensor[cuda]`; it is built from source and "
    "needs the headers of the CUDA toolkit and the driver's library (see README.md)"
)
_NO_DRIVER = (
    "there is no NVIDIA driver, or one that is too old ({}). Install the driver of your GPU from "
    "https://www.nvidia.com/drivers and look with `nvidia-smi` whether it runs"
)
_NO_GPU = (
    "the driver finds no GPU ({}). Look at the output of `nvidia-smi`, and at CUDA_VISIBLE_DEVICES, which may hide it"
)
_FORKED = (
    "this process was forked from one that uses GPUs, and the driver doesn't work in it. Start processes with the "
    "method 'spawn' of multiprocessing, or use GPUs only in children"
)


def _look() -> str | None:
    """Import and start the driver; what is missing, or None."""
    global _driver, _tools, _count
    if _driver is None:
        try:
            importlib.import_module("pycuda")
        except ImportError:
            return _NO_PACKAGE
        try:
            _driver = importlib.import_module("pycuda.driver")
            _tools = importlib.import_module("pycuda.tools")
        except ImportError as error:  # it is linked to libcuda.so.1, which comes with the driver
            _driver = None
            return _NO_DRIVER.format(error)
    try:
        _driver.init()
        _count = int(_driver.Device.count())
    except _driver.Error as error:
        text = str(error)
        return (_NO_GPU if "no device" in text or "no CUDA-capable" in text else _NO_DRIVER).format(text)
    return None if _count else _NO_GPU.format("it counts 0")


def why_unavailable() -> str | None:
    """What is missing, and what to do; None if GPUs can be used."""
    global _asked, _missing
    if not _asked:
        with _lock:
            if not _asked:
                _missing = _look()
                _asked = True
    return _missing


def driver() -> Any:
    """The module `pycuda.driver`, started; CudaUnavailableError if there is none."""
    missing = why_unavailable()
    if missing is not None:
        raise CudaUnavailableError(f"device cuda can't be used: {missing}")
    return _driver


def tools() -> Any:
    """The module `pycuda.tools`."""
    driver()
    return _tools


def device_total() -> int:
    """How many GPUs there are; 0 where none can be used."""
    return 0 if why_unavailable() is not None else _count


def forget() -> None:
    """Look anew when a GPU is next asked for."""
    global _driver, _tools, _asked, _missing, _count
    with _lock:
        _driver, _tools, _asked, _missing, _count = None, None, False, None, 0


def _in_child() -> None:
    global _asked, _missing, _count
    if _driver is not None:
        _asked, _missing, _count = True, _FORKED, 0


_forks.in_child(_in_child)
