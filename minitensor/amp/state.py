"""What is set of autocast on this thread, and PyTorch's functions that read and set it."""

from __future__ import annotations

from minitensor import _C
from minitensor._warning import as_shown, warn

__all__ = [
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]

_PLACES = {"cpu": 0, "jit_cpu": 0, "cuda": 1, "jit_gpu": 1}
_CACHE = 4


def _named(device_type: object, function: str) -> str:
    if not isinstance(device_type, str):
        raise TypeError(
            f"{function}(): argument 'device_type' (position 1) must be str, not {type(device_type).__name__}"
        )
    return _C.device(device_type).type


def _place(device_type: object, function: str) -> int:
    name = _named(device_type, function)
    if name not in _PLACES:
        raise RuntimeError(f"{function}(): autocast knows devices cpu and cuda, not {name}")
    return _PLACES[name]


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast can be on for a type of device: for "cpu" and "cuda"."""
    return _named(device_type, "is_autocast_available") in _PLACES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether autocast is on for this type of device, on this thread."""
    return bool(_C.autocast_state() >> _place(device_type, "is_autocast_enabled") & 1)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Set whether autocast is on for a type of device, on this thread; of "cuda" with one argument."""
    if enabled is None:
        device_type, enabled = "cuda", device_type  # type: ignore[assignment]
        position = 1
    else:
        position = 2
    if not isinstance(enabled, bool):
        kind = type(enabled).__name__
        raise TypeError(f"set_autocast_enabled(): argument 'enabled' (position {position}) must be bool, not {kind}")
    bit = 1 << _place(device_type, "set_autocast_enabled")
    state = _C.autocast_state()
    _C.autocast_state(state | bit if enabled else state & ~bit)


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """Return the dtype that autocast lowers to on this type of device."""
    place = _place(device_type, "get_autocast_dtype")
    return _C.autocast_dtype(_C.autocast_state() >> (8 + 4 * place) & 15)


def set_autocast_dtype(device_type: str, dtype: _C.dtype) -> None:
    """Set the dtype that autocast lowers to on this type of device."""
    shift = 8 + 4 * _place(device_type, "set_autocast_dtype")
    if not isinstance(dtype, _C.dtype):
        kind = type(dtype).__name__
        raise TypeError(
            as_shown(f"set_autocast_dtype(): argument 'dtype' (position 2) must be minitensor.dtype, not {kind}")
        )
    _C.autocast_state(_C.autocast_state() & ~(15 << shift) | _C.autocast_dtype_number(dtype) << shift)


def is_autocast_cache_enabled() -> bool:
    """Return whether casts of leaves that want a gradient are kept until the outermost autocast ends."""
    return bool(_C.autocast_state() & _CACHE)


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of leaves are kept."""
    state = _C.autocast_state()
    _C.autocast_state(state | _CACHE if enabled else state & ~_CACHE)


def clear_autocast_cache() -> None:
    """Drop the casts that are kept."""
    _C.clear_autocast_cache()


def autocast_increment_nesting() -> int:
    """Count a context of autocast that is entered, and return how many there are."""
    return _C.enter_autocast()


def autocast_decrement_nesting() -> int:
    """Count one that ends, and return how many are left."""
    return _C.leave_autocast()


def restore_autocast(state: int, nesting: int) -> None:
    """Set the thread's state and count of contexts to what they were; the last context drops the casts."""
    if nesting == 0:
        _C.clear_autocast_cache()
    while _C.autocast_nesting() > nesting:
        _C.leave_autocast()
    _C.autocast_state(state)


def _deprecated(name: str, instead: str) -> None:
    warn(f"minitensor.{name} is deprecated. Please use minitensor.{instead} instead.", DeprecationWarning)


def is_autocast_cpu_enabled() -> bool:
    """Return what ``is_autocast_enabled("cpu")`` does."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Do what ``set_autocast_enabled("cpu", enabled)`` does."""
    _deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> _C.dtype:
    """Return what ``get_autocast_dtype("cpu")`` does."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: _C.dtype) -> None:
    """Do what ``set_autocast_dtype("cpu", dtype)`` does."""
    _deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> _C.dtype:
    """Return what ``get_autocast_dtype("cuda")`` does."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: _C.dtype) -> None:
    """Do what ``set_autocast_dtype("cuda", dtype)`` does."""
    _deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)
