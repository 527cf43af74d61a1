"""Random numbers: tensors of them, and samples by given parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.complex import _complex
from minitensor.composite.creation import dtype_of, empty_like
from minitensor.composite.layout import made_like, preserve_format
from minitensor.composite.numbers import number
from minitensor.composite.order import searchsorted
from minitensor.composite.random import torch_numbers as torch_
from minitensor.composite.registry import composite, grad_fn
from minitensor.composite.shape import broadcast_shapes
from minitensor.creation import with_requires_grad
from minitensor.ops import random as _ops
from minitensor.ops.checks import refuse_where
from minitensor.ops.elementwise import isfinite, minimum
from minitensor.ops.pointwise import log1p
from minitensor.ops.reduction import argmax
from minitensor.ops.sort import topk
from minitensor.random import default_generator

__all__ = [
    "TINY",
    "check_probability",
    "exponential_numbers",
    "normal_numbers",
    "uniform_dtype",
    "with_history",
]

Tensor = _C.Tensor
_draw = _C._draw_from
_as_torch = torch_.as_torch
TINY = 2.0**-25
"""The place of the smallest number above zero that uniform(0, 1) of float32 could give between its steps."""


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _by_place_or_name(function: str, sizes: tuple[Any, ...], size: Any) -> Any:
    """The size, which is given by place, as one tuple or number by number, or as `size=`."""
    if size is None:
        if not sizes:
            raise TypeError(f'{function}() missing 1 required positional arguments: "size"')
        return sizes
    if sizes:
        raise TypeError(f"{function}() got multiple values for argument 'size'")
    return tuple(size)


def _placed(made: Any, requires_grad: bool, out: Any = None) -> Any:
    if out is not None:
        if tuple(out.shape) != tuple(made.shape):
            out.resize_(tuple(made.shape))
        return out.copy_(made)
    return with_requires_grad(made, requires_grad)


def _dtype_of(dtype: Any, out: Any, default: Any) -> Any:
    return dtype_of(dtype, out) or default


def _uniform(size: Any, dtype: Any, device: Any, generator: Any) -> Any:
    if _as_torch(generator, device):
        return torch_.uniform(size, dtype, device, generator)
    if dtype is not None and dtype.is_complex:
        parts = [_draw(generator, _ops.uniform, size, dtype=dtype.to_real(), device=device) for _ in range(2)]
        return _complex(*parts)
    return _draw(generator, _ops.uniform, size, dtype=dtype, device=device)


def normal_numbers(size: Any, dtype: Any, device: Any, generator: Any) -> Any:
    """Standard normal numbers; complex ones have variance 1 as a whole."""
    if _as_torch(generator, device):
        return torch_.normal(size, 0.0, 1.0, dtype, device, generator)
    if dtype is not None and dtype.is_complex:
        # Of variance 1 as a whole: 1/2 for each part.
        parts = [
            _draw(generator, _ops.normal, size, 0.0, math.sqrt(0.5), dtype=dtype.to_real(), device=device)
            for _ in range(2)
        ]
        return _complex(*parts)
    return _draw(generator, _ops.normal, size, dtype=dtype, device=device)


# ---- tensors of random numbers


@composite(method=False)
def rand(
    *sizes: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [0, 1), in the default dtype unless another is given.

    Of shape ``sizes``. Raises NotImplementedError for integers and bools, RuntimeError for a negative size.
    """
    size = _by_place_or_name("rand", sizes, size)
    made = _uniform(_size(size), _dtype_of(dtype, out, _C.get_default_dtype()), device, generator)
    return _placed(made, requires_grad, out)


