"""Settings of PyTorch's that scripts read and set: determinism, precision, warnings, threads.

Results here are the same from run to run and for any number of threads; the settings that ask for that are kept, and
change nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from minitensor import _C

__all__ = [
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "has_lapack",
    "has_mkl",
    "has_openmp",
    "has_spectral",
    "init_num_threads",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_anomaly_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "thread_safe_generator",
    "use_deterministic_algorithms",
]

_state: dict[str, Any] = {
    "deterministic": False, "warn_only": False, "interop": 1, "warn_always": False,
}  # fmt: skip
_DEBUG_MODES = ("default", "warn", "error")
_PRECISIONS = ("highest", "high", "medium")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic results. They always are; the setting is kept for scripts that read it."""
    _state["deterministic"], _state["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic results were asked for."""
    return bool(_state["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether only a warning was asked for where results are not deterministic."""
    return bool(_state["warn_only"])


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: nothing asked for, a warning, an error."""
    return 0 if not _state["deterministic"] else 1 if _state["warn_only"] else 2


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the mode by its number or name: "default", "warn" or "error"."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def set_float32_matmul_precision(precision: str) -> None:
    """Say how the operands of float32 products may be rounded: "highest", not at all, which is so at first.

    With "high" and "medium" products of matrices on GPUs run on tensor cores, from compute capability 8.0 on: operands
    are rounded to TF32 (ten bits of a mantissa), sums are in float32. On the CPU nothing is ever rounded.
    """
    if precision not in _PRECISIONS:
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'")
    _C.set_matmul_precision(_PRECISIONS.index(precision))


def get_float32_matmul_precision() -> str:
    """What was asked for."""
    return _PRECISIONS[_C.matmul_precision()]


def set_num_interop_threads(int: int) -> None:
    """Set how many threads run independent ops. Ops run one after the other here; the number is kept."""
    if int <= 0:
        raise RuntimeError("Expected nthreads > 0 to be true, but got false.")
    _state["interop"] = int


def get_num_interop_threads() -> int:
    """What was set."""
    return int(_state["interop"])


def init_num_threads() -> None:
    """Nothing to do: the threads are started by the first op that needs them."""


def set_warn_always(b: bool, /) -> None:
    """Ask for warnings at every occasion instead of once."""
    _state["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Whether that was asked for."""
    return bool(_state["warn_always"])


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal numbers can be flushed to zero: False, since results are the same on every machine."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Whether the extension was built with the C++11 ABI of libstdc++."""
    return True


# What this build was made with: LAPACK and Fourier transforms come with NumPy; threads and products are its own.
has_lapack, has_spectral, has_mkl, has_openmp = True, True, False, False


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a device, by default of the accelerator or else `cpu`. RuntimeError for a device without one."""
    if device is None:
        device = "cpu"
    elif not isinstance(device, (str, _C.device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = _C.device(device).type if isinstance(device, str) else device.type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'minitensor.{kind}'.")
    return importlib.import_module(f"minitensor.{kind}")


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on; see `autograd.set_detect_anomaly`."""
    return _C.anomaly()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether gradients are checked for NaN in anomaly mode."""
    return _C.anomaly()[1]


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Set anomaly mode; see `autograd.set_detect_anomaly`."""
    from minitensor.autograd.anomaly_mode import set_detect_anomaly

    set_detect_anomaly(enabled, check_nan)


def thread_safe_generator() -> None:
    """None, for the default generator: no thread has one of its own, and all may draw from that at once."""
