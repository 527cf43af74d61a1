"""Functions of each element."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.composite.dims import type_name
from minitensor.composite.numbers import number, whole
from minitensor.composite.registry import (
    COMPOSITES,
    autocast,
    composite,
    grad_fn,
    older_form,
    one_node,
    overwritten,
    shortcut,
)
from minitensor.ops import ROWS, creation, pointwise

Tensor = _C.Tensor
_in_place = {
    name: _C.inplace_form(ROWS[name].call)
    for name in ("add", "sub", "clamp", "div", "floor_divide", "addcmul", "addcdiv", "lerp")
}


def _with_inplace(name: str, form: Callable[..., Any]) -> None:
    """Replace the in-place form that goes by way of a result with one that needs none."""
    form.__name__ = form.__qualname__ = f"{name}_"
    form.__doc__ = f"In place: {COMPOSITES[name].call.__doc__}"
    factors = getattr(COMPOSITES[name].call, "_older_form", None)
    if factors is not None:
        older_form(factors)(form)
    COMPOSITES[name] = dataclasses.replace(COMPOSITES[name], inplace=form)


def _check_tensor(function: str, name: str, place: int, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}(): argument '{name}' (position {place}) must be Tensor, not {type(value).__name__}"
        )


def _whole(dtype: Any) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


def floating(input: Any) -> Any:
    """The tensor, in the default dtype if it is of integers."""
    return input.to(_C.get_default_dtype()) if _whole(input.dtype) else input


# ---- sums and differences


def _is_one(alpha: Any) -> bool:
    return not isinstance(alpha, Tensor | bool) and alpha == 1


def _check_factor(alpha: Any, of: Any) -> None:
    """RuntimeError for a factor of another kind than the result, which is of dtype `of`."""
    if isinstance(alpha, bool) and of is not _C.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and _whole(of):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and not of.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    """`other` times alpha, which has no part in the type promotion."""
    alpha = number(alpha, "add", "alpha")
    if isinstance(alpha, bool | float | complex):
        _check_factor(alpha, _C.common_dtype(input, other))
    if isinstance(other, Tensor) and other.dtype is _C.bool:
        if isinstance(input, Tensor) and input.dtype is not _C.bool:
            other = other.to(input.dtype)
        else:
            alpha = bool(alpha)
    return other * alpha


_HALVES = {_C.float16: "Half", _C.bfloat16: "BFloat16"}


def _of_halves(input: Any, other: Any, alpha: Any) -> tuple[Any, Any, Any, Any] | None:
    """The operands of `addcmul` that give input + alpha * other in a half type, rounded once; None in other types.

    PyTorch rounds alpha to the type. RuntimeError if that makes it infinite.
    """
    dtype = _C.common_dtype(input, other)
    if dtype not in _HALVES or isinstance(alpha, bool | complex):
        return None
    factor = _C.rounded_number(number(alpha, "add", "alpha"), dtype)
    if math.isinf(factor) and not math.isinf(alpha):
        raise RuntimeError(f"value cannot be converted to type c10::{_HALVES[dtype]} without overflow")
    device = (input if isinstance(input, Tensor) else other).device
    parts = [x.to(dtype) if isinstance(x, Tensor) else creation.full((), x, dtype=dtype, device=device)
             for x in (input, other, 1)]  # fmt: skip
    return parts[0], parts[1], parts[2], factor


@one_node("AddBackward0")
def _added(input: Any, other: Any, alpha: Any) -> Any:
    parts = _of_halves(input, other, alpha)
    return ROWS["add"].call(input, _scaled(input, other, alpha)) if parts is None else ROWS["addcmul"].call(*parts)


@one_node("SubBackward0")
def _taken(input: Any, other: Any, alpha: Any) -> Any:
    parts = _of_halves(input, other, alpha)
    if parts is None:
        return ROWS["sub"].call(input, _scaled(input, other, alpha))
    return ROWS["addcmul"].call(*parts[:3], -parts[3])


@composite(inplace=True, out="castable")
@shortcut("TT", ROWS["add"].call)
@shortcut("Tn", ROWS["add"].call)
@older_form(("alpha",))
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other."""
    return ROWS["add"].call(input, other) if _is_one(alpha) else _added(input, other, alpha)


