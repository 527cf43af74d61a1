"""Formulas of several steps in one pass over memory: gradients of activations, and losses with theirs.

Each computes what ops one after the other would, without writing the steps down. All have gradients in turn, so that
higher derivatives work.
"""

from __future__ import annotations

import math
from typing import Any

from minitensor._C import Op
from minitensor.ops.creation import full
from minitensor.ops.elementwise import exp, sigmoid, tanh, where
from minitensor.ops.nn.activation import GELU_CUBIC, GELU_ROOT, gelu_tangent
from minitensor.ops.pointwise import called
from minitensor.ops.row import elementwise

__all__: list[str] = []

_HIDDEN: dict[str, Any] = {"function": False, "method": False, "inplace": False}


def _one(b: Any, x: Any) -> Any:
    return b.full(x.shape, 1.0)


def _binary(name: str, doc: str, vjp: Any, lower: Any = None) -> Op:
    schema = f"{name}(Tensor grad, Tensor input)"
    grad, at = vjp.__code__.co_varnames[2:4]
    return elementwise(schema, doc, vjp=vjp, lower=lower or called(name), reads=(at, f"{grad} {at}"), **_HIDDEN)


def _zeros(like: Any) -> Any:
    return full(tuple(like.shape), 0, dtype=like.dtype, device=like.device)


# ---- of activations: grad times the derivative; of tanh and sigmoid `input` is their result

tanh_backward: Op = _binary(
    "_tanh_backward",
    "grad * (1 - y * y).",
    lambda g, _out, grad, y: (lambda: tanh_backward(g, y), lambda: g * grad * (y * -2)),
    lambda b, grad, y: b.multiply(grad, b.subtract(_one(b, y), b.multiply(y, y))),
)
sigmoid_backward: Op = _binary(
    "_sigmoid_backward",
    "grad * y * (1 - y).",
    lambda g, _out, grad, y: (lambda: sigmoid_backward(g, y), lambda: g * grad * (1 - 2 * y)),
    lambda b, grad, y: b.multiply(b.multiply(grad, y), b.subtract(_one(b, y), y)),
)


relu_backward: Op = _binary(
    "_relu_backward",
    "grad where y, the result of relu, is larger than 0 or NaN.",
    lambda g, _out, _grad, y: (lambda: relu_backward(g, y), lambda: _zeros(y)),
    lambda b, grad, y: b.select(b.compare(y, b.full(y.shape, 0.0), "LE"), b.full(grad.shape, 0.0), grad),
)


