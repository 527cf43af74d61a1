"""Tensors of random numbers to test with."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import Tensor, float32, float64, int64
from minitensor._functions import offered
from minitensor._functions.offered import full, rand, randint, stack, where
from minitensor._warning import as_shown
from minitensor.creation import with_requires_grad
from minitensor.dtypes import finfo, iinfo

__all__ = ["make_tensor"]

# The range that numbers come from by default, by the kind of dtype; that of integers ends before the second bound.
_FLOAT_RANGE = (-9.0, 9.0)
_INTEGER_RANGE = (-9, 10)


def make_tensor(
    *shape: Any,
    dtype: _C.dtype,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of uniform random numbers in [low, high) for a test.

    By default in [-9, 9) for floating and complex dtypes (both parts), from -9 to 9 for integers (0 to 9 for unsigned
    ones), True or False for bool. `exclude_zero` replaces zeros by the smallest number above; `noncontiguous` gives a
    tensor with gaps between its elements.
    """
    if not isinstance(dtype, _C.dtype):
        raise TypeError(
            as_shown(f"make_tensor(): argument 'dtype' must be minitensor.dtype, not {type(dtype).__name__}")
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    made = _fill(tuple(size), dtype, low, high)
    if exclude_zero:
        smallest = finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
        made = where(made == 0, full((), smallest, dtype=dtype), made)
    if noncontiguous and made.numel() > 1:
        made = stack((made, made), -1)[..., 0]
    made = made.to(device=device)
    return with_requires_grad(made, requires_grad)


def _fill(size: tuple[int, ...], dtype: _C.dtype, low: float | None, high: float | None) -> Tensor:
    if dtype is _C.bool:
        return randint(0 if low is None else int(low), 2 if high is None else int(high), size).to(_C.bool)
    if dtype.is_floating_point or dtype.is_complex:
        a, b = (_FLOAT_RANGE[0] if low is None else low), (_FLOAT_RANGE[1] if high is None else high)
        _check(a, b)
        limits = finfo(dtype)
        a, b = max(a, limits.min), min(b, limits.max)
        if dtype.is_complex:
            parts = [rand(size, dtype=dtype.to_real()) * (b - a) + a for _ in range(2)]
            return offered.complex(*parts)
        return (rand(size, dtype=float64 if dtype is float64 else float32) * (b - a) + a).to(dtype)
    bounds = iinfo(dtype)
    first = max(_INTEGER_RANGE[0], int(bounds.min)) if low is None else int(low)
    last = _INTEGER_RANGE[1] if high is None else int(high)
    _check(first, last)
    return randint(max(first, int(bounds.min)), min(last, int(bounds.max)), size, dtype=int64).to(dtype)


def _check(low: float, high: float) -> None:
    if not low < high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
