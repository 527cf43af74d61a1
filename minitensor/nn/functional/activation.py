"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, float64
from minitensor._functions import offered
from minitensor._functions.offered import empty, log, ones, rand, tensor, where, zeros
from minitensor._warning import warn
from minitensor.composite import composite
from minitensor.composite.pointwise import prelu
from minitensor.composite.random.torch_numbers import as_torch
from minitensor.composite.registry import autocast, grad_fn, overwritten, shortcut, with_out
from minitensor.dtypes import finfo
from minitensor.ops import ROWS

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

_gelu, _gelu_tanh = ROWS["_gelu"].call, ROWS["_gelu_tanh"].call
_softmax, _log_softmax = ROWS["softmax"].call, ROWS["log_softmax"].call
_IN_PLACE = {name: _C.inplace_form(ROWS[name].call) for name in
             ("celu", "elu", "hardsigmoid", "hardswish", "leaky_relu", "mish", "selu", "silu", "threshold"
             )}  # fmt: skip


def _op(name: str, input: Tensor, inplace: bool, *more: Any) -> Tensor:
    """Return an op's value, written over the input if `inplace`."""
    result: Tensor = _IN_PLACE[name](input, *more) if inplace else ROWS[name].call(input, *more)
    return result


def _stored(function: Callable[..., Any], input: Tensor, inplace: bool, *more: Any) -> Tensor:
    """Return the function's value, written over the input if `inplace`."""
    if not inplace:
        result: Tensor = function(input, *more)
        return result
    return input.copy_(function(overwritten(input, *more), *more))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``, written over ``input`` if ``inplace``."""
    return input.relu_() if inplace else offered.relu(input)


def relu_(input: Tensor) -> Tensor:
    """Write ``max(input, 0)`` over ``input``."""
    return input.relu_()


@grad_fn("HardtanhBackward0")
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``min(max(input, 0), 6)``."""
    return hardtanh(input, 0.0, 6.0, inplace)


def _hardtanh(input: Tensor, low: float, high: float) -> Tensor:
    # Flat at the bounds themselves, unlike clamp.
    inside = (input > low) & (input < high)
    return where(inside | (input != input), input, where(input <= low, low, high).to(input.dtype))


