"""Elementwise functions with a loop of their own: trigonometric, hyperbolic, exponential and logarithmic ones.

Compiled code calls the same loops (`elementwise_call`), or is made of the same operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitensor._C import Op
from minitensor.ops.elementwise import holomorphic, log, where
from minitensor.ops.row import elementwise, underived

__all__: list[str] = []


def as_operand(b: Any, x: Any, number: Any) -> Any:
    """A number as a constant of the shape of x; what is none stays."""
    return b.full(x.shape, number) if isinstance(number, (bool, int, float)) else number


def called(name: str) -> Callable[..., Any]:
    """A lowering to the eager loop of that name; parameters follow the operands as numbers."""

    def lower(b: Any, x: Any, *others: Any) -> Any:
        return b.elementwise_call(name, x, *(as_operand(b, x, other) for other in others))

    return lower


def unary(name: str, doc: str, vjp: Callable[..., Any] | None, **rules: Any) -> Op:
    """A function of one tensor, lowered to its loop unless `lower` says otherwise."""
    rule = vjp and holomorphic(vjp)
    return elementwise(f"{name}(Tensor input)", doc, vjp=rule, **{"lower": called(name)} | rules)


def binary(name: str, doc: str, vjp: Callable[..., Any] | None, **rules: Any) -> Op:
    """A function of two tensors, lowered to its loop unless `lower` says otherwise."""
    schema = f"{name}(Tensor input, Tensor other)"
    return elementwise(schema, doc, vjp=vjp and holomorphic(vjp), **{"lower": called(name)} | rules)


# ---- trigonometric

sin: Op = unary("sin", "The sine of each element.", lambda g, _out, x: g * cos(x))
cos: Op = unary("cos", "The cosine of each element.", lambda g, _out, x: -g * sin(x))
tan = unary("tan", "The tangent of each element.", lambda g, out, _x: g * (1 + out * out), autocast=("", "float32"))
asin = unary(
    "asin",
    "The angle in [-pi/2, pi/2] whose sine is each element; NaN outside [-1, 1].",
    lambda g, _out, x: g * (1 - x * x).rsqrt(),
    aliases=("arcsin",),
    autocast=("", "float32"),
)
acos = unary(
    "acos",
    "The angle in [0, pi] whose cosine is each element; NaN outside [-1, 1].",
    lambda g, _out, x: -g * (1 - x * x).rsqrt(),
    aliases=("arccos",),
    autocast=("", "float32"),
)
atan = unary(
    "atan",
    "The angle in (-pi/2, pi/2) whose tangent is each element.",
    lambda g, _out, x: g / (x * x + 1),
    aliases=("arctan",),
)


def _of_squares(x: Any, y: Any) -> Any:
    """x over the sum of the squares; 0 at the origin, which has no angle."""
    squares = x * x + y * y
    return where(squares == 0, 0.0, x / squares)


atan2 = binary(
    "atan2",
    "The angle in [-pi, pi] of the point with y = input and x = other.",
    lambda g, _out, y, x: (lambda: g * _of_squares(x, y), lambda: g * -_of_squares(y, x)),
    aliases=("arctan2",),
)


def _sinc_vjp(g: Any, out: Any, x: Any) -> Any:
    # Near zero the difference of the two terms would be lost: a Taylor series instead.
    y = math.pi * x
    z = y * y
    series = y * (-1 / 3 + z * (1 / 30 + z * (-1 / 840 + z / 45360)))
    near = y.abs() < 0.1
    return g * math.pi * where(near, series, (cos(y) - out) / where(near, 1.0, y))


sinc = unary("sinc", "sin(pi x) / (pi x) of each element, 1 at zero.", _sinc_vjp, namespaces=("special",))

# ---- hyperbolic

sinh: Op = unary(
    "sinh", "The hyperbolic sine of each element.", lambda g, _out, x: g * cosh(x), autocast=("", "float32")
)
cosh: Op = unary(
    "cosh", "The hyperbolic cosine of each element.", lambda g, _out, x: g * sinh(x), autocast=("", "float32")
)
asinh = unary(
    "asinh",
    "The number whose hyperbolic sine is each element.",
    lambda g, _out, x: g * (x * x + 1).rsqrt(),
    aliases=("arcsinh",),
)
acosh = unary(
    "acosh",
    "The number from 0 up whose hyperbolic cosine is each element; NaN below 1.",
    lambda g, _out, x: g * ((x - 1).rsqrt() * (x + 1).rsqrt()),
    aliases=("arccosh",),
)
atanh = unary(
    "atanh",
    "The number whose hyperbolic tangent is each element; NaN outside [-1, 1].",
    lambda g, _out, x: g / (1 - x * x),
    aliases=("arctanh",),
)

# ---- exponentials and logarithms

exp2 = unary(
    "exp2", "2 to the power of each element.", lambda g, out, _x: g * out * math.log(2), namespaces=("special",)
)
expm1 = unary(
    "expm1",
    "e to the power of each element, minus 1, also where that is small.",
    lambda g, out, _x: g * (out + 1),
    autocast=("", "float32"),
    lower=lambda b, x: b.exponential_minus_one(x),
    namespaces=("special",),
)
log1p = unary(
    "log1p",
    "The natural logarithm of 1 plus each element, also where that is small.",
    lambda g, _out, x: g / (x + 1),
    autocast=("", "float32"),
    lower=lambda b, x: b.log_plus_one(x),
    namespaces=("special",),
)
log2 = unary(
    "log2",
    "The logarithm to base 2 of each element.",
    lambda g, _out, x: g / (x * math.log(2)),
    autocast=("", "float32"),
)
log10 = unary(
    "log10",
    "The logarithm to base 10 of each element.",
    lambda g, _out, x: g / (x * math.log(10)),
    autocast=("", "float32"),
)
_logit = unary(
    "_logit",
    "log(x / (1 - x)) of each element.",
    lambda g, _out, x: g * where((x >= 0) & (x <= 1), 1 / (x * (1 - x)), math.nan),
)


def _logaddexp_vjp(exp: Callable[[Any], Any]) -> Callable[..., Any]:
    def vjp(g: Any, out: Any, x: Any, y: Any) -> Any:
        def share(z: Any, other: Any) -> Any:
            # Of the difference, which is exact where exp(z - out) has lost it: out is rounded. Where the result is -inf
            # so are both, and each has no share in it.
            return g * where(out == -math.inf, 0.0, 1 / (1 + exp(other - z)))

        return lambda: share(x, y), lambda: share(y, x)

    return vjp


logaddexp = binary(
    "logaddexp", "log(exp(input) + exp(other)), without overflow.", _logaddexp_vjp(lambda x: x.exp()), inplace=False
)
logaddexp2 = binary(
    "logaddexp2", "log2(2^input + 2^other), without overflow.", _logaddexp_vjp(lambda x: exp2(x)), inplace=False
)
xlogy = elementwise(
    "xlogy(Tensor|Scalar input, Tensor|Scalar other)",
    "input times the logarithm of other; 0 where input is 0 and other not NaN.",
    lower=called("xlogy"),
    vjp=lambda g, _out, x, y: (
        lambda: where((x == 0) & (y <= 0), 0.0, g * _tensor_log(y)),
        lambda: g * (x / y),
    ),
    namespaces=("special",),
    grad_fn={"!input": "XlogyBackward1", "!other": "XlogyBackward2"},
)
xlog1py = elementwise(
    "xlog1py(Tensor|Scalar input, Tensor|Scalar other)",
    "input times log(1 + other); 0 where input is 0 and other not NaN.",
    lower=called("xlog1py"),
    vjp=lambda g, _out, x, y: (
        lambda: where((x == 0) & (y <= -1), 0.0, g * (_number_log(y, 1) if isinstance(y, (int, float)) else log1p(y))),
        lambda: g * (x / (y + 1)),
    ),
    function=False,
    method=False,
    inplace=False,
    namespaces=("special",),
    grad_fn={
        "!input": "SpecialXlog1PyBackward1",
        "!other": "SpecialXlog1PyBackward2",
        "": "SpecialXlog1PyBackward0",
    },
)


def _tensor_log(y: Any) -> Any:
    return _number_log(y, 0) if isinstance(y, (int, float)) else log(y)


def _number_log(y: float, more: int) -> float:
    """log(more + y), as tensors have it."""
    if y > -more:
        return math.log1p(y) if more else math.log(y)
    return -math.inf if y == -more else math.nan


erf = unary(
    "erf",
    "The error function of each element: 2 / sqrt(pi) times the integral of exp(-t^2) from 0.",
    lambda g, _out, x: g * ((x * x).neg().exp() * (2 / math.sqrt(math.pi))),
    namespaces=("special",),
)

# ---- three operands


def _lerp_lower(b: Any, start: Any, end: Any, weight: Any) -> Any:
    difference, one = b.subtract(end, start), b.full(weight.shape, 1.0)
    return b.select(
        b.compare(b.abs(weight), b.full(weight.shape, 0.5), "LT"),
        b.add(start, b.multiply(weight, difference)),
        b.subtract(end, b.multiply(difference, b.subtract(one, weight))),
    )


lerp = elementwise(
    "lerp(Tensor input, Tensor end, Tensor|Scalar weight)",
    "input + weight * (end - input).",
    lower=_lerp_lower,
    vjp=lambda g, _out, x, end, weight: (
        lambda: g * (1 - weight),
        lambda: g * weight,
        lambda: g * (end - x),
    ),
    reads=("weight", "weight", "x end"),
    wide_number=2,
    grad_fn={"weight": "LerpBackward1"},
)

frac = unary("frac", "Each element's fraction, with its sign.", lambda g, _out, _x: g, out="exact")

# ---- tests

for _name, _doc in {
    "signbit": "Whether each element has a sign bit that is set: also -0.",
    "isposinf": "Whether each element is infinity.",
    "isneginf": "Whether each element is minus infinity.",
}.items():
    unary(_name, _doc, None, inplace=False, out="exact")

# ---- two operands


def _scalar_binary(name: str, doc: str, vjp: Callable[..., Any] | None, **rules: Any) -> Op:
    schema = f"{name}(Tensor input, Tensor|Scalar other)"
    return elementwise(schema, doc, vjp=vjp, **{"lower": called(name)} | rules)


def _copysign_sign(out: Any, x: Any) -> Any:
    return where(x == 0, 0.0, out / where(x == 0, 1.0, x))


copysign = _scalar_binary(
    "copysign",
    "input's magnitude with other's sign.",
    lambda g, out, x, _y: (lambda: g * _copysign_sign(out, x), lambda: g * 0),
    reads=("out x", ""),
    grad_fn={"!other": "CopysignBackward1"},
)
hypot = binary(
    "hypot",
    "The root of the sum of the squares, without overflow.",
    lambda g, out, x, y: (lambda: g * (x / out), lambda: g * (y / out)),
    reads=("out x", "out y"),
)
nextafter = binary(
    "nextafter",
    "The next number after input towards other.",
    lambda g, _out, x, y: (lambda: where(x == y, 0.0, g), lambda: g * 0),
    reads=("x y", ""),
    refuse=lambda call: "neighbours are those of the stored type" if call.compute in ("f16", "bf16") else None,
)
heaviside = elementwise(
    "heaviside(Tensor input, Tensor values)",
    "0 below zero, 1 above, and values at zero.",
    out="exact",
    lower=called("heaviside"),
    vjp=underived("heaviside"),
)


def _fmax_vjp(first: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def vjp(g: Any, _out: Any, x: Any, y: Any) -> Any:
        mine = first(x, y)
        return lambda: where(mine, g, 0.0), lambda: where(mine, 0.0, g)

    return vjp


fmax = binary(
    "fmax",
    "The larger of the two; the other if one is NaN.",
    _fmax_vjp(lambda x, y: (x >= y) | y.isnan()),
    inplace=False,
)
fmin = binary(
    "fmin",
    "The smaller of the two; the other if one is NaN.",
    _fmax_vjp(lambda x, y: (x <= y) | y.isnan()),
    inplace=False,
)
gcd = binary("gcd", "The greatest common divisor.", None)
lcm = binary("lcm", "The least common multiple.", None)
for _name, _doc in {
    "bitwise_left_shift": "input times 2 to the power of other, in bits.",
    "bitwise_right_shift": "input divided by 2 to the power of other, rounded down, in bits.",
}.items():
    elementwise(f"{_name}(Tensor|Scalar input, Tensor|Scalar other)", _doc, lower=called(_name))


def _refuse_division(call: Any) -> str | None:
    if call.floating or call.constant(1):
        return None
    return "an integer may be divided by zero, which is an error"


fmod = _scalar_binary(
    "fmod",
    "The remainder, with the sign of input.",
    lambda g, _out, x, y: (lambda: g, lambda: -g * (x / y).trunc()),
    raises=True,
    reads=("", "x y"),
    refuse=_refuse_division,
    grad_fn={"other": "FmodBackward1"},
)


def _clamp_tensor_vjp(g: Any, _out: Any, x: Any, low: Any, high: Any) -> Any:
    return (
        lambda: where((x >= low) & (x <= high), g, 0.0),
        lambda: where((x < low) & (low < high), g, 0.0),
        lambda: where((x > high) | (low > high), g, 0.0),
    )


clamp_tensor = elementwise(
    "_clamp_tensor(Tensor input, Tensor min, Tensor max)",
    "Each element brought into [min, max]; NaN stays.",
    lower=called("_clamp_tensor"),
    vjp=_clamp_tensor_vjp,
    grad_fn="ClampBackward0",
)

# ---- four operands, one a number


def _value(b: Any, x: Any, value: Any) -> Any:
    return b.full(x.shape, value)


addcmul = elementwise(
    "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, Tensor|Scalar value)",
    "input + value * tensor1 * tensor2, with a number as value.",
    lower=lambda b, x, y, z, value: b.add(x, b.multiply(b.multiply(value, y), z)),
    vjp=lambda g, _out, _x, y, z, value: (
        lambda: g,
        lambda: g * (z * value),
        lambda: g * (y * value),
        lambda: g * (y * z),
    ),
    reads=("", "z value", "y value", "y z"),
    wide_number=3,
)
addcdiv = elementwise(
    "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, Tensor|Scalar value)",
    "input + value * tensor1 / tensor2, with a number as value.",
    lower=lambda b, x, y, z, value: b.add(x, b.divide(b.multiply(value, y), z)),
    vjp=lambda g, _out, _x, y, z, value: (
        lambda: g,
        lambda: g * (value / z),
        lambda: -g * (value * y / (z * z)),
        lambda: g * (y / z),
    ),
    reads=("", "z value", "y z value", "y z"),
    wide_number=3,
)


def _nan_to_num_lower(b: Any, x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    infinity, minus = _value(b, x, math.inf), _value(b, x, -math.inf)
    finite = b.select(b.compare(x, minus, "EQ"), _value(b, x, neginf), x)
    number = b.select(b.compare(x, infinity, "EQ"), _value(b, x, posinf), finite)
    return b.select(b.compare(x, x, "NE"), _value(b, x, nan), number)


nan_to_num = elementwise(
    "_nan_to_num(Tensor input, float nan, float posinf, float neginf)",
    "Each element, with numbers for NaN and the infinities.",
    out="exact",
    lower=_nan_to_num_lower,
    vjp=lambda g, _out, x, nan, posinf, neginf: where(x.isfinite(), g, 0.0),
)

# ---- the parts of a number

exponent_of = unary("_exponent", "The power of two e with |x| = m 2^e, 1/2 <= m < 1.", None)
mantissa_of = unary("_mantissa", "x / 2^e, as above.", lambda g, _out, x: g * exp2(-exponent_of(x)))