@composite(aliases=("subtract",), inplace=True, out="castable")
@shortcut("TT", ROWS["sub"].call)
@shortcut("Tn", ROWS["sub"].call)
@older_form(("alpha",))
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other."""
    return ROWS["sub"].call(input, other) if _is_one(alpha) else _taken(input, other, alpha)


def _change(name: str, self: Any, other: Any, alpha: Any) -> Any:
    """Add to or take from a tensor in place."""
    if _is_one(alpha):
        return _in_place[name](self, other)
    parts = _of_halves(self, other, alpha) if self.dtype in _HALVES else None
    if parts is None:
        return _in_place[name](self, _scaled(self, other, alpha))
    return _in_place["addcmul"](self, *parts[1:3], parts[3] if name == "add" else -parts[3])


@shortcut("TT", _in_place["add"])
@shortcut("Tn", _in_place["add"])
def _add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _change("add", self, other, alpha)


@shortcut("TT", _in_place["sub"])
@shortcut("Tn", _in_place["sub"])
def _sub_(self: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return _change("sub", self, other, alpha)


_with_inplace("add", _add_)
_with_inplace("sub", _sub_)


@composite(method=False)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    _check_tensor("rsub", "input", 1, input)
    return ROWS["sub"].call(other, input) if _is_one(alpha) else _taken(other, input, alpha)


# ---- clamp


@composite(aliases=("clip",), inplace=True, out="castable")
@shortcut("Tnn", ROWS["clamp"].call)
def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Each element brought into [min, max], numbers or tensors; NaN stays.

    Raises RuntimeError if both bounds are None.
    """
    if not (isinstance(min, Tensor) or isinstance(max, Tensor)):
        return ROWS["clamp"].call(input, min, max)
    if any(isinstance(t, Tensor) and t.is_complex() for t in (input, min, max)):
        raise NotImplementedError("clamp is not supported for complex types")
    if min is None or max is None:
        # The gradient of a tie is the input's.
        inside = input <= max if min is None else input >= min
        return ROWS["where"].call(inside | (input != input), input, max if min is None else min)
    if not (isinstance(min, Tensor) and isinstance(max, Tensor)):
        kinds = [type(bound).__name__ for bound in (min, max)]
        raise TypeError(f"clamp() received an invalid combination of arguments - got min={kinds[0]}, max={kinds[1]}")
    return pointwise.clamp_tensor(input, min, max)


def _clamp_(self: Any, min: Any = None, max: Any = None) -> Tensor:
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return self.copy_(clamp(overwritten(self, min, max), min, max))
    return _in_place["clamp"](self, min, max)


_with_inplace("clamp", _clamp_)


def _check_bound(kernel: str, input: Any, bound: Any) -> None:
    if isinstance(bound, Tensor):
        dtype = _C.promote_types(input.dtype, bound.dtype)
        if dtype.is_complex:
            kind = "ComplexDouble" if dtype is _C.complex128 else "ComplexFloat"
            raise NotImplementedError(f"\"{kernel}_cpu\" not implemented for '{kind}'")


# A bound that is a number, and one that is a tensor.
_below, _above = ([one_node(f"Clamp{which}Backward{form}")(clamp) for form in (0, 1)] for which in ("Min", "Max"))


@composite(inplace=True, out="castable")
def clamp_min(input: Any, min: Any) -> Tensor:
    """Each element, or min where that is larger."""
    _check_tensor("clamp_min", "input", 1, input)
    _check_bound("maximum", input, min)
    return _below[isinstance(min, Tensor)](input, min)


@composite(inplace=True, out="castable")
def clamp_max(input: Any, max: Any) -> Tensor:
    """Each element, or max where that is smaller."""
    _check_tensor("clamp_max", "input", 1, input)
    _check_bound("minimum", input, max)
    return _above[isinstance(max, Tensor)](input, None, max)


