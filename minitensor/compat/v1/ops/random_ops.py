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
from minitensor.compat.v1.ops.math_ops import named

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


def _normal(type: str, fill: Callable[[_C.Tensor, float, float, Any], Any], says: str) -> Any:
    def made(
        shape: Any,
        mean: float = 0.0,
        stddev: float = 1.0,
        dtype: Any = float32,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        return _made(type, lambda x, generator: fill(x, mean, stddev, generator), shape, dtype, seed, name)

    made.__doc__ = says
    return made


def _truncated(x: _C.Tensor, mean: float, stddev: float, generator: Any) -> _C.Tensor:
    return nn.init.trunc_normal_(x, mean, stddev, mean - 2 * stddev, mean + 2 * stddev, generator=generator)


random_normal = _normal(
    "RandomNormal", lambda x, mean, stddev, g: x.normal_(mean, stddev, generator=g), "Normally distributed numbers."
)
truncated_normal = _normal(
    "TruncatedNormal",
    _truncated,
    "Normally distributed numbers, none further than two standard deviations from the mean.",
)
named(globals())


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
