"""Random numbers: new ones at each run.

Ops without a `seed` draw from minitensor's default generator. One with a `seed` has a generator of its own in every
session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitensor import _C, nn
from minitensor._C import float32
from minitensor._functions.offered import empty
from minitensor.compat.v1.framework.constants import as_dtype, node, sizes_of
from minitensor.compat.v1.framework.graph import Tensor

__all__ = ["random_normal", "random_uniform", "truncated_normal"]


def drawn(
    type: str, call: Callable[..., Any], inputs: list[Any], seed: int | None, name: str | None, **more: Any
) -> Tensor:
    """The result of a call that takes a `generator`."""
    tensor = node(type, call, inputs, name, kind="random", **more)
    tensor.op.held = seed
    return tensor


def _made(type: str, call: Callable[..., Any], shape: Any, dtype: Any, seed: int | None, name: str | None) -> Tensor:
    kind = as_dtype(dtype)

    def filled(sizes: np.ndarray, generator: Any = None) -> _C.Tensor:
        return call(empty(sizes.tolist(), dtype=kind), generator)

    def probe(sizes: np.ndarray) -> _C.Tensor:
        return empty(sizes.tolist(), dtype=kind, device="meta")

    return drawn(type, filled, [sizes_of(shape)], seed, name, host_inputs=[0], probe=probe)


def random_normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers."""
    return _made("RandomNormal", lambda x, g: x.normal_(mean, stddev, generator=g), shape, dtype, seed, name)


def truncated_normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers, none further than two standard deviations from the mean."""

    def fill(x: _C.Tensor, generator: Any) -> _C.Tensor:
        low, high = mean - 2 * stddev, mean + 2 * stddev
        return nn.init.trunc_normal_(x, mean, stddev, low, high, generator=generator)

    return _made("TruncatedNormal", fill, shape, dtype, seed, name)


def random_uniform(
    shape: Any,
    minval: float = 0,
    maxval: float | None = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Uniformly distributed numbers from `minval` up to but not including `maxval`; integers need a `maxval`."""
    if as_dtype(dtype).is_floating_point:
        high = 1.0 if maxval is None else maxval
        return _made("RandomUniform", lambda x, g: x.uniform_(minval, high, generator=g), shape, dtype, seed, name)
    if maxval is None:
        raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
    low, end = int(minval), int(maxval)
    return _made("RandomUniformInt", lambda x, g: x.random_(low, end, generator=g), shape, dtype, seed, name)