# ---- division and rounding


@composite(aliases=("divide",), inplace=True, out="castable")
@shortcut("TT", ROWS["div"].call)
@shortcut("Tn", ROWS["div"].call)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """The quotient; with rounding_mode 'trunc' or 'floor' rounded towards zero, or down, in the operands' dtype.

    Raises RuntimeError for another rounding_mode.
    """
    if rounding_mode is None:
        return ROWS["div"].call(input, other)
    if rounding_mode == "floor":
        return ROWS["floor_divide"].call(input, other)
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" + str(rounding_mode) + "'"
        )
    if isinstance(input, Tensor) and input.dtype in (_C.float16, _C.bfloat16) and _single(other, input.dtype):
        return ROWS["div"].call(input.to(_C.float32), other).trunc().to(input.dtype)  # as PyTorch, rounded once
    if any(isinstance(x, float) or (isinstance(x, Tensor) and not _whole(x.dtype)) for x in (input, other)):
        return ROWS["div"].call(input, other).trunc()
    # Whole numbers: the remainder with the sign of input is taken off first.
    return ROWS["floor_divide"].call(input - pointwise.fmod(input, other), other)


def _single(other: Any, dtype: Any) -> bool:
    """Whether it is a number, or a tensor of one element that has no say in the dtype."""
    if not isinstance(other, Tensor):
        return isinstance(other, (int, float))
    return other.dtype is dtype and other.numel() == 1


