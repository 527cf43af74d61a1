"""Random numbers as PyTorch 2.13 draws them on the CPU, for generators of its kind.

What is filled is filled in the order of its elements in memory. Normal numbers of a tensor that isn't contiguous are
drawn one by one. docs/numerics.md has how numbers come of the generator's words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._warning import warn
from minitensor.composite.creation import empty_like
from minitensor.composite.numbers import whole
from minitensor.composite.shape import broadcast_tensors
from minitensor.dtypes import finfo
from minitensor.ops import random as _ops
from minitensor.ops.complex import view_as_complex, view_as_real
from minitensor.ops.reduction import argmax
from minitensor.ops.sort import topk

__all__ = [
    "as_torch",
    "bernoulli",
    "bernoulli_",
    "binomial",
    "complex_parts",
    "fill",
    "integer_bounds",
    "integers",
    "largest_exact",
    "multinomial",
    "noise_like",
    "normal",
    "normal_",
    "poisson",
    "random_",
    "shuffled",
    "uniform",
    "uniform_",
]

Tensor = _C.Tensor
_draw = _C._draw_from
as_torch: Callable[[Any, Any], bool] = _C._draws_as_torch
"""Whether what is drawn from a generator, None for the default one, on a device is PyTorch's numbers."""


def _in_memory_order(x: Any) -> Any:
    """The same elements, those that are further apart in dimensions that come earlier."""
    strides = x.stride()
    order = sorted(range(x.ndim), key=lambda d: -strides[d])
    return x if order == list(range(x.ndim)) else x.permute(order)


def fill(self: Any, generator: Any, op: Any, *parameters: Any) -> Any:
    """Fill a tensor with what a random op draws."""
    _draw(generator, _C.fill_random, op, _in_memory_order(self), *parameters)
    return self


# ---- real and complex numbers


def uniform(size: Any, dtype: Any, device: Any, generator: Any) -> Any:
    """Uniform numbers in [0, 1)."""
    return complex_parts(size, dtype, lambda s, t: _draw(generator, _ops.torch_uniform, s, dtype=t, device=device))


def normal(size: Any, mean: float, std: float, dtype: Any, device: Any, generator: Any) -> Any:
    """Normally distributed numbers; of complex ones both parts have the mean, and half of the variance each."""
    scale = std / math.sqrt(2) if dtype is not None and dtype.is_complex else std

    def draw(s: Any, t: Any) -> Any:
        return _draw(generator, _ops.torch_normal, s, float(mean), float(scale), dtype=t, device=device)

    return complex_parts(size, dtype, draw)


def complex_parts(size: Any, dtype: Any, draw: Callable[[Any, Any], Any]) -> Any:
    """Numbers of a dtype; complex ones are drawn as pairs of real ones."""
    if dtype is None or not dtype.is_complex:
        return draw(tuple(size), dtype)
    return view_as_complex(draw((*size, 2), dtype.to_real()))


def uniform_(self: Any, low: float, high: float, generator: Any) -> Any:
    """Fill with uniform numbers in [low, high)."""
    fill(view_as_real(self) if self.is_complex() else self, generator, _ops.torch_uniform, low, high)
    return self


def normal_(self: Any, mean: float, std: float, generator: Any) -> Any:
    """Fill with normally distributed numbers."""
    real, scale = (view_as_real(self), std / math.sqrt(2)) if self.is_complex() else (self, std)
    fill(real, generator, _ops.torch_normal, float(mean), float(scale), not real.is_contiguous())
    return self


# ---- zeros and ones


def _uniform_below(p: Any, size: Any, generator: Any, device: Any) -> Any:
    dtype = _C.float64 if p.dtype is _C.float64 else _C.float32
    return _draw(generator, _ops.torch_uniform, tuple(size), dtype=dtype, device=device) < p


def bernoulli(input: Any, p: Any, generator: Any) -> Any:
    """1 with probability p, a number or a tensor, in input's dtype; row-major."""
    if isinstance(p, Tensor):
        return _uniform_below(p, input.shape, generator, input.device).to(input.dtype)
    return _draw(generator, _ops.torch_bernoulli, tuple(input.shape), float(p), dtype=input.dtype, device=input.device)


def bernoulli_(self: Any, p: Any, generator: Any) -> Any:
    """Fill with 1 with probability p, else 0."""
    if not isinstance(p, Tensor):
        return fill(self, generator, _ops.torch_bernoulli, float(p))
    strides = self.stride()
    order = sorted(range(self.ndim), key=lambda d: -strides[d])
    ordered = self.permute(order)
    ordered.copy_(_uniform_below(p.expand(self.shape).permute(order), ordered.shape, generator, self.device))
    return self