@grad_fn("HardtanhBackward0")
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the input clamped to ``[min_val, max_val]``."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype == _C.bool:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if not input.dtype.is_signed and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return _stored(_hardtanh, input, inplace, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Clamp the input to ``[min_val, max_val]`` in place."""
    return hardtanh(input, min_val, max_val, True)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return _op("elu", input, inplace, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`elu` in place."""
    return elu(input, alpha, True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``scale * elu(input, alpha)`` with the constants of self-normalising networks."""
    return _op("selu", input, inplace)


def selu_(input: Tensor) -> Tensor:
    """:func:`selu` in place."""
    return selu(input, True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _op("celu", input, inplace, alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`celu` in place."""
    return celu(input, alpha, True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""
    return _op("leaky_relu", input, inplace, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """:func:`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


@composite(method=False)
@grad_fn("RreluWithNoiseBackward0")
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return :func:`leaky_relu` with a slope from ``[lower, upper]``: random if ``training``, else the middle."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    if as_torch(None, input.device):
        return _stored(lambda x: x * _torch_slopes(x.detach(), lower, upper), input, inplace)
    slope = rand(tuple(input.shape), dtype=input.dtype, device=input.device) * (upper - lower) + lower
    return _stored(lambda x: where(x > 0, x, x * slope), input, inplace)


def _torch_slopes(x: Tensor, lower: float, upper: float) -> Tensor:
    """Return 1 for positive elements, and for the others numbers that are drawn for them alone, of double precision."""
    negative = x <= 0
    slopes = ones(tuple(x.shape), dtype=x.dtype, device=x.device)
    drawn = rand(int(negative.sum()), dtype=float64, device=x.device)
    lower, upper = (float(tensor(bound, dtype=x.dtype)) for bound in (lower, upper))
    slopes[negative] = (drawn * (upper - lower) + lower).to(x.dtype)
    return slopes


@composite(method=False)
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """:func:`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)


@with_out
@shortcut("T", _gelu)
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """Return ``input * Phi(input)`` with the normal distribution's Phi, or, with "tanh", its approximation."""
    result: Tensor
    if approximate == "none":
        result = _gelu(input)
    elif approximate == "tanh":
        result = _gelu_tanh(input)
    else:
        raise RuntimeError("approximate argument must be either none or tanh.")
    return result


@shortcut("T", ROWS["silu"].call)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * sigmoid(input)``."""
    return _op("silu", input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * tanh(softplus(input))``."""
    return _op("mish", input, inplace)


@grad_fn("GluBackward0")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half along ``dim`` times the sigmoid of the second half."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.shape[dim]
    if size % 2:
        place = dim % input.dim()
        raise RuntimeError(f"Halving dimension must be even, but dimension {place} is size {size}")
    if input.dtype in (_C.float16, _C.bfloat16):  # rounded once
        return glu(input.to(_C.float32), dim).to(input.dtype)
    return input.narrow(dim, 0, size // 2) * offered.sigmoid(input.narrow(dim, size // 2, size // 2))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``min(max(input + 3, 0), 6) / 6``."""
    return _op("hardsigmoid", input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * min(max(input + 3, 0), 6) / 6``."""
    return _op("hardswish", input, inplace)


@with_out
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return ``input`` where it is outside ``[-lambd, lambd]``, 0 elsewhere."""
    result: Tensor = ROWS["hardshrink"].call(input, lambd)
    return result


@with_out
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return ``input`` drawn towards 0 by ``lambd``."""
    most = finfo(input.dtype).max if input.dtype.is_floating_point else math.inf
    if not 0 <= lambd <= most:
        raise RuntimeError(
            f"lambda must be in range [0, {most:g}] for input dtype {_C.type_name(input.dtype)}, but found {lambd:g}"
        )
    result: Tensor = ROWS["_softshrink"].call(input, lambd)
    return result


def tanhshrink(input: Tensor) -> Tensor:
    """Return ``input - tanh(input)``."""
    return input - offered.tanh(input)


@with_out
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return ``log(1 + exp(beta * input)) / beta``, and ``input`` itself where ``beta * input > threshold``."""
    result: Tensor = ROWS["softplus"].call(input, beta, threshold)
    return result


def softsign(input: Tensor) -> Tensor:
    """Return ``input / (1 + |input|)``."""
    return input / (input.abs() + 1)


@with_out
def logsigmoid(input: Tensor) -> Tensor:
    """Return ``log(sigmoid(input))`` without overflow."""
    result: Tensor = ROWS["logsigmoid"].call(input)
    return result


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is above ``threshold``, ``value`` elsewhere."""
    return _op("threshold", input, inplace, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """:func:`threshold` in place."""
    return _threshold(input, threshold, value, True)


_threshold = threshold


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return offered.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-input))``."""
    return offered.sigmoid(input)


def _softmax_dim(name: str, rank: int) -> int:
    """Return PyTorch's old choice of a dimension, with its warning."""
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.")
    return 0 if rank in (0, 1, 3) else 1


@shortcut("Ti", _softmax)
@autocast("", "float32")
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``exp(input) / exp(input).sum(dim)``, computed in ``dtype`` if it is given."""
    if dim is None:
        dim = _softmax_dim("softmax", input.dim())
    return _softmax(input, dim, dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``softmax(-input)``."""
    if dim is None:
        dim = _softmax_dim("softmin", input.dim())
    return softmax(-input, dim, dtype=dtype)


@shortcut("Ti", _log_softmax)
@autocast("", "float32")
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the logarithm of :func:`softmax`."""
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim())
    return _log_softmax(input, dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a sample of the Gumbel-softmax distribution; with ``hard`` one-hot, with the soft sample's gradient.

    Jang and others, "Categorical Reparameterization with Gumbel-Softmax" (2016). ``eps`` is not used any more.
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    if as_torch(None, logits.device):
        gumbels = -empty(tuple(logits.shape), dtype=logits.dtype, device=logits.device).exponential_().log()
    else:
        uniform = rand(tuple(logits.shape), dtype=logits.dtype, device=logits.device)
        gumbels = -log(-log(1 - uniform))
    soft = offered.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    places = soft.detach().argmax(dim, keepdim=True)
    chosen = zeros(tuple(logits.shape), dtype=logits.dtype, device=logits.device).scatter_add(
        dim, places, ones(tuple(places.shape), dtype=logits.dtype, device=logits.device)
    )
    return chosen - soft.detach() + soft
