"""Random numbers in place: the methods that fill a tensor."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor.composite.creation import empty_like
from minitensor.composite.numbers import number
from minitensor.composite.random import torch_numbers as torch_
from minitensor.composite.random.tensors import (
    TINY,
    check_probability,
    exponential_numbers,
    normal_numbers,
    uniform_dtype,
    with_history,
)
from minitensor.composite.registry import composite
from minitensor.ops import random as _ops
from minitensor.ops.complex import view_as_real
from minitensor.ops.elementwise import ceil, exp
from minitensor.ops.pointwise import log1p, tan

__all__: list[str] = []

Tensor = _C.Tensor
_draw = _C._draw_from
_as_torch = torch_.as_torch


def _fill(self: Any, generator: Any, op: Any, *parameters: Any) -> Any:
    return _draw(generator, _C.fill_random, op, self, *parameters)


def _needs_float(self: Any, name: str) -> None:
    if not self.is_floating_point():
        raise NotImplementedError(f"\"{name}\" not implemented for '{self.dtype}'")


@composite(function=False)
def uniform_(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **more: float) -> Tensor:
    """Fill with uniform numbers in [from, to); of complex numbers both parts."""
    low = more.pop("from", from_)
    if more:
        raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(more))}'")
    low, to = number(low, "uniform_", "from"), number(to, "uniform_", "to")
    if _as_torch(generator, self.device):
        return torch_.uniform_(self, float(low), float(to), generator)
    if self.is_complex():
        _fill(view_as_real(self), generator, _ops.uniform, float(low), float(to))
        return self
    return _fill(self, generator, _ops.uniform, float(low), float(to))


@composite(function=False)
def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normally distributed numbers."""
    mean, std = number(mean, "normal_", "mean"), number(std, "normal_", "std")
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {float(std)}")
    if _as_torch(generator, self.device):
        return torch_.normal_(self, mean, std, generator)
    if self.is_complex():
        return self.copy_(normal_numbers(tuple(self.shape), self.dtype, self.device, generator) * std + mean)
    return _fill(self, generator, _ops.normal, float(mean), float(std))


@composite(function=False)
def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 1 with probability p (a number, or a tensor of them), else 0."""
    check_probability(p)
    if _as_torch(generator, self.device):
        if not (isinstance(p, Tensor) and (p.requires_grad or _C.is_recorded(p))):
            return torch_.bernoulli_(self, p, generator)
        return self.copy_(with_history(torch_.bernoulli_(empty_like(self), p, generator), p))
    u = _draw(generator, _ops.uniform, tuple(self.shape), dtype=uniform_dtype(p), device=self.device)
    return self.copy_(with_history((u < p).to(self.dtype), p))


@composite(function=False)
def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers of the exponential distribution of rate lambd; they are above zero."""
    _needs_float(self, "exponential")
    lambd = number(lambd, "exponential_", "lambd")
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={float(lambd)}")
    if _as_torch(generator, self.device):
        return torch_.fill(self, generator, _ops.torch_exponential, float(lambd))
    return self.copy_(exponential_numbers(tuple(self.shape), lambd, _work_dtype(self), self.device, generator))


def _work_dtype(self: Any) -> Any:
    return _C.float64 if self.dtype is _C.float64 else _C.float32


@composite(function=False)
def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers of the Cauchy distribution."""
    _needs_float(self, "cauchy")
    median, sigma = number(median, "cauchy_", "median"), number(sigma, "cauchy_", "sigma")
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={float(sigma)}")
    if _as_torch(generator, self.device):
        return torch_.fill(self, generator, _ops.torch_cauchy, float(median), float(sigma))
    u = _draw(generator, _ops.uniform, tuple(self.shape), dtype=_work_dtype(self), device=self.device)
    u = u.clamp(min=TINY)
    return self.copy_(tan((u - 0.5) * math.pi) * sigma + median)


@composite(function=False)
def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers whose logarithms are normally distributed."""
    _needs_float(self, "log_normal")
    mean, std = number(mean, "log_normal_", "mean"), number(std, "log_normal_", "std")
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={float(std)}")
    if _as_torch(generator, self.device):
        return torch_.fill(self, generator, _ops.torch_log_normal, float(mean), float(std))
    made = _draw(
        generator, _ops.normal, tuple(self.shape), float(mean), float(std), dtype=_work_dtype(self), device=self.device
    )
    return self.copy_(exp(made))


@composite(function=False)
def geometric_(self: Any, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials of probability p up to and including the first success."""
    if self.dtype is _C.bool or self.is_complex():
        raise NotImplementedError(f"\"geometric\" not implemented for '{self.dtype}'")
    p = number(p, "geometric_", "p")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={float(p)}")
    if _as_torch(generator, self.device):
        return torch_.fill(self, generator, _ops.torch_geometric, float(p))
    u = _draw(generator, _ops.uniform, tuple(self.shape), dtype=_C.float64, device=self.device).clamp(min=TINY)
    return self.copy_(ceil(log1p(-u) / math.log1p(-p)))


@composite(function=False)
def random_(
    self: Any, from_: int | None = None, to: int | None = None, *, generator: Any = None, **more: Any
) -> Tensor:
    """Fill with uniform integers: in [from, to), in [0, to), or over all that the dtype holds exactly."""
    low = more.pop("from", from_)
    if more:
        raise TypeError(f"random_() got an unexpected keyword argument '{next(iter(more))}'")
    if low is not None and to is None and "from" not in more:
        low, to = 0, low  # random_(to)
    if _as_torch(generator, self.device):
        return torch_.random_(self, low, to, generator)
    top = torch_.largest_exact(self.dtype)
    low, last = torch_.integer_bounds(self.dtype, 0 if low is None else low, top + 1 if to is None else to)
    shape, high = tuple(self.shape), min(last + 1, 2**63 - 1)
    made = _draw(generator, _ops.randint, low, high, shape, dtype=_C.int64, device=self.device)
    return self.copy_(made)
