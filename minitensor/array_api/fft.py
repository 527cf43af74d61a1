"""The extension `fft` of the array API standard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import fft as transforms

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def _one(name: str) -> Callable[..., Any]:
    def function(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return getattr(transforms, name)(x, n, axis, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(transforms, name).__doc__
    return function


def _many(name: str) -> Callable[..., Any]:
    def function(
        x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Any:
        return getattr(transforms, name)(x, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(transforms, name).__doc__
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_many, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the results of `fft`."""
    return transforms.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the results of `rfft`."""
    return transforms.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The results of a transform with the negative frequencies first."""
    return transforms.fftshift(x, axes)


def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of `fftshift`."""
    return transforms.ifftshift(x, axes)
