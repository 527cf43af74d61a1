"""Softmax and its logarithm, with their gradients.

With `y = softmax(x)`, the gradient of `x` is `y * (g - sum(g * y))`, and that of the logarithm `g - y * sum(g)`, where
the sums are along the dimension.
"""

from __future__ import annotations

from typing import Any

from minitensor._C import Op
from minitensor.ops.elementwise import exp
from minitensor.ops.row import reduction

__all__: list[str] = []


def _softmax_lower(b: Any, x: Any, dim: int, dtype: Any, log: bool) -> Any:
    x = b.to_dtype(x, b.result.dtype)
    shifted = b.subtract(x, b.spread(b.reduce_dims(x, "maximum", (dim,), True), x))
    e = b.exponential(shifted)
    total = b.reduce_dims(e, "add", (dim,), True)
    if log:
        return b.subtract(shifted, b.spread(b.log(total), x))
    return b.divide(e, b.spread(total, x))


def _softmax_backward_lower(b: Any, grad: Any, result: Any, log: bool) -> Any:
    last = (len(grad.dims) - 1,)

    def summed(x: Any) -> Any:
        # The kernel starts at +0 for a single element too, where a sum is the element itself, which may be -0.
        total = b.reduce_dims(x, "add", last, True)
        return b.add(total, b.full(total.shape, 0)) if grad.dims[-1] == 1 else total

    if log:
        total = summed(grad)
        return b.subtract(grad, b.multiply(b.exponential(result), b.spread(total, grad)))
    total = summed(b.multiply(grad, result))
    return b.multiply(result, b.subtract(grad, b.spread(total, grad)))


_HIDDEN: dict[str, Any] = {"function": False, "method": False, "inplace": False}

softmax_backward: Op = reduction(
    "_softmax_backward(Tensor grad, Tensor output)", "The gradient of softmax along the last dimension.",
    lower=lambda b, grad, output: _softmax_backward_lower(b, grad, output, log=False),
    vjp=lambda g, _out, grad, output: (
        lambda: softmax_backward(g, output),
        lambda: g * (grad - (grad * output).sum(-1, keepdim=True)) - grad * (g * output).sum(-1, keepdim=True),
    ),
    reads=("output", "grad output"),
    **_HIDDEN,
)  # fmt: skip
log_softmax_backward: Op = reduction(
    "_log_softmax_backward(Tensor grad, Tensor output)", "The gradient of log_softmax along the last dimension.",
    lower=lambda b, grad, output: _softmax_backward_lower(b, grad, output, log=True),
    vjp=lambda g, _out, grad, output: (
        lambda: g - (g * exp(output)).sum(-1, keepdim=True),
        lambda: -(g * exp(output) * grad.sum(-1, keepdim=True)),
    ),
    reads=("output", "grad output"),
    **_HIDDEN,
)  # fmt: skip


def _last(x: Any, dim: int) -> bool:
    return x.ndim > 0 and dim in (-1, x.ndim - 1)


def _softmax_vjp(g: Any, out: Any, _x: Any, dim: int, dtype: Any) -> Any:
    if _last(out, dim):
        return softmax_backward(g, out)
    return out * (g - (g * out).sum(dim=dim, keepdim=True))


def _log_softmax_vjp(g: Any, out: Any, _x: Any, dim: int, dtype: Any) -> Any:
    if _last(out, dim):
        return log_softmax_backward(g, out)
    return g - exp(out) * g.sum(dim=dim, keepdim=True)


softmax = reduction(
    "softmax(Tensor input, int dim, dtype? dtype=None)", "exp(x) divided by its sum along dim.",
    autocast=("", "float32"), lower=lambda b, x, dim, dtype: _softmax_lower(b, x, dim, dtype, log=False),
    vjp=_softmax_vjp,
)  # fmt: skip
log_softmax = reduction(
    "log_softmax(Tensor input, int dim, dtype? dtype=None)", "The logarithm of softmax along dim.",
    autocast=("", "float32"), lower=lambda b, x, dim, dtype: _softmax_lower(b, x, dim, dtype, log=True),
    vjp=_log_softmax_vjp,
)  # fmt: skip
