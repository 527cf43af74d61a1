"""Learning rates that depend on the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minitensor.compat.v1.framework.constants import convert_to_tensor
from minitensor.compat.v1.framework.graph import Tensor
from minitensor.compat.v1.ops import array_ops
from minitensor.compat.v1.ops import math_ops as m

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "inverse_time_decay",
    "natural_exp_decay",
    "piecewise_constant",
    "polynomial_decay",
]


def _periods(rate: Tensor, global_step: Any, decay_steps: Any) -> Tensor:
    """global_step / decay_steps."""
    return m.div(m.cast(global_step, rate.dtype), m.cast(decay_steps, rate.dtype))


def _by_periods(type: str, call: Callable[..., Tensor], factor: Callable[[Tensor, Tensor], Tensor], says: str) -> Any:
    """A decay that is a call of the rate and a factor, which depends on `decay_rate` and the periods that passed."""

    def made(
        learning_rate: Any,
        global_step: Any,
        decay_steps: Any,
        decay_rate: Any,
        staircase: bool = False,
        name: str | None = None,
    ) -> Tensor:
        rate = convert_to_tensor(learning_rate)
        passed = _periods(rate, global_step, decay_steps)
        passed = m.floor(passed) if staircase else passed
        return call(rate, factor(m.cast(decay_rate, rate.dtype), passed), name=name or type)

    made.__doc__ = f"{says}, with periods = global_step / decay_steps, rounded down with `staircase`."
    return made


exponential_decay = _by_periods("ExponentialDecay", m.multiply, m.pow, "learning_rate * decay_rate ** periods")
natural_exp_decay = _by_periods(
    "ExponentialTimeDecay",
    m.multiply,
    lambda decay, periods: m.exp(m.negative(m.multiply(decay, periods))),
    "learning_rate * exp(-decay_rate * periods)",
)
inverse_time_decay = _by_periods(
    "InverseTimeDecay",
    m.div,
    lambda decay, periods: m.add(m.multiply(decay, periods), m.cast(1.0, periods.dtype)),
    "learning_rate / (1 + decay_rate * periods)",
)
m.named(globals())


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """From learning_rate to end_learning_rate in decay_steps, as (1 - global_step / decay_steps) ** power.

    Then it stays there; with `cycle` it begins anew, with as many times the steps as were begun.
    """
    rate = convert_to_tensor(learning_rate)
    step, steps = m.cast(global_step, rate.dtype), m.cast(decay_steps, rate.dtype)
    end, one = m.cast(end_learning_rate, rate.dtype), m.cast(1.0, rate.dtype)
    if cycle:
        steps = m.multiply(steps, m.maximum(one, m.ceil(m.div(step, steps))))
    else:
        step = m.minimum(step, steps)
    left = m.pow(m.subtract(one, m.div(step, steps)), m.cast(power, rate.dtype))
    return m.add(m.multiply(m.subtract(rate, end), left), end, name=name or "PolynomialDecay")


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Tensor:
    """From learning_rate to alpha of it in decay_steps, as half of a cosine; then it stays there."""
    rate = convert_to_tensor(learning_rate)
    one, half, least = (m.cast(number, rate.dtype) for number in (1.0, 0.5, alpha))
    passed = m.minimum(one, _periods(rate, global_step, decay_steps))
    wave = m.multiply(half, m.add(one, m.cos(m.multiply(m.cast(math.pi, rate.dtype), passed))))
    return m.multiply(rate, m.add(m.multiply(m.subtract(one, least), wave), least), name=name or "CosineDecay")


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """The first value as long as x is not above the first boundary, and so on; the last one above all.

    ValueError unless there is one value more than boundaries.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    step = convert_to_tensor(x)
    result = convert_to_tensor(values[-1], name=name)
    for bound, value in zip(reversed(boundaries), reversed(values[:-1]), strict=True):
        below = m.less_equal(step, convert_to_tensor(bound, step.dtype))
        result = array_ops.where(below, convert_to_tensor(value, result.dtype), result)
    return result