def noise_like(input: Any, keep: float, channels: bool) -> Any:
    """What dropout multiplies with, before it is scaled: 1 with probability keep for each element, or channel."""
    if channels:
        shape = (*input.shape[:2], *(1 for _ in input.shape[2:]))
        return _draw(None, _ops.torch_bernoulli, shape, float(keep), dtype=input.dtype, device=input.device)
    return fill(empty_like(input), None, _ops.torch_bernoulli, float(keep))


# ---- integers

# Binary digits that a floating type keeps.
SIGNIFICANT = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
C_NAMES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "uint16": "short unsigned int",
    "int16": "short int", "uint32": "unsigned int", "int32": "int", "uint64": "long unsigned int", "int64": "long",
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
}  # fmt: skip
"""What PyTorch's messages call the types here."""


def _nearest(number: int, digits: int) -> int:
    """The integer that a floating type of so many binary digits has for a number."""
    excess = abs(number).bit_length() - digits
    if excess <= 0:
        return number
    whole, rest = divmod(abs(number), 1 << excess)
    half = 1 << (excess - 1)
    whole += rest > half or (rest == half and whole % 2)
    return (whole << excess) * (1 if number > 0 else -1)


def largest_exact(dtype: Any) -> int:
    """The largest of the integers from 0 on that a type all has."""
    digits = SIGNIFICANT.get(dtype.name)
    return 1 if dtype is _C.bool else (1 << (digits or 8 * dtype.itemsize - dtype.is_signed)) - (digits is None)


def integer_bounds(dtype: Any, low: int, high: int) -> tuple[int, int]:
    """The first and the last integer that are drawn for [low, high): bounds that the type rounds move inwards."""
    low, high = whole(low, "random_", "from"), whole(high, "random_", "to")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    digits = SIGNIFICANT.get(dtype.name)
    if digits is None:
        top = largest_exact(dtype)
        least = -top - 1 if dtype.is_signed else 0
    else:
        least, top = int(finfo(dtype).min), int(finfo(dtype).max)
        if least <= _nearest(low + 1, digits) < min(low, top + 1):
            low = _nearest(low + 1, digits) + (1 << (abs(low + 1).bit_length() - digits))
        if max(high, least) <= _nearest(high - 1, digits) <= top:
            high = _nearest(high - 1, digits) - (1 << (abs(high - 1).bit_length() - digits))
        if low >= high:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
                f"from={low} >= to={high}"
            )
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= top:
            raise RuntimeError(f"{name} is out of bounds for {C_NAMES[dtype.name]}")
        if digits is not None and abs(bound) > 1 << digits:
            warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {dtype} can "
                "support discrete uniform distribution only within this range."
            )
    return low, high - 1


def integers(low: int, high: int, size: Sequence[int], dtype: Any, device: Any, generator: Any) -> Any:
    """Integers from low up to, not including, high."""
    first, last = integer_bounds(dtype, low, high)
    return _draw(generator, _ops.torch_integers, tuple(size), first, last, dtype=dtype, device=device)


def random_(self: Any, low: int | None, high: int | None, generator: Any) -> Any:
    """Fill with integers: in [low, high), or from 0 over all that the type holds exactly."""
    dtype = self.dtype
    top = largest_exact(dtype)
    if low is None and high is None:
        bits = 64 if dtype in (_C.float64, _C.int64) else 32
        return fill(self, generator, _ops.torch_integers, 0, min(top, 2**63 - 1), bits)
    first, last = integer_bounds(dtype, low or 0, top + 1 if high is None else high)
    return fill(self, generator, _ops.torch_integers, first, last, 0)


def shuffled(n: int, dtype: Any, device: Any, generator: Any) -> Any:
    """A permutation of 0 to n - 1."""
    return _draw(generator, _ops.torch_permutation, n, dtype=dtype, device=device)


# ---- samples of parameters that are tensors


def multinomial(weights: Any, num_samples: int, replacement: bool, generator: Any) -> Any:
    """Indices into each row of weights; without replacement, and of one sample, by the exponential race."""
    if replacement and num_samples > 1:
        return _draw(generator, _ops.torch_multinomial, weights, num_samples)
    race = weights / fill(empty_like(weights), generator, _ops.torch_exponential, 1.0)
    if num_samples == 1:
        return argmax(race, -1, True)
    return topk(race, num_samples, -1)[1]


def poisson(input: Any, generator: Any) -> Any:
    """Samples of the Poisson distribution of the rates in input."""
    return _draw(generator, _ops.torch_poisson, input.detach().contiguous())


def binomial(count: Any, prob: Any, generator: Any) -> Any:
    """How many of `count` trials of probability `prob` succeed."""
    count, prob = broadcast_tensors(count, prob)
    return _draw(generator, _ops.torch_binomial, count.contiguous(), prob.contiguous())
