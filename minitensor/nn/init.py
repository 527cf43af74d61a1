"""Fills tensors in place with their first values."""

from __future__ import annotations

import math

import minitensor as mt
from minitensor._checked import checked_functions

_GAINS = {
    "linear": 1.0,
    "identity": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance through ``nonlinearity``; ``param`` is the slope of "leaky_relu"."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted([*_GAINS, "leaky_relu"]))
        raise ValueError(f"Unsupported nonlinearity {nonlinearity!r}; known: {known}")
    return _GAINS[nonlinearity]


def uniform_(tensor: mt.Tensor, a: float = 0.0, b: float = 1.0) -> mt.Tensor:
    """Fill with values uniform in ``[a, b)``."""
    with mt.no_grad():
        return tensor.uniform_(a, b)


def normal_(tensor: mt.Tensor, mean: float = 0.0, std: float = 1.0) -> mt.Tensor:
    """Fill with normally distributed values."""
    with mt.no_grad():
        return tensor.normal_(mean, std)


def constant_(tensor: mt.Tensor, val: float) -> mt.Tensor:
    """Fill with ``val``."""
    with mt.no_grad():
        return tensor.fill_(val)


def zeros_(tensor: mt.Tensor) -> mt.Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: mt.Tensor) -> mt.Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def xavier_uniform_(tensor: mt.Tensor, gain: float = 1.0) -> mt.Tensor:
    """Fill uniformly with the variance ``gain² * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _fans(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out)) if fan_in + fan_out else 0.0
    return uniform_(tensor, -bound, bound)


def kaiming_uniform_(
    tensor: mt.Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> mt.Tensor:
    """Fill uniformly with the variance ``gain² / fan`` (He et al., 2015); ``a`` is the slope of "leaky_relu"."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'Mode {mode!r} not supported, please use one of "fan_in", "fan_out"')
    fan = _fans(tensor)[mode == "fan_out"]
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / fan) if fan else 0.0
    return uniform_(tensor, -bound, bound)


def _fans(tensor: mt.Tensor) -> tuple[int, int]:
    """Return how many inputs an output has, and how many outputs an input has."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    outputs, inputs, *receptive_field = tensor.shape
    return inputs * math.prod(receptive_field), outputs * math.prod(receptive_field)


checked_functions(globals())
