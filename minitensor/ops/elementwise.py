"""Elementwise ops."""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Callable
from typing import Any

from minitensor._C import Op, Tensor
from minitensor.ops.row import ROWS, elementwise

__all__: list[str] = []


def _zero(b: Any, x: Any) -> Any:
    return b.full(x.shape, 0)


def _one(b: Any, x: Any) -> Any:
    return b.full(x.shape, 1)


def _truth(b: Any, x: Any) -> Any:
    return x if x.shape.dtype == "pred" else b.compare(x, _zero(b, x), "NE")


def _trunc(b: Any, x: Any) -> Any:
    if not b.recorded.floating:
        return x
    # Towards zero, with the sign of x kept on a zero result, as trunc gives it.
    magnitude = b.floor(b.abs(x))
    return b.select(
        b.compare(x, _zero(b, x), "LT"), b.negate(magnitude), b.select(b.compare(x, _zero(b, x), "EQ"), x, magnitude)
    )


def conj_of(x: Any) -> Any:
    """The conjugate of a tensor or number, and x itself if it is real."""
    if isinstance(x, Tensor):
        return ROWS["conj_physical"].call(x) if x.is_complex() else x
    return x.conjugate() if isinstance(x, complex) else x


def holomorphic(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of an op that is differentiable in the complex sense, from its rule for real numbers.

    The latter is linear in g, `g * f'(x)`; of a complex x the gradient is `g * conj(f'(x))`.
    """

    @functools.wraps(vjp)
    def rule(g: Any, *arguments: Any) -> Any:
        if not g.is_complex():
            return vjp(g, *arguments)
        return _conjugated(vjp(conj_of(g), *arguments))

    return rule


def _conjugated(gradient: Any) -> Any:
    if isinstance(gradient, tuple):
        return tuple(map(_conjugated, gradient))
    return (lambda: conj_of(gradient())) if callable(gradient) else conj_of(gradient)


def _abs_vjp(g: Any, _out: Any, x: Any) -> Any:
    return g * (ROWS["sgn"].call(x) if x.is_complex() else sign(x))


# ---- one operand

neg = elementwise(
    "neg(Tensor input)",
    "The negative of each element.",
    out="exact",
    lower=lambda b, x: b.negate(x),
    vjp=lambda g, _out, _x: -g,
    aliases=("negative",),
    complex_lower=True,
)
abs = elementwise(
    "abs(Tensor input)",
    "The absolute value of each element.",
    out="exact",
    lower=lambda b, x: b.abs(x),
    vjp=_abs_vjp,
    aliases=("absolute",),
)


def _sign_lower(b: Any, x: Any) -> Any:
    if x.dtype == "pred":
        return x
    zero = b.full(x.shape, 0)  # also for NaN
    signed = zero if x.array_shape.kind == "u" else b.select(b.compare(x, zero, "LT"), b.full(x.shape, -1), zero)
    return b.select(b.compare(x, zero, "GT"), b.full(x.shape, 1), signed)


sign: Op = elementwise(
    "sign(Tensor input)",
    "-1, 0 or 1, the sign of each element.",
    out="exact",
    lower=_sign_lower,
    vjp=lambda g, _out, _x: g * 0,
)
exp = elementwise(
    "exp(Tensor input)",
    "e to the power of each element.",
    autocast=("", "float32"),
    lower=lambda b, x: b.exponential(x),
    vjp=lambda g, out, _x: g * conj_of(out),
)
log = elementwise(
    "log(Tensor input)",
    "The natural logarithm of each element.",
    autocast=("", "float32"),
    lower=lambda b, x: b.log(x),
    vjp=lambda g, _out, x: g / conj_of(x),
)
sqrt = elementwise(
    "sqrt(Tensor input)",
    "The square root of each element.",
    lower=lambda b, x: b.sqrt(x),
    vjp=lambda g, out, _x: g / (2 * conj_of(out)),
)
rsqrt = elementwise(
    "rsqrt(Tensor input)",
    "One over the square root of each element.",
    autocast=("", "float32"),
    lower=lambda b, x: b.divide(_one(b, x), b.sqrt(x)),
    vjp=lambda g, out, _x: g * conj_of(out * out * out) * -0.5,
)
reciprocal = elementwise(
    "reciprocal(Tensor input)",
    "One over each element.",
    autocast=("", "float32"),
    lower=lambda b, x: b.divide(_one(b, x), x),
    vjp=lambda g, out, _x: -g * conj_of(out * out),
    complex_lower=True,
)
tanh = elementwise(
    "tanh(Tensor input)",
    "The hyperbolic tangent of each element.",
    lower=lambda b, x: b.tanh(x),
    vjp=lambda g, out, _x: g * conj_of(1 - out * out) if g.is_complex() else ROWS["_tanh_backward"].call(g, out),
)
sigmoid = elementwise(
    "sigmoid(Tensor input)",
    "1 / (1 + exp(-x)) of each element.",
    lower=lambda b, x: b.logistic(x),
    vjp=holomorphic(
        lambda g, out, _x: g * out * (1 - out) if g.is_complex() else ROWS["_sigmoid_backward"].call(g, out)
    ),
)
relu = elementwise(
    "relu(Tensor input)",
    "The larger of zero and each element; NaN stays.",
    lower=lambda b, x: b.maximum(x, _zero(b, x)),
    vjp=lambda g, out, _x: ROWS["_relu_backward"].call(g, out),
)
floor = elementwise(
    "floor(Tensor input)",
    "The largest integer not above each element.",
    out="exact",
    lower=lambda b, x: b.floor(x) if b.recorded.floating else x,
    vjp=lambda g, _out, _x: g * 0,
)
ceil = elementwise(
    "ceil(Tensor input)",
    "The smallest integer not below each element.",
    out="exact",
    lower=lambda b, x: b.ceil(x) if b.recorded.floating else x,
    vjp=lambda g, _out, _x: g * 0,
)
trunc = elementwise(
    "trunc(Tensor input)",
    "Each element without its fraction.",
    out="exact",
    lower=_trunc,
    vjp=lambda g, _out, _x: g * 0,
)
round = elementwise(
    "round(Tensor input)",
    "The nearest integer, halves to even.",
    out="exact",
    lower=lambda b, x: b.round_nearest_even(x) if b.recorded.floating else x,
    vjp=lambda g, _out, _x: g * 0,
)
square = elementwise(
    "square(Tensor input)",
    "Each element times itself.",
    grad_fn="PowBackward0",
    autocast=("", "float32"),
    lower=lambda b, x: b.multiply(x, x),
    vjp=lambda g, _out, x: g * conj_of(2 * x),
    complex_lower=True,
)
isnan = elementwise(
    "isnan(Tensor input)",
    "Whether each element is NaN.",
    out="none",
    lower=lambda b, x: b.compare(x, x, "NE"),
    inplace=False,
)
isinf = elementwise(
    "isinf(Tensor input)",
    "Whether each element is infinite.",
    out="none",
    lower=lambda b, x: b.compare(b.abs(x), b.full(x.shape, math.inf), "EQ"),
    refuse=lambda call: None if call.floating else "it is constant for integers",
    inplace=False,
)
isfinite = elementwise(
    "isfinite(Tensor input)",
    "Whether each element is finite.",
    out="none",
    lower=lambda b, x: b.is_finite(x),
    refuse=lambda call: None if call.floating else "it is constant for integers",
    inplace=False,
)
logical_not = elementwise(
    "logical_not(Tensor input)", "Whether each element is zero.", lower=lambda b, x: b.not_(_truth(b, x))
)
bitwise_not = elementwise(
    "bitwise_not(Tensor input)", "Each element with its bits inverted.", out="exact", lower=lambda b, x: b.not_(x)
)


# ---- two operands


def _binary(name: str, doc: str, **rules: Any) -> Any:
    return elementwise(f"{name}(Tensor|Scalar input, Tensor|Scalar other)", doc, **rules)


def _of_tensors(name: str, doc: str, **rules: Any) -> Any:
    return elementwise(f"{name}(Tensor input, Tensor other)", doc, **rules)


def _relation(name: str, doc: str, **rules: Any) -> Any:
    return elementwise(f"{name}(Tensor input, Tensor|Scalar other)", doc, inplace=True, **rules)


add = _binary(
    "add",
    "The sum.",
    lower=lambda b, x, y: b.or_(x, y) if x.shape.dtype == "pred" else b.add(x, y),
    vjp=lambda g, _out, _x, _y: (g, g),
    complex_lower=True,
    numbers_as_tensors=True,
)
sub = _binary(
    "sub",
    "The difference.",
    lower=lambda b, x, y: b.subtract(x, y),
    vjp=lambda g, _out, _x, _y: (g, lambda: -g),
    complex_lower=True,
    numbers_as_tensors=True,
    grad_fn={"!input": "RsubBackward1"},
)
mul = _binary(
    "mul",
    "The product.",
    lower=lambda b, x, y: b.and_(x, y) if x.shape.dtype == "pred" else b.multiply(x, y),
    vjp=lambda g, _out, x, y: (lambda: g * conj_of(y), lambda: g * conj_of(x)),
    aliases=("multiply",),
    reads=("y", "x"),
    complex_lower=True,
    numbers_as_tensors=True,
    wide_operand=1,
)
div = _binary(
    "div",
    "The quotient, in floating point.",
    lower=lambda b, x, y: b.divide(x, y),
    vjp=lambda g, _out, x, y: (lambda: g / conj_of(y), lambda: -g * conj_of(x / y) / conj_of(y)),
    aliases=("divide", "true_divide"),
    reads=("y", "x y"),
    complex_lower=True,
    numbers_as_tensors=True,
    wide_operand=1,
)
maximum = _of_tensors(
    "maximum",
    "The larger of the two; NaN if either is NaN.",
    lower=lambda b, x, y: b.or_(x, y) if x.shape.dtype == "pred" else b.maximum(x, y),
    vjp=lambda g, _out, x, y: (_share(g, x, y), _share(g, y, x)),
    inplace=False,
)
minimum = _of_tensors(
    "minimum",
    "The smaller of the two; NaN if either is NaN.",
    lower=lambda b, x, y: b.and_(x, y) if x.shape.dtype == "pred" else b.minimum(x, y),
    vjp=lambda g, _out, x, y: (_share(g, y, x), _share(g, x, y)),
    inplace=False,
)


def _share(g: Any, x: Any, y: Any) -> Any:
    return lambda: ROWS["_larger_share"].call(g, x, y)


def _division(name: str) -> Any:
    def lower(b: Any, x: Any, y: Any) -> Any:
        if not b.recorded.floating and not b.recorded.constant(1):
            b.fail_where(b.compare(y, b.full(y.shape, 0), "EQ"))
        return b.elementwise_call(name, x, y)

    return lower


floor_divide = _binary(
    "floor_divide",
    "The quotient rounded down.",
    raises=True,
    lower=_division("floor_divide"),
    vjp=lambda g, _out, _x, _y: (lambda: g * 0, lambda: g * 0),
    wide_operand=1,
)
remainder = _binary(
    "remainder",
    "The remainder, with the sign of the divisor.",
    raises=True,
    lower=_division("remainder"),
    vjp=lambda g, _out, x, y: (g, lambda: -g * floor_divide(x, y)),
    reads=("", "x y"),
    grad_fn={"other": "RemainderBackward1"},
)

# Exponents that are multiplications and square roots, exactly as the eager kernel computes them. All but 3.0 are
# constants in recorded programs.
_POWERS: dict[float, Any] = {
    0: lambda b, x: _one(b, x),
    1: lambda b, x: x,
    2: lambda b, x: b.multiply(x, x),
    3: lambda b, x: b.multiply(b.multiply(x, x), x),
    0.5: lambda b, x: b.sqrt(x),
    -0.5: lambda b, x: b.divide(_one(b, x), b.sqrt(x)),
    -1: lambda b, x: b.divide(_one(b, x), x),
    -2: lambda b, x: b.divide(_one(b, x), b.multiply(x, x)),
}


def _pow_lower(b: Any, x: Any, y: Any) -> Any:
    exponent = b.recorded.operands[1]
    if x.dtype == "pred":  # only to the power of a number: True or False
        return x if exponent.scalar else _one(b, x)
    if exponent.kind != "scalar" or b.recorded.operands[0].kind == "scalar":
        return b.elementwise_call("pow", x, y)
    if x.array_shape.kind in "iu" and exponent.baked and exponent.scalar in (0, 1, 2):
        return _POWERS[exponent.scalar](b, x)
    if not b.recorded.floating:
        return b.elementwise_call("pow", x, y)
    if exponent.baked:
        power = _POWERS.get(exponent.scalar)
        return b.elementwise_call("pow", x, y) if power is None else power(b, x)
    # The one number of these that is none of the constants.
    return b.select(b.compare(y, b.full(y.shape, 3), "EQ"), _POWERS[3](b, x), b.elementwise_call("pow", x, y))


def _pow_vjp(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    if isinstance(y, (int, float, complex)):
        return (g * 0 if y == 0 else g * conj_of(y * x ** (y - 1))), None
    if isinstance(x, complex):
        return None, g * conj_of(out * cmath.log(x))
    if isinstance(x, (int, float)):
        if out.is_complex():
            return None, g * conj_of(out * cmath.log(x)) if x else where(y == 0, 0.0, g * 0)
        if x == 0:
            return None, where(y >= 0, 0.0, g * out * -math.inf)
        return None, g * out * math.log(x) if x > 0 else g * out * math.nan
    return (
        lambda: g * conj_of(where(y == 0, 0.0, y * x ** (y - 1))),
        lambda: g * conj_of(where(_nothing_below(x, y), 0.0, out * log(_as_base(x, out)))),
    )


def _as_base(x: Any, out: Any) -> Any:
    # The logarithm of a negative number is complex where the power is.
    return x.to(out.dtype) if out.is_complex() and not x.is_complex() else x


def _nothing_below(x: Any, y: Any) -> Any:
    # Where 0 ** y does not change with y.
    return (x == 0) & (y == y if y.is_complex() else y >= 0)


pow = elementwise(
    "pow(Tensor|Scalar input, Tensor|Scalar exponent)", "input to the power of exponent.",
    autocast=("", "float32"), lower=_pow_lower, vjp=_pow_vjp, reads=("x y", "out x y"),
    grad_fn={"!input": "PowBackward2", "exponent": "PowBackward1"},
)  # fmt: skip

eq = _relation("eq", "Whether the two are equal.", lower=lambda b, x, y: b.compare(x, y, "EQ"), complex_lower=True)
ne = _relation(
    "ne",
    "Whether the two differ.",
    lower=lambda b, x, y: b.compare(x, y, "NE"),
    aliases=("not_equal",),
    complex_lower=True,
)
lt = _relation("lt", "Whether the first is smaller.", lower=lambda b, x, y: b.compare(x, y, "LT"), aliases=("less",))
le = _relation(
    "le", "Whether the first is smaller or equal.", lower=lambda b, x, y: b.compare(x, y, "LE"), aliases=("less_equal",)
)
gt = _relation("gt", "Whether the first is larger.", lower=lambda b, x, y: b.compare(x, y, "GT"), aliases=("greater",))
ge = _relation(
    "ge",
    "Whether the first is larger or equal.",
    lower=lambda b, x, y: b.compare(x, y, "GE"),
    aliases=("greater_equal",),
)
logical_and = _of_tensors(
    "logical_and", "Whether both are non-zero.", lower=lambda b, x, y: b.and_(_truth(b, x), _truth(b, y))
)
logical_or = _of_tensors(
    "logical_or", "Whether either is non-zero.", lower=lambda b, x, y: b.or_(_truth(b, x), _truth(b, y))
)
logical_xor = _of_tensors(
    "logical_xor", "Whether exactly one is non-zero.", lower=lambda b, x, y: b.xor(_truth(b, x), _truth(b, y))
)
bitwise_and = _binary("bitwise_and", "The bits that both have.", lower=lambda b, x, y: b.and_(x, y))
bitwise_or = _binary("bitwise_or", "The bits that either has.", lower=lambda b, x, y: b.or_(x, y))
bitwise_xor = _binary("bitwise_xor", "The bits that exactly one has.", lower=lambda b, x, y: b.xor(x, y))

# ---- three operands

where: Op = elementwise(
    "where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other)",
    "input where the condition holds, other elsewhere.",
    out="exact",
    lower=lambda b, c, x, y: b.select(_truth(b, c), x, y),
    vjp=lambda g, _out, c, _x, _y: (None, lambda: where(c, g, 0.0), lambda: where(c, 0.0, g)),
    method=False,
    inplace=False,
    complex_lower=True,
    predicate=0,
    numbers_as_tensors=True,
)


def _clamp_lower(b: Any, x: Any, low: Any, high: Any) -> Any:
    # The same two steps as the eager kernel: at least low, then at most high.
    if low is not None:
        x = b.maximum(x, b.full(x.shape, low))
    return x if high is None else b.minimum(x, b.full(x.shape, high))


def _clamp_vjp(g: Any, _out: Any, x: Any, low: Any, high: Any) -> Any:
    inside = None
    if low is not None:
        inside = x >= low
    if high is not None:
        inside = x <= high if inside is None else inside & (x <= high)
    return g if inside is None else where(inside, g, 0.0)


clamp = elementwise(
    "clamp(Tensor input, Scalar? min=None, Scalar? max=None)",
    "Each element brought into [min, max]; NaN stays.",
    lower=_clamp_lower,
    vjp=_clamp_vjp,
    grad_fn="ClampBackward1",
)

# ---- conversions and copies

cast = elementwise(
    "cast(Tensor input, dtype dtype)",
    "The elements converted to dtype.",
    lower=lambda b, x, dtype: x,
    function=False,
    method=False,
    inplace=False,
    vjp=lambda g, _out, _x, dtype: g,
    complex_lower=True,
    grad_fn="ToCopyBackward0",
)
clone: Op = elementwise(
    "clone(Tensor input)",
    "A copy with the dimensions in the same order in memory.",
    lower=lambda b, x: x,
    vjp=lambda g, _out, _x: g,
    inplace=False,
    complex_lower=True,
)
row_major: Op = elementwise(
    "_row_major(Tensor input)",
    "A row-major copy.",
    lower=lambda b, x: x,
    vjp=lambda g, _out, _x: g,
    inplace=False,
    complex_lower=True,
    grad_fn="CloneBackward0",
)


# In place only: destination first.
def _nothing(g: Any) -> Any:
    """The gradient of what was overwritten."""
    from minitensor.ops.creation import full

    return full(tuple(g.shape), 0, dtype=g.dtype, device=g.device)


fill = elementwise(
    "fill(Tensor input, Scalar value)",
    "Sets every element.",
    vjp=lambda g, _out, _x, value: (lambda: _nothing(g),),
    function=False,
    method=False,
    why="it is recorded as an assignment",
    overwrites=True,
)
copy: Op = elementwise(
    "copy(Tensor input, Tensor src)",
    "Copies src, broadcast and converted.",
    vjp=lambda g, _out, _x, _src: (lambda: _nothing(g), g),
    function=False,
    method=False,
    why="it is recorded as an assignment",
    overwrites=True,
    grad_fn="torch::autograd::CopyBackwards",
)
