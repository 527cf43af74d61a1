"""Functions of each element, by the array API standard.

Most are PyTorch's. `expm1`, `floor_divide`, `remainder` and `tanh` are too, but for the special cases that the standard
has otherwise: infinities, and the sign of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._functions import offered
from minitensor._functions.offered import (
    broadcast_shapes,
    broadcast_to,
    copysign,
    exp,
    full,
    isfinite,
    isinf,
    isnan,
    maximum,
    minimum,
    where,
    zeros_like,
)
from minitensor.array_api.dtypes import result_type
from minitensor.dtypes import iinfo

# What stands here under PyTorch's name: the standard's, or the same.
_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan",
    "atanh": "atanh", "bitwise_invert": "bitwise_not", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "exp": "exp",
    "floor": "floor", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "log": "log",
    "log10": "log10", "log1p": "log1p", "log2": "log2", "logical_not": "logical_not", "negative": "neg",
    "positive": "positive", "reciprocal": "reciprocal", "signbit": "signbit", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "square": "square", "tan": "tan", "trunc": "trunc",
}  # fmt: skip
_BINARY = {
    "add": "add", "atan2": "atan2", "bitwise_and": "bitwise_and", "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_or": "bitwise_or", "bitwise_right_shift": "bitwise_right_shift", "bitwise_xor": "bitwise_xor",
    "copysign": "copysign", "divide": "div", "equal": "eq", "greater": "gt",
    "greater_equal": "ge", "hypot": "hypot", "less": "lt", "less_equal": "le", "logaddexp": "logaddexp",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor", "maximum": "maximum",
    "minimum": "minimum", "multiply": "mul", "nextafter": "nextafter", "not_equal": "ne", "pow": "pow",
    "subtract": "sub",
}  # fmt: skip

__all__ = [
    *_UNARY, *_BINARY, "clip", "conj", "expm1", "floor_divide", "imag", "real", "remainder", "round", "sign",
    "tanh",
]  # fmt: skip


def _unary(name: str, own: str) -> Callable[..., Any]:
    def function(x: Any, /) -> Any:
        return getattr(offered, own)(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{own}` of each element."
    return function


def _binary(name: str, own: str) -> Callable[..., Any]:
    def function(x1: Any, x2: Any, /) -> Any:
        return getattr(offered, own)(*_arrays(x1, x2))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{own}` of each pair of elements, broadcast; one may be a Python number."
    return function


def _arrays(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Both as arrays; two arrays in the type that they promote to."""
    if isinstance(x1, _C.Tensor) and isinstance(x2, _C.Tensor):
        if x1.dtype == x2.dtype:
            return x1, x2
        dtype = result_type(x1, x2)
        return x1.to(dtype), x2.to(dtype)
    dtype = result_type(x1, x2)
    first, second = (x if isinstance(x, _C.Tensor) else full((), x, dtype=dtype) for x in (x1, x2))
    return first, second


for _name, _own in _UNARY.items():
    globals()[_name] = _unary(_name, _own)
for _name, _own in _BINARY.items():
    globals()[_name] = _binary(_name, _own)


def expm1(x: Any, /) -> Any:
    """exp(x) - 1, precise near zero."""
    found = offered.expm1(x)
    if not x.is_complex():
        return found
    # Where exp(x) is a zero or not finite nothing is lost, and its special cases are the C library's.
    return where(isfinite(x) & (x != 0), found, exp(x) - 1)


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """The quotient, rounded down; of an infinity, or by one, the quotient."""
    first, second = _arrays(x1, x2)
    found = offered.floor_divide(first, second)
    if not found.dtype.is_floating_point:
        return found
    infinite = isinf(first) & isfinite(second) & (second != 0) | isfinite(first) & isinf(second)
    return where(infinite, first / second, found)


def remainder(x1: Any, x2: Any, /) -> Any:
    """What is left by `floor_divide`, with the divisor's sign, also where it is zero."""
    first, second = _arrays(x1, x2)
    found = offered.remainder(first, second)
    return where(found == 0, copysign(found, second), found) if found.dtype.is_floating_point else found


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """The elements, at least min and at most max."""
    shapes = [tuple(t.shape) for t in (x, min, max) if isinstance(t, _C.Tensor)]
    x = broadcast_to(x, tuple(broadcast_shapes(*shapes)))
    result = x.clone()
    for bound, choose in ((min, maximum), (max, minimum)):
        if bound is None:
            continue
        if not isinstance(bound, _C.Tensor):
            if not x.dtype.is_floating_point and not _fits(bound, x.dtype):
                # Beyond what the type holds: a bound that does nothing, or all.
                limit = iinfo(x.dtype)
                bound = limit.max if bound > limit.max else limit.min
            bound = full((), bound, dtype=x.dtype)
        result = choose(result, bound.to(x.dtype))
    return result


def _fits(value: Any, dtype: Any) -> bool:
    limit = iinfo(dtype)
    return bool(limit.min <= value <= limit.max)


def conj(x: Any, /) -> Any:
    """The complex conjugates."""
    return x.conj() if x.is_complex() else x


def real(x: Any, /) -> Any:
    """The real parts."""
    return x.real if x.is_complex() else x


def imag(x: Any, /) -> Any:
    """The imaginary parts."""
    return x.imag if x.is_complex() else zeros_like(x)


def round(x: Any, /) -> Any:
    """The nearest whole numbers, ties to even."""
    if x.is_complex():
        return offered.complex(offered.round(x.real), offered.round(x.imag))
    return offered.round(x)


def sign(x: Any, /) -> Any:
    """-1, 0 or 1; of complex numbers x / |x|; NaN of NaN."""
    if x.is_complex():
        size = offered.abs(x)
        return where(size == 0, zeros_like(x), x / size)
    found = offered.sign(x)
    return where(isnan(x), x, found) if x.dtype.is_floating_point else found


def tanh(x: Any, /) -> Any:
    """The hyperbolic tangents."""
    found = offered.tanh(x)
    if not x.is_complex():
        return found
    # The imaginary part at infinity is a zero with its operand's sign.
    limit = offered.complex(offered.sign(x.real), copysign(zeros_like(x.imag), x.imag))
    return where(isinf(x.real) & isfinite(x.imag), limit, found)
