"""Fills tensors in place with their first values. All but :func:`calculate_gain` return the tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitensor import _C, linalg
from minitensor._C import Tensor
from minitensor._functions import offered
from minitensor._functions.checked import checked
from minitensor._functions.offered import diagonal, empty, empty_like, ones, randperm, where
from minitensor._warning import warn
from minitensor.autograd import no_grad
from minitensor.composite.random.torch_numbers import as_torch

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    "linear": 1.0,
    "identity": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


@checked
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance through ``nonlinearity``; ``param`` is the slope of "leaky_relu"."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted([*_GAINS, "leaky_relu"]))
        raise ValueError(f"Unsupported nonlinearity {nonlinearity!r}; known: {known}")
    return _GAINS[nonlinearity]


@checked
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values uniform in ``[a, b)``."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)  # type: ignore[call-arg]


@checked
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normally distributed values."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


@checked
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with the normal distribution cut off at ``a`` and ``b``, which are values, not deviations."""

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect."
        )
    if as_torch(generator, tensor.device):
        with no_grad():
            return _rejected(tensor, mean, std, a, b, below((b - mean) / std) - below((a - mean) / std), generator)
    with no_grad():
        # The inverse of the distribution function, of numbers uniform between its values at the ends.
        low, high = below((a - mean) / std), below((b - mean) / std)
        tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)  # type: ignore[call-arg]
        tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean)
        return tensor.clamp_(min=a, max=b)


def _rejected(tensor: Tensor, mean: float, std: float, a: float, b: float, inside: float, generator: Any) -> Tensor:
    """Fill with the cut normal distribution as PyTorch draws it: all elements again while one is to be replaced.

    Where more than 0.3 of the distribution is inside the bounds, what is outside is replaced; else uniform numbers are
    accepted as often as the density says.
    """
    if inside > 0.3:
        low, high = (float(offered.tensor(bound, dtype=tensor.dtype)) for bound in (a, b))
        tensor.normal_(mean, std, generator=generator)
        while bool((outside := (tensor < low) | (tensor > high)).any()):
            tensor.copy_(where(outside, empty_like(tensor).normal_(mean, std, generator=generator), tensor))
        return tensor
    highest = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    waiting = ones(tuple(tensor.shape), dtype=_C.bool, device=tensor.device)
    while True:
        drawn = empty_like(tensor).uniform_(a, b, generator=generator)  # type: ignore[call-arg]
        tensor.copy_(where(waiting, drawn, tensor))
        density = drawn.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(highest)
        u = empty_like(tensor).uniform_(generator=generator)  # type: ignore[call-arg]
        waiting &= u.log_() > density
        if not bool(waiting.any()):
            return tensor


@checked
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``."""
    with no_grad():
        return tensor.fill_(val)


@checked
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


@checked
def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


@checked
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on its diagonal and zeros elsewhere."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(offered.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@checked
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that channels pass through unchanged, as many of each group as there are."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *window = tensor.shape
    if outputs % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    each = outputs // groups
    with no_grad():
        tensor.zero_()
        middle = tuple(size // 2 for size in window)
        for group in range(groups):
            for channel in range(min(each, inputs)):
                tensor[(group * each + channel, channel, *middle)] = 1
        return tensor


@checked
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly with the variance ``gain² * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010)."""
    fans = sum(_calculate_fan_in_and_fan_out(tensor))
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / fans) if fans else 0.0
    return uniform_(tensor, -bound, bound, generator)


@checked
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill normally with the variance ``gain² * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010)."""
    fans = sum(_calculate_fan_in_and_fan_out(tensor))
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / fans) if fans else 0.0, generator)


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """Return the standard deviation; None, with a warning, where there is nothing to fill."""
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@checked
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill uniformly with the variance ``gain² / fan`` (He et al., 2015); ``a`` is the slope of "leaky_relu"."""
    std = _kaiming(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


@checked
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill normally with the variance ``gain² / fan`` (He et al., 2015); ``a`` is the slope of "leaky_relu"."""
    std = _kaiming(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


@checked
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with ``gain`` times a matrix whose shorter side is orthonormal (Saxe and others, 2013).

    Dimensions after the first are one; the matrix is uniform among the orthogonal ones.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        drawn = empty((rows, columns), dtype=tensor.dtype, device=tensor.device).normal_(0, 1, generator=generator)
        q, r = linalg.qr(drawn.t() if rows < columns else drawn)
        # The signs make the decomposition unique, and with it the distribution uniform (Mezzadri, 2006).
        q = q * diagonal(r).sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)
        return tensor


@checked
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix normally, with a share ``sparsity`` of each column zero (Martens, 2010)."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, device=tensor.device)[:zeros], column] = 0
        return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs an output has, and how many outputs an input has."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    outputs, inputs, *receptive_field = tensor.shape
    return inputs * math.prod(receptive_field), outputs * math.prod(receptive_field)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return the fan that a mode names."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new = function.__name__
    old = new[:-1]

    def call(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Call :func:`{new}`, the name that it has now."
    return checked(call)


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
