"""Rows of activations, whose public forms are in nn.functional."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitensor.ops.elementwise import tanh, where
from minitensor.ops.pointwise import as_operand, called, log1p, unary
from minitensor.ops.row import ROWS, elementwise

_HIDDEN: dict[str, Any] = {"function": False, "method": False, "inplace": False}


# The gradients are rows, which `gradient` defines.
def _backward(name: str, formula: Callable[[Any, Any], Any] | None = None) -> Callable[..., Any]:
    """The rule of an op whose gradient is one op, and for complex numbers a formula."""

    def vjp(g: Any, _out: Any, x: Any) -> Any:
        return formula(g, x) if formula and g.is_complex() else ROWS[name].call(g, x)

    return vjp


def _silu_formula(g: Any, x: Any) -> Any:
    s = x.sigmoid()
    return g * (s * (1 + x * (1 - s)))


def _mish_vjp(g: Any, _out: Any, x: Any) -> Any:
    t = tanh(log1p(x.exp()))
    return g * (t + x * x.sigmoid() * (1 - t * t))


GELU_ROOT, GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def gelu_tangent(b: Any, x: Any) -> Any:
    """The tangent in gelu's approximation, tanh(root * (x + cubic * x^3)), as the eager loop computes it."""
    root, cubic = b.full(x.shape, GELU_ROOT), b.full(x.shape, GELU_CUBIC)
    cube = b.multiply(b.multiply(x, x), x)
    return b.tanh(b.multiply(root, b.add(x, b.multiply(cubic, cube))))


gelu_none = unary("_gelu", "x times the normal distribution's integral up to x.", _backward("_gelu_backward"))
gelu_tanh = unary(
    "_gelu_tanh",
    "gelu approximated by a hyperbolic tangent.",
    _backward("_gelu_tanh_backward"),
    lower=lambda b, x: b.multiply(b.multiply(b.full(x.shape, 0.5), x), b.add(b.full(x.shape, 1.0), gelu_tangent(b, x))),
    grad_fn="GeluBackward0",
)
silu = unary(
    "silu",
    "x times its logistic function.",
    _backward("_silu_backward", _silu_formula),
    lower=lambda b, x: b.multiply(x, b.logistic(x)),
    **_HIDDEN,
)
mish = unary(
    "mish",
    "x times tanh(log(1 + e^x)).",
    _mish_vjp,
    lower=lambda b, x: b.multiply(x, b.tanh(b.log_plus_one(b.exponential(x)))),
    **_HIDDEN,
)
logsigmoid = unary(
    "logsigmoid",
    "The logarithm of the logistic function.",
    lambda g, _out, x: g * (-x).sigmoid(),
    out="exact",
    grad_fn="LogSigmoidBackward0",
    **_HIDDEN,
)


def _below_zero(x: Any) -> Any:
    """x where it is below 0 or NaN, else 0: what is left out is not to overflow, nor to have derivatives."""
    return where(x >= 0, 0.0, x)


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
selu = unary(
    "selu",
    "elu scaled to keep mean and variance.",
    lambda g, _out, x: g * where(x > 0, _SELU_SCALE, (_SELU_SCALE * _SELU_ALPHA) * _below_zero(x).exp()),
    method=False,
    inplace=False,
    grad_fn="EluBackward0",
)


def _ramp(b: Any, x: Any) -> Any:
    """clamp(x + 3, 0, 6), NaN for NaN."""
    zero, six = b.full(x.shape, 0), b.full(x.shape, 6)
    y = b.add(x, b.full(x.shape, 3))
    return b.select(b.compare(y, zero, "LT"), zero, b.select(b.compare(y, six, "GT"), six, y))


hardswish = unary(
    "hardswish",
    "x clamp(x + 3, 0, 6) / 6.",
    lambda g, _out, x: g * where(x <= -3, 0.0, where(x < 3, x / 3 + 0.5, 1.0)),
    lower=lambda b, x: b.divide(b.multiply(x, _ramp(b, x)), b.full(x.shape, 6)),
    **_HIDDEN,
)
hardsigmoid = unary(
    "hardsigmoid",
    "clamp(x + 3, 0, 6) / 6.",
    lambda g, _out, x: where((x > -3) & (x < 3), g * (1 / 6), 0.0),
    lower=lambda b, x: b.divide(_ramp(b, x), b.full(x.shape, 6)),
    **_HIDDEN,
)
elu = elementwise(
    "elu(Tensor input, Scalar alpha=1.0)",
    "x where it is positive, alpha (e^x - 1) elsewhere.",
    lower=called("elu"),
    vjp=lambda g, _out, x, alpha: g * where(x > 0, 1.0, alpha * _below_zero(x).exp()),
    **_HIDDEN,
)
celu = elementwise(
    "celu(Tensor input, Scalar alpha=1.0)",
    "x where it is positive, alpha (e^(x / alpha) - 1) elsewhere.",
    lower=called("celu"),
    vjp=lambda g, _out, x, alpha: g * where(x > 0, 1.0, (_below_zero(x) / alpha).exp()),
    method=False,
    inplace=False,
)
softplus = elementwise(
    "softplus(Tensor input, Scalar beta=1.0, Scalar threshold=20.0)",
    "log(1 + e^(beta x)) / beta, and x itself where beta x is above the threshold.",
    out="exact",
    autocast=("", "float32"),
    lower=called("softplus"),
    vjp=lambda g, _out, x, beta, threshold: g * where(x * beta > threshold, 1.0, (x * beta).sigmoid()),
    **_HIDDEN,
)

# ---- with numbers


def _leaky_relu_lower(b: Any, x: Any, slope: Any) -> Any:
    return b.select(b.compare(x, as_operand(b, x, 0), "GT"), x, b.multiply(x, as_operand(b, x, slope)))


def _threshold_lower(b: Any, x: Any, bound: Any, value: Any) -> Any:
    return b.select(b.compare(x, as_operand(b, x, bound), "LE"), as_operand(b, x, value), x)


leaky_relu = elementwise(
    "leaky_relu(Tensor input, Scalar negative_slope=0.01)",
    "x where it is positive, negative_slope times it elsewhere.",
    lower=_leaky_relu_lower,
    vjp=lambda g, _out, x, negative_slope: where(x > 0, g, g * negative_slope),
    **_HIDDEN,
)
hardshrink = elementwise(
    "hardshrink(Tensor input, Scalar lambd=0.5)",
    "x, and 0 where it is in [-lambd, lambd].",
    out="exact",
    lower=called("hardshrink"),
    vjp=lambda g, _out, x, lambd: where((x >= -lambd) & (x <= lambd), 0.0, g),
    inplace=False,
)
softshrink = elementwise(
    "_softshrink(Tensor input, Scalar lambd=0.5)",
    "x brought nearer to 0 by lambd, and 0 in [-lambd, lambd].",
    lower=called("_softshrink"),
    vjp=lambda g, _out, x, lambd: where((x >= -lambd) & (x <= lambd), 0.0, g),
)
threshold = elementwise(
    "threshold(Tensor input, Scalar threshold, Scalar value)",
    "x where it is above the threshold, value elsewhere.",
    lower=_threshold_lower,
    vjp=lambda g, _out, x, threshold, value: where(x <= threshold, 0.0, g),
    method=False,
    inplace=False,
)
