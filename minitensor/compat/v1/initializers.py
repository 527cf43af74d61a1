"""Initial values of variables: functions of a shape and a dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitensor._C import float32
from minitensor.compat.v1.framework.constants import constant
from minitensor.compat.v1.framework.graph import Tensor
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.ops import array_ops, random_ops

__all__ = [
    "constant_initializer",
    "glorot_uniform_initializer",
    "ones_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "truncated_normal_initializer",
    "zeros_initializer",
]

Initializer = Callable[..., Tensor]


def zeros_initializer(dtype: Any = float32) -> Initializer:
    """Zeros."""
    return lambda shape, kind=dtype, partition_info=None: array_ops.zeros(shape, kind)


def ones_initializer(dtype: Any = float32) -> Initializer:
    """Ones."""
    return lambda shape, kind=dtype, partition_info=None: array_ops.ones(shape, kind)


def constant_initializer(value: Any = 0, dtype: Any = float32, verify_shape: bool = False) -> Initializer:
    """These numbers."""
    return lambda shape, kind=dtype, partition_info=None: constant(value, kind, shape)


def random_normal_initializer(
    mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = float32
) -> Initializer:
    """Normally distributed numbers."""
    return lambda shape, kind=dtype, partition_info=None: random_ops.random_normal(shape, mean, stddev, kind, seed)


def truncated_normal_initializer(
    mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = float32
) -> Initializer:
    """Normally distributed numbers, none further than two standard deviations from the mean."""
    return lambda shape, kind=dtype, partition_info=None: random_ops.truncated_normal(shape, mean, stddev, kind, seed)


def random_uniform_initializer(
    minval: float = 0, maxval: float | None = None, seed: int | None = None, dtype: Any = float32
) -> Initializer:
    """Uniformly distributed numbers."""
    return lambda shape, kind=dtype, partition_info=None: random_ops.random_uniform(shape, minval, maxval, kind, seed)


def glorot_uniform_initializer(seed: int | None = None, dtype: Any = float32) -> Initializer:
    """Uniformly distributed numbers within sqrt(6 / (fan_in + fan_out)): Glorot and Bengio, 2010."""

    def make(shape: Any, kind: Any = dtype, partition_info: Any = None) -> Tensor:
        sizes = [int(size) for size in shape]
        field = math.prod(sizes[:-2])
        fan_in, fan_out = (field * sizes[-2], field * sizes[-1]) if len(sizes) > 1 else (sizes or [1])[-1:] * 2
        limit = math.sqrt(6.0 / (fan_in + fan_out))
        return random_ops.random_uniform(shape, -limit, limit, kind, seed)

    return make


glorot_uniform, ones, zeros = glorot_uniform_initializer, ones_initializer, zeros_initializer
random_normal, random_uniform = random_normal_initializer, random_uniform_initializer
truncated_normal = truncated_normal_initializer

__getattr__ = _missing(__name__)
