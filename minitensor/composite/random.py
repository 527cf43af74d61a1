"""Random numbers: tensors of them, samples by given parameters, and in-place forms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import minitensor as mt
from minitensor import _C
from minitensor.composite.layout import made_like
from minitensor.composite.reduction import type_name
from minitensor.composite.registry import composite
from minitensor.ops import random as _ops

__all__: list[str] = []

Tensor = _C.Tensor
_draw = _C._draw_from
# The place of the smallest number above zero that uniform(0, 1) of float32 could give between its steps.
_TINY = 2.0**-25


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _by_place_or_name(function: str, sizes: tuple[Any, ...], size: Any) -> Any:
    """The size, which is given by place, as one tuple or number by number, or as `size=`."""
    if size is None:
        return sizes
    if sizes:
        raise TypeError(f"{function}() got multiple values for argument 'size'")
    return tuple(size)


def _placed(made: Any, requires_grad: bool, out: Any = None) -> Any:
    if out is not None:
        if tuple(out.shape) != tuple(made.shape):
            out.resize_(tuple(made.shape))
        return out.copy_(made)
    return made.requires_grad_() if requires_grad else made


def _dtype_of(dtype: Any, out: Any, default: Any) -> Any:
    if out is not None and not isinstance(out, mt.Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    return dtype or (default if out is None else out.dtype)


def _uniform(size: Any, dtype: Any, device: Any, generator: Any) -> Any:
    if dtype is not None and dtype.is_complex:
        parts = [_draw(generator, _ops.uniform, size, dtype=dtype.to_real(), device=device) for _ in range(2)]
        return mt.complex(*parts)
    return _draw(generator, _ops.uniform, size, dtype=dtype, device=device)


def _normal(size: Any, dtype: Any, device: Any, generator: Any) -> Any:
    if dtype is not None and dtype.is_complex:
        # Of variance 1 as a whole: 1/2 for each part.
        parts = [
            _draw(generator, _ops.normal, size, 0.0, math.sqrt(0.5), dtype=dtype.to_real(), device=device)
            for _ in range(2)
        ]
        return mt.complex(*parts)
    return _draw(generator, _ops.normal, size, dtype=dtype, device=device)


# ---- tensors of random numbers


@composite(method=False)
def rand(
    *sizes: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [0, 1), in the default dtype unless another is given."""
    size = _by_place_or_name("rand", sizes, size)
    made = _uniform(_size(size), _dtype_of(dtype, out, _C.get_default_dtype()), device, generator)
    return _placed(made, requires_grad, out)


@composite(method=False)
def randn(
    *sizes: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from the normal distribution of mean 0 and variance 1; complex ones have variance 1 as a whole."""
    size = _by_place_or_name("randn", sizes, size)
    made = _normal(_size(size), _dtype_of(dtype, out, _C.get_default_dtype()), device, generator)
    return _placed(made, requires_grad, out)


@composite(method=False)
def randint(
    low: Any = None, high: Any = None, size: Any = None, *, generator: Any = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform integers from low (0 if only one bound is given) up to, not including, high; int64 by default."""
    if size is None:  # randint(high, size)
        low, high, size = None, low, high
    if high is None:  # randint(high, size=size)
        low, high = None, low
    if low is None:
        low = 0
    if high is None:
        raise TypeError("randint() missing 1 required positional argument: 'high'")
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    made = _draw(generator, _ops.randint, low, high, tuple(size), dtype=_dtype_of(dtype, out, _C.int64), device=device)
    return _placed(made, requires_grad, out)


@composite(method=False)
def randperm(
    n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A random permutation of 0 to n - 1; int64 by default."""
    made = _draw(generator, _ops.randperm, n, dtype=_dtype_of(dtype, out, _C.int64), device=device)
    return _placed(made, requires_grad, out)


@composite(method=False)
def rand_like(
    input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [0, 1) with input's shape and dtype."""

    def make(size: tuple[int, ...]) -> Any:
        return _uniform(size, dtype or input.dtype, device or input.device, generator)

    return _placed(made_like(input, memory_format, make), requires_grad)


@composite(method=False)
def randn_like(
    input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Standard normal numbers with input's shape and dtype."""

    def make(size: tuple[int, ...]) -> Any:
        return _normal(size, dtype or input.dtype, device or input.device, generator)

    return _placed(made_like(input, memory_format, make), requires_grad)


@composite(method=False)
def randint_like(
    input: Any, low: int, high: Any = None, *, generator: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform integers from low (0 if only one bound is given) up to high, with input's shape and dtype."""
    if high is None:
        low, high = 0, low

    def make(size: tuple[int, ...]) -> Any:
        return _draw(
            generator, _ops.randint, low, high, size, dtype=dtype or input.dtype, device=device or input.device
        )

    return _placed(made_like(input, memory_format, make), requires_grad)


# ---- samples by given parameters


@composite(method=False)
def normal(
    mean: Any, std: Any = 1.0, size: Sequence[int] | None = None, *, generator: Any = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normally distributed numbers: of one mean and deviation in a size, or of a tensor's means and deviations."""
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise TypeError("normal() of two numbers needs a size")
        dtype = _dtype_of(dtype, out, _C.get_default_dtype())
        if dtype.is_complex:
            made = _normal(tuple(size), dtype, device, generator) * std + mean
        else:
            made = _draw(generator, _ops.normal, tuple(size), float(mean), float(std), dtype=dtype, device=device)
        return _placed(made, requires_grad, out)
    if isinstance(std, Tensor):
        if std.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if std.numel() and not bool((std >= 0).all()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {float(std)}")
    like = mean if isinstance(mean, Tensor) else std
    shape = mt.broadcast_shapes(*(tuple(t.shape) for t in (mean, std) if isinstance(t, Tensor)))
    noise = _normal(tuple(shape), like.dtype, like.device, generator)
    return _placed(noise * std + mean, False, out)


@composite()
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """1 with the probability that input (or p) gives, else 0, in input's dtype."""
    if p is None:
        if not input.is_floating_point():
            raise RuntimeError(f"Expected tensor for argument #1 'p' to have a floating dtype, got {input.dtype}")
        _check_probability(input)
        p = input
    else:
        _check_probability(p)
    u = _draw(generator, _ops.uniform, tuple(input.shape), dtype=_uniform_dtype(p), device=input.device)
    # The history of what says the probabilities: their gradient is zero.
    return _placed(_with_history((u < p).to(input.dtype), input), False, out)


def _with_history(drawn: Any, p: Any) -> Any:
    return drawn + p * 0 if isinstance(p, Tensor) and p.requires_grad and _C.is_grad_enabled() else drawn


def _uniform_dtype(p: Any) -> Any:
    return _C.float64 if isinstance(p, Tensor) and p.dtype is _C.float64 else _C.float32


def _check_probability(p: Any) -> None:
    if isinstance(p, Tensor):
        # Below vmap no value can be read.
        if p.device.type != "meta" and not _C.vmap_depth() and p.numel() and not bool(((p >= 0) & (p <= 1)).all()):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")


@composite()
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """Indices into each row of input, drawn with the probabilities that the row's weights have; int64.

    Without replacement by the exponential race: the places of the largest w / e for e of an exponential distribution
    (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
    """
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if out is not None and out.dtype is not _C.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {type_name(out.dtype)}")
    if not input.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    categories = input.shape[-1]
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > categories:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if input.numel() and not bool((mt.isfinite(input) & (input >= 0)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    weights = input.detach().to(_C.float64 if input.dtype is _C.float64 else _C.float32)
    nonzero = (weights > 0).sum(-1)
    if input.numel() and bool((nonzero == 0).any()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and input.numel() and bool((nonzero < num_samples).any()):
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)"
        )
    if replacement:
        sums = weights.cumsum(-1)
        u = _draw(generator, _ops.uniform, (*sums.shape[:-1], num_samples), dtype=sums.dtype, device=sums.device)
        chosen = mt.searchsorted(sums, u * sums[..., -1:], right=True)
        last = categories - 1 - mt.argmax((weights > 0).flip(-1).to(_C.uint8), -1, True)
        made = mt.minimum(chosen, last)
    else:
        race = _exponential(tuple(weights.shape), 1.0, weights.dtype, weights.device, generator)
        made = mt.topk(weights / race, num_samples, -1)[1]
    return _placed(made, False, out)


def _exponential(size: Any, rate: float, dtype: Any, device: Any, generator: Any) -> Any:
    u = _draw(generator, _ops.uniform, size, dtype=dtype, device=device).clamp(min=_TINY)
    return mt.log1p(-u) * (-1 / rate)


def _by_numpy(name: str, generator: Any, size: Any, *parameters: Any) -> Any:
    """Samples by NumPy's methods, of a Philox stream at this op's place in the generator's."""
    import numpy as np

    seed, offset = (mt.default_generator if generator is None else generator)._reserve()
    bits = np.random.Philox(key=seed, counter=offset << 64)
    arrays = [(p.detach().double() if p.is_floating_point() else p.detach()).cpu().numpy() for p in parameters]
    drawn = getattr(np.random.Generator(bits), name)(*arrays, size=tuple(size))
    return mt.from_numpy(np.asarray(drawn))


@composite(method=False)
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Samples of the Poisson distribution of the rates in input, in its dtype."""
    if not input.is_floating_point():
        raise RuntimeError(f"\"poisson_cpu\" not implemented for '{input.dtype}'")
    if input.numel() and not bool((input >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _by_numpy("poisson", generator, input.shape, input).to(input)


@composite(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """How many of `count` trials of probability `prob` succeed, for each element; in count's dtype."""
    if not count.is_floating_point() or not prob.is_floating_point():
        raise ValueError("binomial only supports floating-point dtypes for count and prob")
    shape = mt.broadcast_shapes(tuple(count.shape), tuple(prob.shape))
    drawn = _by_numpy("binomial", generator, shape, count.to(_C.int64).clamp(min=0), prob)
    return drawn.to(count)


@composite(name="_standard_gamma", method=False)
def standard_gamma(input: Any, generator: Any = None) -> Tensor:
    """Samples of the gamma distribution of the shapes in input and scale 1, with a gradient."""
    return _draw(generator, _ops.standard_gamma, input)


@composite(name="_sample_dirichlet", method=False)
def sample_dirichlet(input: Any, generator: Any = None) -> Tensor:
    """Samples of the Dirichlet distribution of the concentrations in input's last dimension, with a gradient."""
    return _draw(generator, _ops.sample_dirichlet, input)


# ---- in place


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
    if self.is_complex():
        _fill(mt.view_as_real(self), generator, _ops.uniform, float(low), float(to))
        return self
    return _fill(self, generator, _ops.uniform, float(low), float(to))


@composite(function=False)
def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normally distributed numbers."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {float(std)}")
    if self.is_complex():
        return self.copy_(_normal(tuple(self.shape), self.dtype, self.device, generator) * std + mean)
    return _fill(self, generator, _ops.normal, float(mean), float(std))


@composite(function=False)
def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 1 with probability p (a number, or a tensor of them), else 0."""
    _check_probability(p)
    u = _draw(generator, _ops.uniform, tuple(self.shape), dtype=_uniform_dtype(p), device=self.device)
    return self.copy_(_with_history((u < p).to(self.dtype), p))


@composite(function=False)
def exponential_(self: Any, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers of the exponential distribution of rate lambd; they are above zero."""
    _needs_float(self, "exponential")
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={float(lambd)}")
    return self.copy_(_exponential(tuple(self.shape), lambd, _work_dtype(self), self.device, generator))


def _work_dtype(self: Any) -> Any:
    return _C.float64 if self.dtype is _C.float64 else _C.float32


@composite(function=False)
def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers of the Cauchy distribution."""
    _needs_float(self, "cauchy")
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={float(sigma)}")
    u = _draw(generator, _ops.uniform, tuple(self.shape), dtype=_work_dtype(self), device=self.device)
    u = u.clamp(min=_TINY)
    return self.copy_(mt.tan((u - 0.5) * math.pi) * sigma + median)


@composite(function=False)
def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with numbers whose logarithms are normally distributed."""
    _needs_float(self, "log_normal")
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={float(std)}")
    made = _draw(
        generator, _ops.normal, tuple(self.shape), float(mean), float(std), dtype=_work_dtype(self), device=self.device
    )
    return self.copy_(mt.exp(made))


@composite(function=False)
def geometric_(self: Any, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials of probability p up to and including the first success."""
    if self.dtype is _C.bool or self.is_complex():
        raise NotImplementedError(f"\"geometric\" not implemented for '{self.dtype}'")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={float(p)}")
    u = _draw(generator, _ops.uniform, tuple(self.shape), dtype=_C.float64, device=self.device).clamp(min=_TINY)
    return self.copy_(mt.ceil(mt.log1p(-u) / math.log1p(-p)))


_SIGNIFICANT = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


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
    top = _largest(self.dtype)
    low = 0 if low is None else low
    high = top + 1 if to is None else to
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    floor = -top if self.is_floating_point() else 0 if not self.dtype.is_signed else -top - 1
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not floor <= bound <= top:
            raise RuntimeError(f"{name} is out of bounds for {self.dtype}")
    shape, high = tuple(self.shape), min(high, 2**63 - 1)
    made = _draw(generator, _ops.randint, low, high, shape, dtype=_C.int64, device=self.device)
    return self.copy_(made)


def _largest(dtype: Any) -> int:
    if dtype is _C.bool:
        return 1
    if dtype.name in _SIGNIFICANT:
        return 1 << _SIGNIFICANT[dtype.name]
    return min((1 << (8 * dtype.itemsize - (1 if dtype.is_signed else 0))) - 1, 2**63 - 1)