@composite(method=False)
def randn(
    *sizes: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from the normal distribution of mean 0 and variance 1; complex ones have variance 1 as a whole.

    Of shape ``sizes``, in the default dtype unless another is given. Raises NotImplementedError for integers and bools,
    RuntimeError for a negative size.
    """
    size = _by_place_or_name("randn", sizes, size)
    made = normal_numbers(_size(size), _dtype_of(dtype, out, _C.get_default_dtype()), device, generator)
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
    made = _integers(low, high, size, dtype or _dtype_of(None, out, _C.int64), device, generator)
    return _placed(made, requires_grad, out)


def _integers(low: int, high: int, size: Any, dtype: Any, device: Any, generator: Any) -> Any:
    if _as_torch(generator, device):
        return torch_.integers(low, high, size, dtype, device, generator)
    if dtype is not None and dtype.name in torch_.C_NAMES and dtype is not _C.int64:
        low, last = torch_.integer_bounds(dtype, low, high)
        high = last + 1
    return _draw(generator, _ops.randint, low, high, tuple(size), dtype=dtype, device=device)


@composite(method=False)
def randperm(
    n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A random permutation of 0 to n - 1; int64 by default."""
    dtype = _dtype_of(dtype, out, _C.int64)
    if _as_torch(generator, device):
        made = torch_.shuffled(n, dtype, device, generator)
    else:
        made = _draw(generator, _ops.randperm, n, dtype=dtype, device=device)
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
        return normal_numbers(size, dtype or input.dtype, device or input.device, generator)

    if _as_torch(generator, device or input.device):
        made = empty_like(input, dtype=dtype, device=device, memory_format=memory_format or preserve_format)
        return _placed(torch_.normal_(made, 0.0, 1.0, generator), requires_grad)
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
        return _integers(low, high, size, dtype or input.dtype, device or input.device, generator)

    return _placed(made_like(input, memory_format, make), requires_grad)


# ---- samples by given parameters


@composite(method=False)
def normal(
    mean: Any, std: Any = 1.0, size: Sequence[int] | None = None, *, generator: Any = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normally distributed numbers: of one mean and deviation in a size, or of a tensor's means and deviations.

    The gradients of means and deviations are zero; `distributions.Normal.rsample` has others.
    """
    if size is not None:
        mean, std = number(mean, "normal", "mean"), number(std, "normal", "std")
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise TypeError("normal() of two numbers needs a size")
        dtype = _dtype_of(dtype, out, _C.get_default_dtype())
        if _as_torch(generator, device):
            if std < 0:
                raise RuntimeError(f"normal expects std >= 0.0, but found std {float(std)}")
            made = torch_.normal(size, mean, std, dtype, device, generator)
        elif dtype.is_complex:
            made = normal_numbers(tuple(size), dtype, device, generator) * std + mean
        else:
            made = _draw(generator, _ops.normal, tuple(size), float(mean), float(std), dtype=dtype, device=device)
        return _placed(made, requires_grad, out)
    if isinstance(std, Tensor):
        if std.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        refuse_where((std >= 0).logical_not(), "normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {float(std)}")
    like = mean if isinstance(mean, Tensor) else std
    given = [t for t in (mean, std) if isinstance(t, Tensor)]
    shape = broadcast_shapes(*(tuple(t.shape) for t in given))
    with _C.GradMode(False):
        if not isinstance(std, Tensor) and _as_torch(generator, like.device):
            made = torch_.normal(shape, 0.0, std, like.dtype, like.device, generator) + mean
        else:
            made = normal_numbers(tuple(shape), like.dtype, like.device, generator) * std + mean
    for tensor in given:
        made = with_history(made, tensor)
    return _placed(made, False, out)


@composite()
@grad_fn("BernoulliBackward0")
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """1 with the probability that input (or p) gives, else 0, in input's dtype."""
    if isinstance(p, Tensor) and p.requires_grad:
        p = number(p, "bernoulli", "p")
    if p is None:
        if not input.is_floating_point():
            raise RuntimeError(f"Expected tensor for argument #1 'p' to have a floating dtype, got {input.dtype}")
        check_probability(input)
        p = input
    else:
        check_probability(p)
    if _as_torch(generator, input.device):
        made = torch_.bernoulli(input, p, generator)
    else:
        u = _draw(generator, _ops.uniform, tuple(input.shape), dtype=uniform_dtype(p), device=input.device)
        made = (u < p).to(input.dtype)
    # The history of what says the probabilities: their gradient is zero.
    return _placed(with_history(made, input), False, out)


def with_history(drawn: Any, p: Any) -> Any:
    """What was drawn, with the history of the tensor that it was drawn by, whose gradient is zero."""
    return drawn + p.clone().zero_() if _C.is_recorded(p) else drawn


def uniform_dtype(p: Any) -> Any:
    """The dtype of the uniform numbers that are compared with probabilities."""
    return _C.float64 if isinstance(p, Tensor) and p.dtype is _C.float64 else _C.float32


def check_probability(p: Any) -> None:
    """Raise RuntimeError unless probabilities are in [0, 1]."""
    if isinstance(p, Tensor):
        outside = ((p >= 0) & (p <= 1)).logical_not()
        refuse_where(outside, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
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
        raise RuntimeError(f"multinomial expects Long tensor out, got: {_C.type_name(out.dtype)}")
    if not input.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    categories = input.shape[-1]
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > categories:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    wrong = (isfinite(input) & (input >= 0)).logical_not()
    refuse_where(wrong, "probability tensor contains either `inf`, `nan` or element < 0")
    weights = input.detach().to(_C.float64 if input.dtype is _C.float64 else _C.float32)
    nonzero = (weights > 0).sum(-1)
    if input.numel():
        refuse_where(nonzero == 0, "invalid multinomial distribution (sum of probabilities <= 0)")
    if _as_torch(generator, input.device):
        made = torch_.multinomial(weights, num_samples, replacement, generator)
    elif replacement:
        sums = weights.cumsum(-1)
        u = _draw(generator, _ops.uniform, (*sums.shape[:-1], num_samples), dtype=sums.dtype, device=sums.device)
        chosen = searchsorted(sums, u * sums[..., -1:], right=True)
        last = categories - 1 - argmax((weights > 0).flip(-1).to(_C.uint8), -1, True)
        made = minimum(chosen, last)
    else:
        race = exponential_numbers(tuple(weights.shape), 1.0, weights.dtype, weights.device, generator)
        made = topk(weights / race, num_samples, -1)[1]
    return _placed(made, False, out)


def exponential_numbers(size: Any, rate: float, dtype: Any, device: Any, generator: Any) -> Any:
    """Numbers of the exponential distribution, above zero."""
    u = _draw(generator, _ops.uniform, size, dtype=dtype, device=device).clamp(min=TINY)
    return log1p(-u) * (-1 / rate)


def _by_numpy(name: str, generator: Any, size: Any, *parameters: Any) -> Any:
    """Samples by NumPy's methods, of a Philox stream at this op's place in the generator's."""
    import numpy as np

    seed, offset = (default_generator if generator is None else generator)._reserve()
    bits = np.random.Philox(key=seed, counter=offset << 64)
    arrays = [(p.detach().double() if p.is_floating_point() else p.detach()).cpu().numpy() for p in parameters]
    drawn = getattr(np.random.Generator(bits), name)(*arrays, size=tuple(size))
    return _C.from_numpy(np.asarray(drawn))


@composite(method=False)
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Samples of the Poisson distribution of the rates in input, in its dtype."""
    if not input.is_floating_point():
        raise RuntimeError(f"\"poisson_cpu\" not implemented for '{input.dtype}'")
    refuse_where((input >= 0).logical_not(), "invalid Poisson rate, expected rate to be non-negative")
    if _as_torch(generator, input.device):
        return with_history(torch_.poisson(input, generator), input)
    return with_history(_by_numpy("poisson", generator, input.shape, input).to(input), input)


@composite(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """How many of `count` trials of probability `prob` succeed, for each element; in count's dtype."""
    if not count.is_floating_point() or not prob.is_floating_point():
        raise ValueError("binomial only supports floating-point dtypes for count and prob")
    if _as_torch(generator, count.device):
        return torch_.binomial(count, prob, generator)
    if _C.is_recorded(count, prob):
        raise NotImplementedError("the derivative for 'binomial' is not implemented.")
    shape = broadcast_shapes(tuple(count.shape), tuple(prob.shape))
    drawn = _by_numpy("binomial", generator, shape, count.to(_C.int64).clamp(min=0), prob)
    return drawn.to(count)


@composite(name="_standard_gamma", method=False)
def standard_gamma(input: Any, generator: Any = None) -> Tensor:
    """Samples of the gamma distribution of the shapes in input and scale 1, with a gradient."""
    return _draw(generator, _ops.standard_gamma, input.contiguous())


@composite(name="_sample_dirichlet", method=False)
def sample_dirichlet(input: Any, generator: Any = None) -> Tensor:
    """Samples of the Dirichlet distribution of the concentrations in input's last dimension, with a gradient."""
    return _draw(generator, _ops.sample_dirichlet, input.contiguous())