def _div_(self: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode == "trunc":
        return self.copy_(div(overwritten(self, other), other, rounding_mode=rounding_mode))
    return _in_place["floor_divide" if rounding_mode == "floor" else "div"](self, other)


_with_inplace("div", _div_)


@composite(inplace=True, out="exact", namespaces=("special",))
@shortcut("T", ROWS["round"].call)
def _round(input: Any, *, decimals: int = 0) -> Any:
    """The nearest number of that many decimals, halves to even; negative decimals round to tens, hundreds, ..."""
    decimals = whole(decimals, "round", "decimals")
    if decimals == 0:
        return ROWS["round"].call(input)
    if _whole(input.dtype):
        raise NotImplementedError(f"\"round_cpu\" not implemented for '{type_name(input)}'")
    return _round_scaled(input, decimals)


@one_node("RoundBackward1")
def _round_scaled(input: Any, decimals: int) -> Any:
    scale = 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf
    return (ROWS["round"].call(input * scale) / scale) if decimals > 0 else ROWS["round"].call(input / scale) * scale


@composite(inplace=True, out="exact")
@shortcut("T", ROWS["trunc"].call)
def fix(input: Any) -> Tensor:
    """`trunc` under NumPy's name."""
    return ROWS["trunc"].call(input)


@composite(out="exact")
@grad_fn(None, "FrexpBackward0")
def frexp(input: Any) -> Any:
    """Mantissa and exponent: input = mantissa * 2^exponent, with the mantissa in [1/2, 1) and int32 exponents."""
    if _whole(input.dtype):
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    from minitensor._functions.named_results import named

    exponent = pointwise.exponent_of(input.detach()).to(_C.int32)
    return named("frexp", ("mantissa", "exponent"))(pointwise.mantissa_of(input), exponent)


@composite(inplace=True, out="castable")
@grad_fn("LdexpBackward0")
def ldexp(input: Any, other: Any) -> Any:
    """input * 2^other, in the dtype of their product."""
    _check_tensor("ldexp", "input", 1, input)
    _check_tensor("ldexp", "other", 2, other)
    if other.dtype is _C.bool and input.is_floating_point():
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
    if not input.is_floating_point() or other.is_floating_point():
        # As in PyTorch the 2 is a tensor but for float32: the power lies in memory as `other` then.
        plain = input.dtype is _C.float32 or not (input.is_floating_point() or input.is_complex())
        base = 2.0 if plain else ROWS["full"].call((), 2.0, dtype=input.dtype)
        return input * ROWS["pow"].call(base, other)
    # In two factors: 2^other may be out of range where the result is not.
    exponent = other.to(input.dtype if input.dtype is _C.float64 else _C.float32)
    half = (exponent * 0.5).floor()
    return input * pointwise.exp2(half).to(input.dtype) * pointwise.exp2(exponent - half).to(input.dtype)


# ---- signs and angles


@composite()
def positive(input: Any) -> Tensor:
    """input itself; bool has no sign."""
    if input.dtype is _C.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def _needs_real(name: str, input: Any) -> None:
    if input.is_complex():
        raise RuntimeError(f"{name} is not supported for complex tensors.")


@composite(inplace=True, out="castable")
@grad_fn("Deg2RadBackward0")
def deg2rad(input: Any) -> Tensor:
    """Degrees as radians."""
    _needs_real("deg2rad", input)
    return input * (math.pi / 180)


@composite(inplace=True, out="castable")
@grad_fn("Rad2DegBackward0")
def rad2deg(input: Any) -> Tensor:
    """Radians as degrees."""
    _needs_real("rad2deg", input)
    return input * (180 / math.pi)


# ---- with a product or a quotient


@composite(inplace=True, out="castable")
@shortcut("RRR", ROWS["addcmul"].call, (), (1,))
@older_form(("value",))
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    if _any_complex(input, tensor1, tensor2):
        return input + value * tensor1 * tensor2
    return ROWS["addcmul"].call(input, tensor1, tensor2, number(value, "addcmul", "value"))


@composite(inplace=True, out="castable")
@shortcut("RRR", ROWS["addcdiv"].call, (), (1,))
@older_form(("value",))
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2; NotImplementedError for integers."""
    if _any_complex(input, tensor1, tensor2):
        return input + value * tensor1 / tensor2
    return ROWS["addcdiv"].call(input, tensor1, tensor2, number(value, "addcdiv", "value"))


def _any_complex(*tensors: Any) -> bool:
    return any(isinstance(t, Tensor) and t.is_complex() for t in tensors)


def _addcmul_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    if _any_complex(self, tensor1, tensor2):
        return self.add_(value * tensor1 * tensor2)
    return _in_place["addcmul"](self, tensor1, tensor2, number(value, "addcmul", "value"))


def _addcdiv_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    if _any_complex(self, tensor1, tensor2):
        return self.add_(value * tensor1 / tensor2)
    return _in_place["addcdiv"](self, tensor1, tensor2, number(value, "addcdiv", "value"))


_with_inplace("addcmul", _addcmul_)
_with_inplace("addcdiv", _addcdiv_)


@composite(inplace=True, out="castable")
@shortcut("RRR", ROWS["lerp"].call)
@shortcut("RRn", ROWS["lerp"].call)
def lerp(input: Any, end: Any, weight: Any) -> Tensor:
    """input + weight * (end - input), computed from the nearer end; weight is a number or a tensor."""
    if not _any_complex(input, end, weight):
        return ROWS["lerp"].call(input, end, weight)
    if isinstance(weight, Tensor) and weight.dtype is _C.bool and weight.ndim == 0:
        weight = weight.to(input.dtype)  # a number, of which there are no differences
    difference = end - input
    near, far = input + weight * difference, end - difference * (1 - weight)
    if not isinstance(weight, Tensor):
        return near if abs(weight) < 0.5 else far
    return ROWS["where"].call(weight.abs() < 0.5, near, far)


def _lerp_(self: Any, end: Any, weight: Any) -> Tensor:
    if self.is_complex():
        return self.copy_(lerp(overwritten(self, end, weight), end, weight))
    return _in_place["lerp"](self, end, weight)


_with_inplace("lerp", _lerp_)


@composite(out="castable")
def logaddexp(input: Any, other: Any) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""
    if not _any_complex(input, other):
        return ROWS["logaddexp"].call(input, other)
    first = input.real >= other.real
    larger, smaller = ROWS["where"].call(first, input, other), ROWS["where"].call(first, other, input)
    return larger + (smaller - larger).exp().log1p()


# ---- powers, exponentials and logarithms


@composite(inplace=True, out="exact")
def float_power(input: Any, exponent: Any) -> Tensor:
    """input to the power of exponent, computed in float64."""

    def wide(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return x.to(_C.complex128 if x.dtype.is_complex else _C.float64)

    return ROWS["pow"].call(wide(input), wide(exponent))


def _float_power_(self: Any, exponent: Any) -> Tensor:
    wide = _C.complex128 if self.dtype.is_complex else _C.float64
    if self.dtype is not wide:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {type_name(self)} but the operation's result requires dtype "
            f"{'ComplexDouble' if wide.is_complex else 'Double'}"
        )
    return self.copy_(float_power(overwritten(self, exponent), exponent))


_with_inplace("float_power", _float_power_)


@composite(inplace=True, out="castable", namespaces=("special",))
def logit(input: Any, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), of x brought into [eps, 1 - eps] if eps is given."""
    input = floating(input)
    if eps is not None:
        # Not clamp: the first bound comes first where eps is above a half, and the gradient at NaN is NaN.
        where = ROWS["where"].call
        input = where(input < eps, eps, where(input > 1 - eps, 1 - eps, input))
    return pointwise._logit(input)


@composite(method=False, function=False, out="castable", namespaces=("special",))
@shortcut("T", ROWS["sigmoid"].call)
def expit(input: Any) -> Tensor:
    """`sigmoid` in scipy's name."""
    return input.sigmoid()


# ---- special values


@composite(inplace=True, out="exact")
def nan_to_num(
    input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Each element, with numbers for NaN (0) and the infinities (the largest and the lowest finite number)."""
    if _whole(input.dtype):
        return input.clone()
    if input.is_complex():  # the parts one by one
        parts = nan_to_num(ROWS["view_as_real"].call(input), nan, posinf, neginf)
        return ROWS["view_as_complex"].call(parts)
    largest = _LARGEST.get(input.dtype.name, 0.0)  # others are refused
    return pointwise.nan_to_num(
        input,
        0.0 if nan is None else nan,
        largest if posinf is None else posinf,
        -largest if neginf is None else neginf,
    )


_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


@composite()
def isreal(input: Any) -> Tensor:
    """Whether each element has no imaginary part."""
    if input.dtype.is_complex:
        return input.imag == 0
    return ROWS["full"].call(tuple(input.shape), True, dtype=_C.bool, device=input.device)


@composite()
def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|, or both are equal; with equal_nan also where both are NaN."""
    _check_tensor("isclose", "input", 1, input)
    _check_tensor("isclose", "other", 2, other)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{type_name(input)} did not match {type_name(other)}")
    rtol, atol = number(rtol, "isclose", "rtol"), number(atol, "isclose", "atol")
    if rtol < 0 or atol < 0:
        which = "rtol" if rtol < 0 else "atol"
        raise RuntimeError(f"{which} must be greater than or equal to zero, but got {rtol if rtol < 0 else atol}")
    close = input == other
    if equal_nan and not _whole(input.dtype):
        close = close | (input.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    a, b = (floating(input), floating(other)) if _whole(input.dtype) else (input, other)
    difference = (a - b).abs()
    return close | (difference.isfinite() & (difference <= atol + (rtol * b).abs()))


# ---- activations that need no kernel


@composite()
@autocast("lower", "lower")
@grad_fn("PreluKernelBackward0")
def prelu(input: Any, weight: Any) -> Tensor:
    """input where it is positive, weight times it elsewhere; one weight for all, or one for each of dimension 1."""
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if weight.dim() != 0 and weight.numel() != 1:
        if input.dim() == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.dim() > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape([1, -1] + [1] * (input.dim() - 2)) if input.dim() > 1 else weight
    elif weight.dim() == 1:
        weight = weight.reshape(()) if input.dim() == 0 else weight
    return ROWS["where"].call(input > 0, input, weight * input)
