"""Functions that the CPU calls and a GPU has no library for: the operations of `csrc/kernels/cpu`, one after the other.

The names of files, functions and constants are those of `math/trigonometric.h`, `math/logarithm.h`, `math/erf.h` and
`pointwise/vector_functions.cpp`; `docs/math.md` says how they work. What is not here is computed by the host.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....ir.library import ELEMENTWISE_PREFIX
from ...emitter.math import cospi2, exp, expm1, log, log1p, sigmoid, sinpi2, tanh
from ...llvm.ir_text import Builder
from ...llvm.ir_types import Value
from .angles import cos, sin, sinc, tan
from .numbers import Test, X, select
from .powers import power
from .remainders import floor_divide, fmod, integer_floor_divide, integer_remainder, remainder

__all__ = ["FUNCTIONS"]

_INF: Final = python_math.inf
_NAN: Final = python_math.nan


# ---- inverse trigonometric, hyperbolic


def _atan_of(n: X, d: X) -> X:
    """atan(n / d) for 0 <= n, 0 < d."""
    m = n.more
    mid, far = n > m["tan_pi_8"] * d, m["tan_pi_8"] * n > d
    top = select(far, -d, select(mid, n - d, n))
    bottom = select(far, n, select(mid, n + d, d))
    quarter, low = n.number(m["pio2_1"] * 0.5), m["pi_4_low"]
    base = select(far, 2 * m["pio2_1"] * 0.5, select(mid, quarter, 0.0))
    base_low = select(far, n.number(2 * low), select(mid, n.number(low), 0.0))
    t = top / bottom
    z = t * t
    return base + (t + (z * t).fma(z.polynomial(m["atan"]), base_low))


def _atan(x: X) -> X:
    a = x.abs()
    r = _atan_of(a, a.number(1.0))
    limited = select(a > x.more["big"], x.more["pio2_1"], r)
    tiny = _single(1e-6, x) * _single(1e-6, x)
    return select(a < (tiny if x.is_double else _single(tiny, x)), a, limited).with_sign_of(x)


def _single(value: float, like: X) -> float:
    """The number rounded to the type."""
    return value if like.is_double else float(np.float32(value))


def _atan2(y: X, x: X) -> X:
    m = y.more
    n, d = y.abs(), x.abs()
    equal = n.is_(d)
    zero_or_one = select(n.is_(0.0), n.number(0.0), 1.0)
    scale = select((n > m["big"]) | (d > m["big"]), n.number(0.25), 1.0)
    up = select((n < 1 / m["big"]) & (d < 1 / m["big"]), n.number(m["big"]), 1.0)
    n, d = n * scale * up, d * scale * up
    n, d = select(equal, zero_or_one, n), select(equal, 1.0, d)
    d_inf, n_inf = d.is_(_INF), n.is_(_INF)
    n = select(d_inf, 0.0, select(n_inf, 1.0, n))
    d = select(n_inf, 0.0, select(d_inf, 1.0, d))
    r = _atan_of(n, d)
    turned = 2 * m["pio2_1"] - (r - 4 * m["pi_4_low"])
    result = select(x.negative(), turned, r).with_sign_of(y)
    return select(x.is_nan() | y.is_nan(), x + y, result)


def _asin_parts(x: X) -> tuple[X, Test, X, X, X]:
    """The size of x, whether it is small, and s, the rest of asin(s), and what the root lost."""
    a = x.abs()
    near = a <= 0.5
    z = select(near, a * a, 0.5 * (1.0 - a))
    s = select(near, a, z.sqrt())
    rest = z * s * z.polynomial(x.more["asin"])
    lost = (-s).fma(s, z) / (s + s + x.format.smallest_normal)
    return a, near, s, rest, lost


def _asin(x: X) -> X:
    m = x.more
    a, near, s, rest, lost = _asin_parts(x)
    far = m["pio2_1"] - 2.0 * (s + (rest + (lost - m["pi_4_low"])))
    result = select(near, s + rest, far)
    return select(x.is_nan() | x.is_(0.0), x, select(a > 1.0, _NAN, result.with_sign_of(x)))


def _acos(x: X) -> X:
    m = x.more
    _, near, s, rest, lost = _asin_parts(x)
    signed_rest = x.number(1.0).with_sign_of(x) * rest
    middle = m["pio2_1"] - (s.with_sign_of(x) + (signed_rest - 2 * m["pi_4_low"]))
    end = 2.0 * (s + (rest + lost))
    far = select(x < 0.0, 2 * m["pio2_1"] - (end - 4 * m["pi_4_low"]), end)
    return select(near, middle, far)


def _reduce_exp(x: X, bias: int) -> tuple[Any, X]:
    f = x.format
    shift = x.number(f.round_shift + bias)
    shifted = x.fma(f.log2e, shift)
    n = shifted - shift
    return shifted.bits(), n.fma(-f.ln2_low, n.fma(-f.ln2_high, x))


def _half_exp(x: X) -> X:
    f, high = x.format, x.more["half_exp_high"]
    x = select(x > high, high, x)
    shifted, r = _reduce_exp(x, 2 * f.exponent_bias - 1)
    m = r.polynomial(f.exp).fma(r, 1.0).fma(r, 1.0)
    half = shifted >> 1
    return m * (half << f.mantissa_bits).as_float() * ((shifted - half) << f.mantissa_bits).as_float()


def _sinh(x: X) -> X:
    a = x.abs()
    z = a * a
    near = (z * a).fma(z.polynomial(x.more["sinh"]), a)
    e = _half_exp(a)
    return select(a < 1.0, near, e - 0.25 / e).with_sign_of(x)


def _cosh(x: X) -> X:
    e = _half_exp(x.abs())
    return e + 0.25 / e


def _asinh(x: X) -> X:
    a = x.abs()
    z = a * a
    large = a > x.more["log_large"]
    inner = a + z / (1.0 + (z + 1.0).sqrt())
    r = select(large, a - 1.0, inner).then(log1p) + select(large, x.number(x.format.ln2), 0.0)
    return select(x.is_nan() | x.is_(0.0), x, r.with_sign_of(x))


def _acosh(x: X) -> X:
    large = x > x.more["log_large"]
    t = x - 1.0
    inner = t + t.fma(t, 2.0 * t).sqrt()
    r = select(large, t, inner).then(log1p) + select(large, x.number(x.format.ln2), 0.0)
    return select(x < 1.0, _NAN, r)


def _atanh(x: X) -> X:
    a = x.abs()
    twice = a + a
    near = twice + twice * a / (1.0 - a)
    far = twice / (1.0 - a)
    r = 0.5 * select(a < 0.5, near, far).then(log1p)
    special = select(a.is_(1.0), _INF, r)
    return select(x.is_nan() | x.is_(0.0), x, select(a > 1.0, _NAN, special.with_sign_of(x)))


# ---- exponentials and logarithms


def _exp2(x: X) -> X:
    f, m = x.format, x.more
    x = select(x < m["exp2_low"], m["exp2_low"], x)
    x = select(x > m["exp2_high"], m["exp2_high"], x)
    shift = x.number(f.round_shift + 2 * f.exponent_bias)
    shifted = x + shift
    r = x - (shifted - shift)
    y = r.polynomial(m["exp2"]).fma(r, 1.0)
    word = shifted.bits()
    half = word >> 1
    return y * (half << f.mantissa_bits).as_float() * ((word - half) << f.mantissa_bits).as_float()


def _split(x: X) -> tuple[X, X]:
    """x = 2^e (1 + f), with f in [-1/3, 1/3), for x > 0."""
    f = x.format
    shift = 2.0**f.mantissa_bits
    denormal = x < f.smallest_normal
    scaled = x * select(denormal, x.number(shift), 1.0)
    i = scaled.bits() + (f.one_bits - f.two_thirds)
    bias = select(denormal, x.number(shift + (f.exponent_bias + f.mantissa_bits)), shift + f.exponent_bias)
    e = ((i >> f.mantissa_bits) | f.shift_bits).as_float() - bias
    return e, ((i & f.mantissa_mask) + f.two_thirds).as_float() - 1.0


def _log_to_base(x: X, factor: float, factor_low: float, unit: float, unit_low: float) -> X:
    e, f = _split(x)
    rest = f * f * f.polynomial(x.format.log).fma(f, -0.5)
    high = f + rest
    low = rest - (high - f)
    product = high * factor
    product_low = high.fma(factor, -product) + low.fma(factor, high * factor_low)
    result = e.fma(unit, product + e.fma(unit_low, product_low))
    special = select(x.is_(0.0), x.number(-_INF), _NAN)
    return select(x.is_(_INF), _INF, select(x > 0.0, result, special))


def _log2(x: X) -> X:
    return _log_to_base(x, x.format.log2e, x.more["log2e_low"], 1.0, 0.0)


def _log10(x: X) -> X:
    m = x.more
    return _log_to_base(x, m["log10e"], m["log10e_low"], m["log10_2"], m["log10_2_low"])


def _log_add(x: X, y: X, function: Callable[[X], X], factor: float | None) -> X:
    larger = select(x > y, x, y)
    added = function(-(x - y).abs()).then(log1p)
    total = larger + (added if factor is None else added * factor)
    equal_infinities = x.is_(y) & x.abs().is_(_INF)
    return select(equal_infinities, x, select(x.is_nan() | y.is_nan(), x + y, total))


def _times_log(function: Callable[[Builder, Value], Value]) -> Callable[[X, X], X]:
    return lambda x, y: select(x.is_(0.0) & y.is_(y), 0.0, x * y.then(function))


# ---- the error function, and activations


def _erf(x: X) -> X:
    m = x.more
    a = x.abs()
    z = a * a
    near = a.fma(z.polynomial(m["erf_near"]), a)
    limited = select(a > m["erf_one"], m["erf_one"], a)
    far = 1.0 - (-(limited - 1.0).polynomial(m["erf_far"])).then(exp)
    return select(a < 1.0, near, far).with_sign_of(x)


def _erfc(x: X) -> X:
    wide = x.wide()
    b = wide.abs()
    a = select(b > 28.0, 28.0, b)
    q = ((a - 3.75) / (a + 3.75)).polynomial(x.more["erfc"]) / (1.0 + 2.0 * a)
    square = a * a
    lost = a.fma(a, -square)
    r = (-square).then(exp) * (q - q * lost)
    return select(wide < 0.0, 2.0 - r, r).narrow(x)


def _erfinv(x: X) -> X:
    m = x.more
    w = -(-x).fma(x, 1.0).then(log)
    root = w.sqrt()
    far = (root - m["erfinv_far_middle"]).polynomial(m["erfinv_far"])
    if x.is_double:
        far = select(root > 4.0, (root - 5.0).polynomial(m["erfinv_farthest"]), far)
    near = (w - m["erfinv_near_middle"]).polynomial(m["erfinv_near"])
    r = x * select(w < 2 * m["erfinv_near_middle"], near, far)
    return select(x.abs().is_(1.0), x.number(_INF).with_sign_of(x), r)


def _normal(x: X) -> X:
    if x.is_double:
        return _erf(x * float.fromhex("0x1.6a09e667f3bcdp-1"))
    r = x * (x * x).fma(0.0625, -1.0).polynomial(x.more["normal"])
    return select(x.abs() > 5.65, x.number(1.0).with_sign_of(x), r)


_ROOT: Final = float.fromhex("0x1.9884533d43651p-1")  # sqrt(2 / pi)


def _gelu(x: X) -> X:
    return x * 0.5 * (1.0 + _normal(x))


def _gelu_tanh(x: X) -> X:
    inner = _ROOT * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + inner.then(tanh))


def _gelu_slope(x: X) -> X:
    density = float.fromhex("0x1.9884533d43651p-2")
    integral = x.number(0.5).fma(_normal(x), 0.5)
    return integral + x * ((x * x * -0.5).then(exp) * density)


def _gelu_tanh_slope(x: X) -> X:
    t = (_ROOT * (x + 0.044715 * (x * x * x))).then(tanh)
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (_ROOT * (1.0 + 3 * 0.044715 * (x * x)))


def _mish(x: X) -> X:
    return x * x.then(exp).then(log1p).then(tanh)


def _log_sigmoid(x: X) -> X:
    return select(x > 0.0, 0.0, x) - (-x.abs()).then(exp).then(log1p)


def _softplus(x: X, beta: X, threshold: X) -> X:
    z = x * beta
    return select(z > threshold, x, z.then(exp).then(log1p) / beta)


_SCALE: Final = 1.0507009873554804934193349852946
_SCALED_ALPHA: Final = 1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


def _hypot(x: X, y: X) -> X:
    if not x.is_double:
        a, b = x.wide(), y.wide()
        r = (a * a + b * b).sqrt().narrow(x)
        return select(x.abs().is_(_INF) | y.abs().is_(_INF), _INF, r)
    a, b = x.abs(), y.abs()
    larger = select(a > b, a, b)
    down = select(larger > 2.0**500, x.number(2.0**-600), 1.0)
    scale = select(larger < 2.0**-500, 2.0**600, down)
    up = select(larger > 2.0**500, x.number(2.0**600), 1.0)
    p, q = a * scale, b * scale
    pp, qq = p * p, q * q
    total = pp + qq
    high, low = select(pp > qq, pp, qq), select(pp > qq, qq, pp)
    lost = (high - total) + low + (p.fma(p, -pp) + q.fma(q, -qq))
    root = total.sqrt()
    step = ((-root).fma(root, total) + lost) / (root + root)
    exact = root + select(total > 0.0, step, 0.0)
    r = exact * select(larger < 2.0**-500, 2.0**-600, up)
    return select(a.is_(_INF) | b.is_(_INF), _INF, select(x.is_nan(), x, select(y.is_nan(), y, r)))


def _softshrink(x: X, bound: X) -> X:
    inside = x * 0.0  # NaN stays
    return select(x > bound, x - bound, select(x < -bound, x + bound, inside))


def _silu_backward(g: X, x: X) -> X:
    s = x.then(sigmoid)
    return g * (s * (1.0 + x * (1.0 - s)))


def _lerp(start: X, end: X, weight: X) -> X:
    difference = end - start
    return select(weight.abs() < 0.5, start + weight * difference, end - difference * (1.0 - weight))


def _sign(x: X) -> X:
    return select(x > 0.0, x.number(1.0), select(x < 0.0, x.number(-1.0), 0.0))


def _clamp_tensor(x: X, low: X, high: X) -> X:
    a = select(x < low, low, x)
    b = select(a > high, high, a)
    b = select(high.is_nan(), high, b)
    b = select(low.is_nan(), low, b)
    return select(x.is_nan(), x, b)


def _squared_difference(a: X, b: X) -> X:
    d = a - b
    return d * d


def _squared_difference_backward(g: X, a: X, b: X) -> X:
    d = a - b
    return g * (d + d)


_FLOATS: Final[dict[str, Callable[..., X]]] = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "sinc": sinc,
    "asin": _asin,
    "acos": _acos,
    "atan": _atan,
    "atan2": _atan2,
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "exp2": _exp2,
    "expm1": lambda x: x.then(expm1),
    "log1p": lambda x: x.then(log1p),
    "_sinpi2": lambda x: x.then(sinpi2),
    "_cospi2": lambda x: x.then(cospi2),
    "log2": _log2,
    "log10": _log10,
    "_logit": lambda x: (x / (1.0 - x)).then(log),
    "logaddexp": lambda x, y: _log_add(x, y, lambda z: z.then(exp), None),
    "logaddexp2": lambda x, y: _log_add(x, y, _exp2, x.format.log2e),
    "xlogy": _times_log(log),
    "xlog1py": _times_log(log1p),
    "erf": _erf,
    "erfc": _erfc,
    "erfinv": _erfinv,
    "_gelu": _gelu,
    "_gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * x.then(sigmoid),
    "mish": _mish,
    "logsigmoid": _log_sigmoid,
    "softplus": _softplus,
    "elu": lambda x, alpha: select(x > 0.0, x, x.then(expm1) * alpha),
    "celu": lambda x, alpha: select(x > 0.0, x, (x / alpha).then(expm1) * alpha),
    "selu": lambda x: select(x > 0.0, x * _SCALE, x.then(expm1) * _SCALED_ALPHA),
    "frac": lambda x: x - x.trunc(),
    "hardshrink": lambda x, bound: select((x >= -bound) & (x <= bound), 0.0, x),
    "_softshrink": _softshrink,
    "_tanh_backward": lambda g, y: g * (1.0 - y * y),
    "_sigmoid_backward": lambda g, y: g * y * (1.0 - y),
    "_silu_backward": _silu_backward,
    "_gelu_backward": lambda g, x: g * _gelu_slope(x),
    "_gelu_tanh_backward": lambda g, x: g * _gelu_tanh_slope(x),
    "_relu_backward": lambda g, y: select(y <= 0.0, 0.0, g),
    "_squared_difference": _squared_difference,
    "_squared_difference_backward": _squared_difference_backward,
    "_logits_loss": lambda x, y: (1.0 - y) * x - _log_sigmoid(x),
    "_logits_loss_backward": lambda g, x, y: g * (x.then(sigmoid) - y),
    "hypot": _hypot,
    "lerp": _lerp,
    "_clamp_tensor": _clamp_tensor,
    "sign": _sign,
    "trunc": lambda x: x.trunc(),
    "copysign": lambda x, y: x.abs().with_sign_of(y),
    "heaviside": lambda x, y: select(x.is_nan(), 0.0, select(x.is_(0.0), y, select(x > 0.0, x.number(1.0), 0.0))),
    "fmax": lambda x, y: select(y.is_nan(), x, select(x > y, x, y)),
    "fmin": lambda x, y: select(y.is_nan(), x, select(x < y, x, y)),
    "pow": power,
    "fmod": fmod,
    "remainder": remainder,
    "floor_divide": floor_divide,
}

_TESTS: Final[dict[str, Callable[[X], Test]]] = {
    "signbit": lambda x: x.negative(),
    "isposinf": lambda x: x.is_(_INF),
    "isneginf": lambda x: x.is_(-_INF),
    "isnan": lambda x: x.is_nan(),
    "isinf": lambda x: x.abs().is_(_INF),
}


def _of_values(function: Callable[..., Any]) -> Callable[..., Value]:
    return lambda b, *x: function(*(X(b, v) for v in x)).v  # type: ignore[no-any-return]


def _table() -> dict[str, Callable[..., Value]]:
    found: dict[str, Callable[..., Value]] = {"fmod": _of_values(fmod)}
    functions: dict[str, Callable[..., Any]] = {**_FLOATS, **_TESTS}
    for name, function in functions.items():
        for dtype in ("f32", "f64"):
            found[f"{ELEMENTWISE_PREFIX}{name}.{dtype}"] = _of_values(function)
    for dtype in ("s32", "s64", "u8", "u64"):
        signed = dtype[0] == "s"
        for name, division in (("floor_divide", integer_floor_divide), ("remainder", integer_remainder)):
            found[f"{ELEMENTWISE_PREFIX}{name}.{dtype}"] = division(signed)
    return found


FUNCTIONS: Final[dict[str, Callable[..., Value]]] = _table()
"""By the symbol of the CPU's loop; `fmod` by itself is the remainder that HLO has."""
