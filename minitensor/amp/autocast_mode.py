"""The context in which ops choose the dtypes of their operands.

What it does with an op's operands is said where the op is: `autocast=` or `@autocast(cpu, gpu)` on its definition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._warning import warn
from minitensor.amp import state
from minitensor.amp.state import is_autocast_available

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


class autocast(_C.Context):  # noqa: N801  (PyTorch's name)
    """Matrix products and convolutions inside run in a lower precision; ops that lose too much by it run in float32.

    ``device_type`` is "cpu" or "cuda". ``dtype`` is bfloat16 or float16; by default what ``get_autocast_dtype`` says,
    bfloat16 on the CPU and float16 on GPUs. What an op does is a part of its definition and is what PyTorch does on
    that device: products lower their operands, losses and ``prod``, on GPUs also sums, exponentials and
    normalisation, want float32, ops of several operands that must agree want the widest. Operands of float64, integers
    and calls in place or with ``out=`` stay as they are.

    With ``cache_enabled`` the cast of a leaf that wants a gradient is kept until the outermost autocast ends. Gradients
    of the leaves have the leaves' own dtype. It is also a decorator. Raises RuntimeError for other types of devices.
    """

    def __init__(
        self,
        device_type: str,
        dtype: _C.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        kind = _C.device(device_type).type
        if not is_autocast_available(kind):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{kind}'")
        self.device = kind
        self.fast_dtype = state.get_autocast_dtype(kind) if dtype is None else dtype
        self._cache_enabled = state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._can_be_on()

    def _can_be_on(self) -> bool:
        """Whether there is the device, and the dtype is one that it lowers to; warns otherwise."""
        from minitensor import cuda

        gpu = self.device in ("cuda", "jit_gpu")
        if gpu and not cuda.is_available():
            reason = "CUDA is not available or torch_xla is imported. Disabling autocast."
        elif self.fast_dtype not in (_C.bfloat16, _C.float16):
            name = "CUDA" if gpu else "CPU"
            reason = (
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of minitensor.bfloat16, minitensor.float16 currently."
            )
        else:
            return True
        warn(reason)
        return False

    def _now(self) -> tuple[int, int]:
        return _C.autocast_state(), _C.autocast_nesting()

    def _set(self) -> autocast:
        if isinstance(self.fast_dtype, _C.dtype):
            state.set_autocast_dtype(self.device, self.fast_dtype)
        state.set_autocast_enabled(self.device, self._enabled)
        state.set_autocast_cache_enabled(self._cache_enabled)
        _C.enter_autocast()
        return self

    def _restore(self, before: tuple[int, int]) -> None:
        state.restore_autocast(*before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with autocast set while it runs."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


def _cast(value: Any, device_type: str, dtype: _C.dtype) -> Any:
    """The tensors of that device among the arguments in `dtype`, as far as they are of floating point, no float64."""
    if isinstance(value, _C.Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype != _C.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(v, device_type, dtype) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def _of_type(device_type: object) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: _C.dtype | None = None) -> Any:
    """Decorate the ``forward`` of a ``Function`` so that its backward pass has the same autocast.

    With ``cast_inputs`` the tensors among its arguments are cast to that dtype while autocast is on, and ``forward``
    runs with autocast off.
    """
    _of_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = state.get_autocast_dtype(device_type)
        on = state.is_autocast_enabled(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = on
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        if not on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate the ``backward`` of a ``Function`` whose forward has ``custom_fwd``: it runs with the same autocast."""
    _of_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated
