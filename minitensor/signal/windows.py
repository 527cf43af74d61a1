"""Window functions: weights for the samples of a piece of a signal, by which its ends fade.

All take the number of samples `M`, an int or a tensor of one, and give a vector of it. `sym=True` is a symmetric
window, for filters; `sym=False` one period of a window that repeats, for spectra: the symmetric one of M + 1 samples
without the last. They are computed in float64 and rounded once to `dtype`: float32, float64 or None, the default
dtype. ValueError for another dtype, a negative M or a parameter out of its range.

Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform" (Proceedings of the IEEE 66,
1978); Nuttall, "Some windows with very good sidelobe behavior" (IEEE Transactions on Acoustics 29, 1981).
"""

# ruff: noqa: N803  (M is PyTorch's name for the number of samples)

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from minitensor import _C, special
from minitensor._C import float32, float64, get_default_device, get_default_dtype
from minitensor._functions.offered import arange, cos, exp, full_like, ones, sin, tensor
from minitensor.composite.layout import strided

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

Tensor = _C.Tensor


def _window(
    name: str, length: Any, sym: bool, formula: Callable[[Any, int], Any], dtype: Any, layout: Any, device: Any,
    requires_grad: bool,
) -> Tensor:  # fmt: skip
    """The formula at the samples' numbers 0, 1, ... as float64, with the number of intervals of a period."""
    given = length
    if isinstance(length, _C.Tensor):
        length = length.item()
    if not isinstance(length, int) and length not in (0, 1):
        raise TypeError(f"{name}(): argument 'M' must be int, not {type(given).__name__}")
    length = int(length)
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = get_default_dtype() if dtype is None else dtype
    if dtype not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if length <= 1:
        return ones(length, dtype=dtype, device=device, requires_grad=requires_grad)
    intervals = length - 1 if sym else length
    values = formula(arange(length, dtype=float64), intervals)
    return values.to(dtype).to(device or get_default_device()).requires_grad_(requires_grad)


def _in_range(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau). `center` is the middle; another can be given with sym=False only."""
    _in_range(tau > 0, f"Tau must be positive, got: {tau} instead.")
    _in_range(not (sym and center is not None), "Center must be None for symmetric windows")

    def formula(n: Any, intervals: int) -> Any:
        return exp(-(n - (intervals / 2 if center is None else center)).abs() / tau)

    return _window("exponential", M, sym, formula, dtype, layout, device, requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """sin(pi (n + 1/2) / M): half a sine wave, sampled in the middle of M intervals."""

    def formula(n: Any, intervals: int) -> Any:
        return sin(math.pi * (n + 0.5) / (intervals + 1))

    return _window("cosine", M, sym, formula, dtype, layout, device, requires_grad)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-((n - middle) / std)^2 / 2)."""
    _in_range(std > 0, f"Standard deviation must be positive, got: {std} instead.")

    def formula(n: Any, intervals: int) -> Any:
        return exp(-0.5 * ((n - intervals / 2) / std).square())

    return _window("gaussian", M, sym, formula, dtype, layout, device, requires_grad)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I0(beta sqrt(1 - x^2)) / I0(beta), with x from -1 to 1 over the window."""
    _in_range(beta >= 0, f"beta must be non-negative, got: {beta} instead.")

    def formula(n: Any, intervals: int) -> Any:
        x = 2 * n / intervals - 1
        inner = beta * (1 - x * x).clamp(min=0).sqrt()
        # I0(y) is exp(y) i0e(y): the quotient does not overflow.
        scale = special.i0e(tensor(float(beta), dtype=float64))
        return special.i0e(inner) / scale * exp(inner - beta)

    return _window("kaiser", M, sym, formula, dtype, layout, device, requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """1 - |x|, with x from -1 to 1 over the window."""

    def formula(n: Any, intervals: int) -> Any:
        return 1 - (2 * n / intervals - 1).abs()

    return _window("bartlett", M, sym, formula, dtype, layout, device, requires_grad)


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of (-1)^k a[k] cos(2 pi k n / intervals). `a`: a list or a tuple that is not empty."""
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    _in_range(len(a) > 0, "Coefficients cannot be empty")

    def formula(n: Any, intervals: int) -> Any:
        angle = 2 * math.pi * n / intervals
        total = full_like(n, float(a[0]))
        for k, factor in enumerate(a[1:], 1):
            total = total + (-1) ** k * factor * cos(k * angle)
        return total

    return _window("general_cosine", M, sym, formula, dtype, layout, device, requires_grad)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi n / intervals)."""
    a = [alpha, 1.0 - alpha]
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`general_hamming` with alpha 0.54: the first side lobe is nearly gone."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`general_hamming` with alpha 0.5: zero at its ends."""
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`general_cosine` of 0.42, 0.5, 0.08."""
    a = [0.42, 0.5, 0.08]
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`general_cosine` of four terms with side lobes below -98 dB."""
    a = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
