"""Discrete Fourier transforms, by NumPy's library.

All three rows are linear, so a gradient is a transform too. `scale` is 0: none, 1: 1 / sqrt(n), 2: 1 / n, with n the
product of the transformed sizes; it does not depend on the direction.
"""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor._import.lazy import LazyModule
from minitensor.ops.library import shapes
from minitensor.ops.row import ROWS, opaque

np: Any = LazyModule("numpy")

__all__: list[str] = []

_WHY = "it runs in a library (pocketfft)"


def _scaled(x: Any, n: int, scale: int, dtype: Any) -> Any:
    if scale:
        x *= 1 / (math.sqrt(n) if scale == 1 else n)
    return _C.from_numpy(np.require(x.astype(dtype, copy=False), requirements=["C", "W", "O"]))


def _size(x: Any, dim: tuple[int, ...]) -> int:
    return math.prod(x.shape[d] for d in dim)


def _complex_like(x: Any) -> Any:
    return np.complex64 if x.dtype in (np.float32, np.complex64) else np.complex128


def _checked(input: Any, complex_wanted: bool) -> bool:
    if (
        input.dtype.itemsize < 4
        or input.is_complex() != complex_wanted
        or not (input.dtype.is_floating_point or input.dtype.is_complex)
    ):
        raise RuntimeError(f"Expected {'complex' if complex_wanted else 'real'} numbers, but got {input.dtype.name}")
    return True


def _c2c_kernel(input: Any, dim: tuple[int, ...], scale: int, forward: bool) -> Any:
    _checked(input, True)
    x = input.numpy()
    y = np.fft.fftn(x, axes=dim) if forward else np.fft.ifftn(x, axes=dim, norm="forward")
    return _scaled(y, _size(x, dim), scale, x.dtype)


def _r2c_kernel(input: Any, dim: tuple[int, ...], scale: int, onesided: bool) -> Any:
    _checked(input, False)
    x = input.numpy()
    y = np.fft.rfftn(x, axes=dim) if onesided else np.fft.fftn(x, axes=dim)
    return _scaled(y, _size(x, dim), scale, _complex_like(x))


def _c2r_kernel(input: Any, dim: tuple[int, ...], scale: int, last_size: int) -> Any:
    _checked(input, True)
    x = input.numpy()
    sizes = [*(x.shape[d] for d in dim[:-1]), last_size]
    y = np.fft.irfftn(x, sizes, dim, norm="forward")
    return _scaled(y, math.prod(sizes), scale, x.real.dtype)


def _r2c_vjp(g: Any, _out: Any, x: Any, dim: tuple[int, ...], scale: int, onesided: bool) -> Any:
    if onesided:  # the other half of the result does not count
        last = dim[-1]
        missing = x.shape[last] - g.shape[last]
        shape = list(g.shape)
        shape[last] = missing
        zeros = ROWS["full"].call(tuple(shape), 0, dtype=g.dtype, device=g.device)
        g = ROWS["cat"].call([g, zeros], last)
    return c2c(g, dim, scale, False).real


def _c2r_vjp(g: Any, _out: Any, _x: Any, dim: tuple[int, ...], scale: int, last_size: int) -> Any:
    half = r2c(g, dim, scale, True)
    # What stands for two elements of the whole spectrum counts twice.
    last = dim[-1] % half.ndim
    twice = np.ones(half.shape[last])
    twice[1 : 1 + last_size - half.shape[last]] = 2
    shape = [1] * half.ndim
    shape[last] = -1
    return half * _C.from_numpy(twice).to(g.device, g.dtype).reshape(shape)


c2c: Any = opaque(
    "_fft_c2c(Tensor input, int[] dim, int scale, bool forward)",
    "The transform of complex numbers.",
    called="fft.fft",
    why=_WHY,
    raises=False,
    kernel=_c2c_kernel,
    shape=lambda x, *_: _checked(x, True) and shapes.like(x),
    vjp=lambda g, _out, _x, dim, scale, forward: c2c(g, dim, scale, not forward),
)
r2c = opaque(
    "_fft_r2c(Tensor input, int[] dim, int scale, bool onesided)",
    "The transform of real numbers; of its last dimension half, if onesided: the rest is its conjugate.",
    called="fft.rfft",
    why=_WHY,
    raises=False,
    kernel=_r2c_kernel,
    shape=lambda x, *more: _checked(x, False) and shapes.half_spectrum(x, *more),
    vjp=_r2c_vjp,
)
c2r = opaque(
    "_fft_c2r(Tensor input, int[] dim, int scale, int last_size)",
    "The inverse transform to real numbers of what is half of a spectrum along the last dimension.",
    called="fft.irfft",
    why=_WHY,
    raises=False,
    kernel=_c2r_kernel,
    shape=lambda x, *more: _checked(x, True) and shapes.whole_signal(x, *more),
    vjp=_c2r_vjp,
)