def _silu_second(x: Any) -> Any:
    s = sigmoid(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def _silu_lower(b: Any, grad: Any, x: Any) -> Any:
    s, one = b.logistic(x), _one(b, x)
    return b.multiply(grad, b.multiply(s, b.add(one, b.multiply(x, b.subtract(one, s)))))


silu_backward: Op = _binary(
    "_silu_backward",
    "grad * s * (1 + x * (1 - s)), s being the logistic function of x.",
    lambda g, _out, grad, x: (lambda: silu_backward(g, x), lambda: g * grad * _silu_second(x)),
    _silu_lower,
)


def _normal_density(x: Any) -> Any:
    return exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


gelu_backward: Op = _binary(
    "_gelu_backward",
    "grad times the normal distribution's integral up to x plus x times its density.",
    lambda g, _out, grad, x: (lambda: gelu_backward(g, x), lambda: g * grad * (_normal_density(x) * (2 - x * x))),
)


def _gelu_tanh_second(x: Any) -> Any:
    root, cubic = GELU_ROOT, GELU_CUBIC
    t = tanh(root * (x + cubic * (x * x * x)))
    slope, curve = root * (1 + 3 * cubic * (x * x)), 6 * cubic * root * x
    return (1 - t * t) * (slope + 0.5 * x * curve - x * t * slope * slope)


def _gelu_tanh_lower(b: Any, grad: Any, x: Any) -> Any:
    one, half, root = _one(b, x), b.full(x.shape, 0.5), b.full(x.shape, GELU_ROOT)
    t = gelu_tangent(b, x)
    slope = b.multiply(root, b.add(one, b.multiply(b.full(x.shape, 3 * GELU_CUBIC), b.multiply(x, x))))
    bent = b.multiply(b.multiply(b.multiply(half, x), b.subtract(one, b.multiply(t, t))), slope)
    return b.multiply(grad, b.add(b.multiply(half, b.add(one, t)), bent))


gelu_tanh_backward: Op = _binary(
    "_gelu_tanh_backward",
    "grad times the derivative of gelu's approximation by a hyperbolic tangent.",
    lambda g, _out, grad, x: (lambda: gelu_tanh_backward(g, x), lambda: g * grad * _gelu_tanh_second(x)),
    _gelu_tanh_lower,
)

# ---- losses, element by element


def _difference_lower(b: Any, input: Any, target: Any) -> Any:
    d = b.subtract(input, target)
    return b.multiply(d, d)


def _twice_difference_lower(b: Any, grad: Any, input: Any, target: Any) -> Any:
    d = b.subtract(input, target)
    return b.multiply(grad, b.add(d, d))


squared_difference_backward: Op = elementwise(
    "_squared_difference_backward(Tensor grad, Tensor input, Tensor target)",
    "grad * 2 * (input - target).",
    lower=_twice_difference_lower,
    vjp=lambda g, _out, grad, input, target: (
        lambda: squared_difference_backward(g, input, target),
        lambda: 2 * (g * grad),
        lambda: -2 * (g * grad),
    ),
    reads=("input target", "grad", "grad"),
    **_HIDDEN,
)
squared_difference: Op = elementwise(
    "_squared_difference(Tensor input, Tensor target)",
    "(input - target) squared.",
    lower=_difference_lower,
    vjp=lambda g, _out, input, target: (
        lambda: squared_difference_backward(g, input, target),
        lambda: squared_difference_backward(g, target, input),
    ),
    **_HIDDEN,
)


def _smooth_l1_vjp(g: Any, _out: Any, input: Any, target: Any, beta: float) -> Any:
    return (
        lambda: smooth_l1_backward(g, input, target, beta),
        lambda: smooth_l1_backward(g, target, input, beta),
    )


def _smooth_l1_backward_vjp(g: Any, _out: Any, grad: Any, input: Any, target: Any, beta: float) -> Any:
    def curved() -> Any:
        return where((input - target).abs() < beta, g * grad * (1 / beta), 0.0)

    return lambda: smooth_l1_backward(g, input, target, beta), curved, lambda: -curved()


def _smooth_l1_backward_lower(b: Any, grad: Any, input: Any, target: Any, beta: float) -> Any:
    d, bound, least = b.subtract(input, target), b.full(input.shape, beta), b.full(input.shape, -beta)
    sloped = b.divide(b.multiply(grad, d), bound)
    low = b.select(b.compare(d, least, "LE"), b.negate(grad), sloped)
    return b.select(b.compare(d, bound, "GE"), grad, low)


smooth_l1_backward: Op = elementwise(
    "_smooth_l1_backward(Tensor grad, Tensor input, Tensor target, Scalar beta)",
    "grad times (input - target) / beta brought into [-1, 1].",
    lower=_smooth_l1_backward_lower,
    vjp=_smooth_l1_backward_vjp,
    **_HIDDEN,
)


def _smooth_l1_lower(b: Any, input: Any, target: Any, beta: float) -> Any:
    d, bound, half = b.abs(b.subtract(input, target)), b.full(input.shape, beta), b.full(input.shape, 0.5)
    curved = b.multiply(b.multiply(d, d), b.divide(half, bound))
    return b.select(b.compare(d, bound, "LT"), curved, b.subtract(d, b.multiply(half, bound)))


smooth_l1: Op = elementwise(
    "_smooth_l1(Tensor input, Tensor target, Scalar beta)",
    "d * d / (2 * beta) of differences |d| below beta, |d| - beta / 2 of others.",
    lower=_smooth_l1_lower,
    vjp=_smooth_l1_vjp,
    **_HIDDEN,
)
larger_share: Op = elementwise(
    "_larger_share(Tensor grad, Tensor input, Tensor other)",
    "grad where input is larger than other, half of it where both are equal; all of it beside NaN, as in PyTorch.",
    lower=lambda b, grad, x, y: b.select(
        b.compare(x, y, "LT"),
        b.full(grad.shape, 0.0),
        b.select(b.compare(x, y, "EQ"), b.multiply(grad, b.full(grad.shape, 0.5)), grad),
    ),
    vjp=lambda g, _out, _grad, x, y: (lambda: larger_share(g, x, y), None, None),
    **_HIDDEN,
)
root_of_positive_backward: Op = _binary(
    "_root_of_positive_backward",
    "grad / (2 * y), and 0 where y, the result of `_root_of_positive`, is 0.",
    lambda g, _out, grad, y: (
        lambda: root_of_positive_backward(g, y),
        lambda: where(y == 0, 0.0, -g * grad / (2 * y * y)),
    ),
    lambda b, grad, y: b.select(
        b.compare(y, b.full(y.shape, 0.0), "EQ"), b.full(y.shape, 0.0), b.divide(grad, b.add(y, y))
    ),
)
root_of_positive: Op = elementwise(
    "_root_of_positive(Tensor input)",
    "The square root, and 0 with a gradient of 0 where input is not positive: squares of distances may come out so.",
    lower=lambda b, x: b.select(b.compare(x, b.full(x.shape, 0.0), "LE"), b.full(x.shape, 0.0), b.sqrt(x)),
    vjp=lambda g, out, _x: root_of_positive_backward(g, out),
    function=False,
    method=False,
)
logits_loss_backward: Op = elementwise(
    "_logits_loss_backward(Tensor grad, Tensor input, Tensor target)",
    "grad * (sigmoid(input) - target).",
    lower=lambda b, grad, input, target: b.multiply(grad, b.subtract(b.logistic(input), target)),
    vjp=lambda g, _out, grad, input, target: (
        lambda: logits_loss_backward(g, input, target),
        lambda: sigmoid_backward(g * grad, sigmoid(input)),
        lambda: -(g * grad),
    ),
    reads=("input target", "grad input", "grad"),
    **_HIDDEN,
)
logits_loss: Op = elementwise(
    "_logits_loss(Tensor input, Tensor target)",
    "The cross entropy of sigmoid(input) and target, without overflow.",
    lower=called("_logits_loss"),
    vjp=lambda g, _out, input, target: (
        lambda: logits_loss_backward(g, input, target),
        lambda: -(g * input),
    ),
    reads=("input target", "input"),
    **_HIDDEN,
)
