"""The evaluator's elementwise rules: the value of one instruction, given the values of its operands."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..library import loop_of
from ..module import Instruction
from ..narrow import array_of, wide_array
from ..opcode import has_native_range
from ..semantics.reduction import maximum, minimum
from ..shape import Shape
from ..small_types import SMALL_INTEGERS, integer_limits

__all__ = ["ELEMENTWISE_RULES", "Array", "Rule", "Value", "convert", "total_order"]

Array = NDArray[Any]
Value = Any  # an Array, or a tuple of Values
Rule = Callable[[Instruction, Sequence[Value]], Value]


def _complex_sign(x: Array) -> Array:
    size = np.abs(x)
    return np.where(size == 0, x, x / np.where(size == 0, 1, size))


def _erf(x: Array) -> Array:
    return np.asarray(_ERF(x.astype(np.float64)))


_ERF: Final = np.vectorize(math.erf, otypes=[np.float64])


def _count_leading_zeros(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    word = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        word = word | (word >> np.uint64(shift))
    return np.asarray(bits - np.bitwise_count(word).astype(np.int64))


def _reduce_precision(i: Instruction, x: Sequence[Value]) -> Value:
    """Rounds to nearest even in a format with fewer bits; what is too large or small for it is infinite or zero."""
    value, exponent, mantissa = x[0], i.attrs["exponent_bits"], i.attrs["mantissa_bits"]
    info = np.finfo(value.dtype)
    bits_type = np.dtype(f"u{value.dtype.itemsize}")
    bits = value.view(bits_type)
    one = bits_type.type(1)
    if mantissa < info.nmant:
        cut = info.nmant - mantissa
        last = (bits >> bits_type.type(cut)) & one
        bits = (bits + (one << bits_type.type(cut - 1)) - one + last) & ~((one << bits_type.type(cut)) - one)
    result = bits.view(value.dtype)
    if exponent < info.nexp:
        bias = (1 << (exponent - 1)) - 1
        sign = np.copysign(np.zeros((), value.dtype), value)
        # The largest finite number has the exponent `bias`; the smallest normal one 1 - bias.
        result = np.where(np.abs(result) >= 2.0 ** (bias + 1), np.copysign(np.inf, value), result)
        result = np.where(np.abs(result) < 2.0 ** (1 - bias), sign, result).astype(value.dtype)
    return np.where(np.isnan(value), value, result)


def _unary(function: Callable[[Array], Array]) -> Callable[[Instruction, Sequence[Value]], Value]:
    def rule(i: Instruction, x: Sequence[Value]) -> Value:
        return np.asarray(function(x[0])).astype(x[0].dtype, copy=False)

    return rule


def _binary(function: Callable[[Array, Array], Array]) -> Callable[[Instruction, Sequence[Value]], Value]:
    def rule(i: Instruction, x: Sequence[Value]) -> Value:
        return np.asarray(function(x[0], x[1])).astype(x[0].dtype, copy=False)

    return rule


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        return _complex_sign(x)
    if x.dtype.kind != "f":
        return np.sign(x)
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones((), x.dtype), x))


def _not(x: Array) -> Array:
    return np.invert(x)


def _round_afz(x: Array) -> Array:
    whole = np.trunc(x)
    away = np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0).astype(x.dtype)
    return np.asarray(np.copysign(whole + away, x))


def _rsqrt(x: Array) -> Array:
    return np.asarray(np.ones((), x.dtype) / np.sqrt(x))


def _logistic(x: Array) -> Array:
    one = np.ones((), x.dtype)
    return np.asarray(one / (one + np.exp(-x)))


def _popcnt(x: Array) -> Array:
    return np.asarray(np.bitwise_count(x.view(f"u{x.dtype.itemsize}")))


def _complex_of(re: Array, im: Array) -> Array:
    result = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), f"c{2 * np.asarray(re).itemsize}")
    result.real, result.imag = re, im
    return result


def _complex_multiply(x: Array, y: Array) -> Array:
    # NumPy may contract.
    return _complex_of(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _complex_divide(x: Array, y: Array) -> Array:
    """Smith's method, as in docs/numerics.md."""
    a, ai, c, ci = x.real, x.imag, y.real, y.imag
    by_real = np.abs(c) >= np.abs(ci)
    large, small = np.where(by_real, c, ci), np.where(by_real, ci, c)
    ratio = small / large
    scale = np.ones((), ratio.dtype) / (large + small * ratio)
    re = np.where(by_real, a + ai * ratio, a * ratio + ai) * scale
    im = np.where(by_real, ai - a * ratio, ai * ratio - a) * scale
    zero = (c == 0) & (ci == 0)
    return _complex_of(np.where(zero, a / np.abs(c), re), np.where(zero, ai / np.abs(ci), im))


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return _complex_divide(x, y)
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    # XLA: division by zero gives all ones; the smallest integer divided by -1 wraps.
    safe = np.where(y == 0, np.ones((), y.dtype), y)
    if x.dtype.kind == "i":
        minus = safe == -1
        safe = np.where(minus, np.ones((), y.dtype), safe)
        quotient = np.floor_divide(x, safe)
        quotient = quotient + ((x - quotient * safe != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
        quotient = np.where(minus, np.negative(x), quotient)
    else:
        quotient = np.floor_divide(x, safe)
    return np.where(y == 0, np.array(-1).astype(x.dtype), quotient)


def _remainder(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return np.where(y == 0, x, x - _divide(x, y) * y)


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind == "i":
        powers = np.power(x, np.maximum(y, 0))
        negative = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
        return np.where(y < 0, negative, powers).astype(x.dtype)
    return np.power(x, y)


def _add(x: Array, y: Array) -> Array:
    return x | y if x.dtype.kind == "b" else np.add(x, y)


def _multiply(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return _complex_multiply(x, y)
    return x & y if x.dtype.kind == "b" else np.multiply(x, y)


def _shift(function: Callable[[Array, Array], Array], *, unsigned: bool) -> Callable[[Array, Array], Array]:
    def shift(x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        unsigned_dtype = np.dtype(f"u{x.dtype.itemsize}")
        by = y.astype(unsigned_dtype)
        over = by >= bits
        # As in XLA, the arithmetic shift takes the top bit of an unsigned integer for a sign.
        value = x.astype(unsigned_dtype if unsigned else np.dtype(f"i{x.dtype.itemsize}"))
        count = np.where(over, np.array(bits - 1, unsigned_dtype), by).astype(value.dtype)
        result = function(value, count).astype(x.dtype)
        # A shift by too much leaves zero, or the sign for the arithmetic one.
        return np.where(over, np.zeros((), x.dtype), result) if unsigned else result

    return shift


_DIRECTIONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _compare(i: Instruction, x: Sequence[Value]) -> Value:
    left, right = x
    if i.attrs.get("type") == "TOTALORDER" and left.dtype.kind == "f":
        left, right = total_order(left), total_order(right)
    return _DIRECTIONS[i.attrs["direction"]](left, right)


def total_order(x: Array) -> Array:
    """Integers that order as the bits of floats do: -NaN, -inf, ..., -0, +0, ..., inf, NaN."""
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, np.invert(bits) ^ np.iinfo(bits.dtype).min, bits)


def _select(i: Instruction, x: Sequence[Value]) -> Value:
    return np.where(x[0], x[1], x[2])


def _clamp(i: Instruction, x: Sequence[Value]) -> Value:
    return minimum(maximum(x[0], x[1]), x[2])


def _convert(i: Instruction, x: Sequence[Value]) -> Value:
    return convert(x[0], i.array_shape, native=has_native_range(i.attrs))


def convert(x: Array, shape: Shape, *, native: bool) -> Array:
    """Float to integer truncates; what does not fit gives the nearest integer, or what `docs/numerics.md` says."""
    x = wide_array(x)
    dtype = shape.numpy_dtype
    if x.dtype.kind == "c" and shape.kind == "f":
        x = x.real
    if x.dtype.kind != "f" or shape.kind in "fc":
        return array_of(x, shape.dtype)
    if shape.kind == "b":
        return np.asarray(x != 0)
    if not native or shape.dtype in SMALL_INTEGERS:
        return array_of(_saturate(x, shape.dtype), shape.dtype)
    if dtype == np.uint64:
        # The upper half does not fit int64: shift it down and set the top bit afterwards.
        high = x >= x.dtype.type(2.0**63)
        low = _truncate(np.where(high, x - x.dtype.type(2.0**63), x), np.dtype(np.int64)).view(np.uint64)
        return np.where(high, low ^ np.uint64(1 << 63), low)
    # By way of the type that the core computes in.
    return _truncate(x, np.dtype(np.int32 if shape.dtype in ("s8", "s16", "u16", "s32") else np.int64)).astype(dtype)


def _saturate(x: Array, dtype: str) -> Array:
    low, high = integer_limits(dtype)
    wide = np.dtype(np.uint64 if dtype == "u64" else np.int64)
    inside = (x >= low) & (x < float(high + 1))  # false for NaN; the limits are powers of two, or zero
    whole = np.where(inside, x, 0).astype(wide)
    return np.where(x < low, np.array(low, wide), np.where(x >= float(high + 1), np.array(high, wide), whole))


def _truncate(x: Array, dtype: np.dtype[Any]) -> Array:
    info = np.iinfo(dtype)
    whole = np.trunc(x)
    # 2**31 and 2**63 are exact in every float type; their negatives are the smallest integers.
    limit = float(2 ** (info.bits - 1))
    fits = (whole >= -limit) & (whole < limit)
    return np.where(fits, np.where(fits, whole, 0).astype(dtype), np.array(info.min, dtype))


def _bitcast_convert(i: Instruction, x: Sequence[Value]) -> Value:
    return np.ascontiguousarray(x[0]).view(i.array_shape.numpy_dtype).reshape(i.dims)


_POINTER: Final = ctypes.c_void_p
# By the number of inputs: out, inputs, count, and which inputs are single values. The GIL is kept: a loop that takes
# long runs the handlers of signals, whose exceptions are raised here.
_FORMS: Final = {
    1: ctypes.PYFUNCTYPE(None, _POINTER, _POINTER, ctypes.c_int64),
    2: ctypes.PYFUNCTYPE(ctypes.c_bool, _POINTER, _POINTER, _POINTER, ctypes.c_int64, ctypes.c_uint),
    3: ctypes.PYFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _POINTER, ctypes.c_int64, ctypes.c_uint),
}


def _elementwise_call(i: Instruction, x: Sequence[Value]) -> Value:
    """The loop itself: compiled code calls the same."""
    loop = loop_of(i)
    if loop is None:
        raise NotImplementedError(
            f"this process has no loop for {i.attrs['custom_call_target']} of {i.operands[0].dtype}"
        )
    result = np.empty(i.dims, i.array_shape.numpy_dtype)
    inputs = [np.ascontiguousarray(a) for a in x]
    flags = (0,) if len(x) > 1 else ()
    _FORMS[len(x)](loop.address)(result.ctypes.data, *(a.ctypes.data for a in inputs), result.size, *flags)
    return result


ELEMENTWISE_RULES: Final[dict[str, Rule]] = {
    "elementwise-call": _elementwise_call,
    "abs": lambda i, x: np.abs(x[0]),
    "real": lambda i, x: np.real(x[0]),
    "imag": lambda i, x: np.imag(x[0]),
    "complex": lambda i, x: _complex_of(x[0], x[1]),
    "negate": _unary(np.negative),
    "sign": _unary(_sign),
    "not": _unary(_not),
    "floor": _unary(np.floor),
    "ceil": _unary(np.ceil),
    "round-nearest-even": _unary(np.rint),
    "round-nearest-afz": _unary(_round_afz),
    "is-finite": lambda i, x: np.isfinite(x[0]),
    "sqrt": _unary(np.sqrt),
    "rsqrt": _unary(_rsqrt),
    "exponential": _unary(np.exp),
    "exponential-minus-one": _unary(np.expm1),
    "log": _unary(np.log),
    "log-plus-one": _unary(np.log1p),
    "tanh": _unary(np.tanh),
    "logistic": _unary(_logistic),
    "sine": _unary(np.sin),
    "cosine": _unary(np.cos),
    "tan": _unary(np.tan),
    "erf": _unary(_erf),
    "cbrt": _unary(np.cbrt),
    "acos": _unary(np.arccos),
    "acosh": _unary(np.arccosh),
    "asin": _unary(np.arcsin),
    "asinh": _unary(np.arcsinh),
    "atanh": _unary(np.arctanh),
    "sinh": _unary(np.sinh),
    "cosh": _unary(np.cosh),
    "reduce-precision": _reduce_precision,
    "popcnt": _unary(_popcnt),
    "count-leading-zeros": _unary(_count_leading_zeros),
    "copy": _unary(lambda x: x),
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "add": _binary(_add),
    "subtract": _binary(np.subtract),
    "multiply": _binary(_multiply),
    "divide": _binary(_divide),
    "remainder": _binary(_remainder),
    "power": _binary(_power),
    "atan2": _binary(np.arctan2),
    "maximum": _binary(maximum),
    "minimum": _binary(minimum),
    "and": _binary(np.bitwise_and),
    "or": _binary(np.bitwise_or),
    "xor": _binary(np.bitwise_xor),
    "shift-left": _binary(_shift(np.left_shift, unsigned=True)),
    "shift-right-logical": _binary(_shift(np.right_shift, unsigned=True)),
    "shift-right-arithmetic": _binary(_shift(np.right_shift, unsigned=False)),
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
}
