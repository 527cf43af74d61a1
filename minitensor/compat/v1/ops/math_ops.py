"""Arithmetic, comparisons, products and reductions under TensorFlow's names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitensor import _C
from minitensor._C import float32, float64, int8, int16, int32, int64, uint8
from minitensor._functions import offered
from minitensor._functions.offered import (
    amax,
    amin,
    eq,
    floor_divide,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    le,
    logsumexp,
    lt,
    mean,
    mul,
    ne,
    neg,
    prod,
    remainder,
    sub,
)
from minitensor.compat.v1.framework.constants import as_dtype, convert_to_tensor, node, same_types
from minitensor.compat.v1.framework.graph import Tensor
from minitensor.compat.v1.framework.inference import NUMPY_TYPES

_INTEGERS = (uint8, int8, int16, int32, int64)


def _unary(type: str, call: Callable[..., Any], says: str, host: Callable[..., Any] | None = None) -> Any:
    def made(x: Any, name: str | None = None) -> Tensor:
        return node(type, call, [x], name, host_call=host)

    made.__doc__ = says
    return made


def _binary(type: str, call: Callable[..., Any], says: str, host: Callable[..., Any] | None = None) -> Any:
    def made(x: Any, y: Any, name: str | None = None) -> Tensor:
        return node(type, call, same_types(type, x, y), name, host_call=host)

    made.__doc__ = f"{says}, element by element; shapes broadcast. TypeError if the dtypes differ."
    return made


abs = _unary("Abs", offered.abs, "Absolute values.", np.abs)
negative = _unary("Neg", neg, "-x.", operator.neg)
sign = _unary("Sign", offered.sign, "-1, 0 or 1.")
square = _unary("Square", lambda x: x * x, "x * x.", np.square)
sqrt = _unary("Sqrt", offered.sqrt, "Square roots.")
rsqrt = _unary("Rsqrt", offered.rsqrt, "1 / sqrt(x).")
reciprocal = _unary("Reciprocal", offered.reciprocal, "1 / x.")
exp = _unary("Exp", offered.exp, "e to the power x.")
log = _unary("Log", offered.log, "Natural logarithms.")
log1p = _unary("Log1p", offered.log1p, "log(1 + x).")
sin = _unary("Sin", offered.sin, "Sines.")
cos = _unary("Cos", offered.cos, "Cosines.")
tanh = _unary("Tanh", offered.tanh, "Hyperbolic tangents.")
sigmoid = _unary("Sigmoid", offered.sigmoid, "1 / (1 + exp(-x)).")
tan = _unary("Tan", offered.tan, "Tangents.")
asin = _unary("Asin", offered.asin, "Arcsines.")
acos = _unary("Acos", offered.acos, "Arccosines.")
atan = _unary("Atan", offered.atan, "Arctangents.")
sinh = _unary("Sinh", offered.sinh, "Hyperbolic sines.")
cosh = _unary("Cosh", offered.cosh, "Hyperbolic cosines.")
erf = _unary("Erf", offered.erf, "The error function.")
expm1 = _unary("Expm1", offered.expm1, "exp(x) - 1.")
lgamma = _unary("Lgamma", offered.lgamma, "Logarithms of the gamma function's absolute values.")
floor = _unary("Floor", offered.floor, "The largest whole numbers that are not above x.")
ceil = _unary("Ceil", offered.ceil, "The smallest whole numbers that are not below x.")
round = _unary("Round", offered.round, "The nearest whole numbers; halves go to the even one.")
logical_not = _unary("LogicalNot", offered.logical_not, "Whether x is false.")
is_nan = _unary("IsNan", isnan, "Whether x is NaN.")
is_inf = _unary("IsInf", isinf, "Whether x is infinite.")
is_finite = _unary("IsFinite", isfinite, "Whether x is neither infinite nor NaN.")

add = _binary("Add", offered.add, "x + y", operator.add)
subtract = _binary("Sub", sub, "x - y", operator.sub)
multiply = _binary("Mul", mul, "x * y", operator.mul)
floordiv = _binary("FloorDiv", floor_divide, "x / y, rounded down", operator.floordiv)
mod = _binary("FloorMod", remainder, "The remainder of x // y, which has the sign of y", operator.mod)
floormod = mod
atan2 = _binary("Atan2", offered.atan2, "The angle of the point (y, x), x and y in this order")
pow = _binary("Pow", offered.pow, "x to the power y")
maximum = _binary("Maximum", offered.maximum, "The larger of x and y", np.maximum)
minimum = _binary("Minimum", offered.minimum, "The smaller of x and y", np.minimum)
squared_difference = _binary("SquaredDifference", lambda x, y: (x - y) * (x - y), "(x - y) squared")
equal = _binary("Equal", eq, "Whether x == y")
not_equal = _binary("NotEqual", ne, "Whether x != y")
less = _binary("Less", lt, "Whether x < y")
less_equal = _binary("LessEqual", le, "Whether x <= y")
greater = _binary("Greater", gt, "Whether x > y")
greater_equal = _binary("GreaterEqual", ge, "Whether x >= y")
logical_and = _binary("LogicalAnd", offered.logical_and, "Whether x and y are true")
logical_or = _binary("LogicalOr", offered.logical_or, "Whether x or y is true")


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python has it: integers of up to 16 bits are float32 before, others float64."""
    left, right = same_types("RealDiv", x, y)
    if left.dtype in _INTEGERS:
        wide = float32 if left.dtype in (uint8, int8, int16) else float64
        left, right = cast(left, wide), cast(right, wide)
    return node("RealDiv", offered.div, [left, right], name)


divide = realdiv = truediv


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y; of integers, rounded down, as in Python 2."""
    left, right = same_types("Div", x, y)
    return (floordiv if left.dtype in _INTEGERS else truediv)(left, right, name)


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """The numbers in another dtype; floats become integers without what is behind the point."""
    kind, tensor = as_dtype(dtype), convert_to_tensor(x)
    if tensor.dtype == kind:
        return tensor
    host = (lambda a: a.astype(NUMPY_TYPES[kind])) if kind in (int32, int64) else None
    return node("Cast", lambda a: a.to(kind), [tensor], name, host_call=host)


def _cast_to(dtype: _C.dtype, called: str) -> Any:
    def made(x: Any, name: str | None = None) -> Tensor:
        return cast(x, dtype, name)

    made.__doc__ = f"The numbers in {called}."
    return made


to_float = _cast_to(float32, "float32")
to_int32 = _cast_to(int32, "int32")
to_int64 = _cast_to(int64, "int64")


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Tensor:
    """Einstein's sum of products, as "ij,jk->ik"; ValueError for shapes that don't fit."""
    return node("Einsum", lambda *x: offered.einsum(equation, *x), same_types("Einsum", *inputs), name)


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over the last `axes` dimensions of a and the first of b, or over two lists of dimensions."""
    return node("Tensordot", lambda x, y: offered.tensordot(x, y, axes), same_types("Tensordot", a, b), name)


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Tensor:
    """The product of matrices [..., m, k] and [..., k, n]; ValueError, naming both shapes, if they don't fit."""
    left, right = same_types("MatMul", a, b)
    for each in (left, right):
        if each.shape.ndims is not None and each.shape.ndims < 2:
            raise ValueError(f"Shape must be rank 2 but is rank {each.shape.ndims} for 'MatMul' (op: 'MatMul') with "
                             f"input shapes: {left.shape}, {right.shape}.")  # fmt: skip

    def product(x: _C.Tensor, y: _C.Tensor) -> _C.Tensor:
        return offered.matmul(x.mT if transpose_a else x, y.mT if transpose_b else y)

    return node("MatMul", product, [left, right], name)


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """The sum of tensors of one shape."""
    tensors = same_types("AddN", *inputs)
    if not tensors:
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")

    def total(*values: _C.Tensor) -> _C.Tensor:
        result = values[0]
        for value in values[1:]:
            if value.shape != result.shape:
                raise ValueError(f"Shapes must be equal, but are {tuple(result.shape)} and {tuple(value.shape)}")
            result = result + value
        return result

    return node("AddN", total, tensors, name)


def _reduction(type: str, call: Callable[..., Any], says: str, host: Callable[..., Any] | None = None) -> Any:
    def made(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        tensor = convert_to_tensor(input_tensor)
        chosen = reduction_indices if axis is None else axis
        axes = None if chosen is None else [int(each) for each in np.ravel(chosen)]
        kept = bool(keep_dims if keepdims is None else keepdims)

        def reduced(x: _C.Tensor) -> _C.Tensor:
            return call(x, list(range(x.ndim)) if axes is None else axes, kept)

        hosted = host if axes is None and not kept else None
        more: dict[str, Any] = {}
        if axes is None and not kept and tensor.shape.ndims is None:
            from minitensor.compat.v1.framework.inference import probes
            from minitensor.compat.v1.framework.shapes import TensorShape

            dtype = _C.bool if type in ("All", "Any") else tensor.dtype
            more["found"] = [(dtype, TensorShape([]), probes(TensorShape([]), dtype))]
        return node(type, reduced, [tensor], name, host_call=hosted, **more)

    made.__doc__ = f"{says} along `axis`, one or several, or all. `keepdims` leaves them with size 1."
    return made


def _each(call: Callable[..., Any]) -> Callable[..., Any]:
    def along(x: _C.Tensor, axes: list[int], keep: bool) -> _C.Tensor:
        for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
            x = call(x, axis, keep)
        return x

    return along


def _nothing(call: Callable[..., Any]) -> Callable[..., Any]:
    """Without axes a reduction of PyTorch's is one along all; this one leaves the tensor as it is."""
    return lambda x, axes, keep: call(x, axes, keep) if axes else x.clone()


reduce_sum = _reduction("Sum", _nothing(lambda x, axes, keep: offered.sum(x, axes, keep, dtype=x.dtype)), "Sums")
reduce_mean = _reduction("Mean", _nothing(lambda x, axes, keep: mean(x, axes, keep)), "Means")
reduce_max = _reduction("Max", _nothing(lambda x, axes, keep: amax(x, axes, keep)), "The largest elements")
reduce_min = _reduction("Min", _nothing(lambda x, axes, keep: amin(x, axes, keep)), "The smallest elements")
reduce_prod = _reduction(
    "Prod",
    _each(lambda x, axis, keep: prod(x, axis, keep, dtype=x.dtype)),
    "Products",
    lambda a: np.asarray(np.prod(a), a.dtype),
)
reduce_all = _reduction("All", _each(lambda x, axis, keep: offered.all(x, axis, keep)), "Whether all elements are true")
reduce_any = _reduction("Any", _each(lambda x, axis, keep: offered.any(x, axis, keep)), "Whether an element is true")
reduce_logsumexp = _reduction("LogSumExp", _nothing(lambda x, axes, keep: logsumexp(x, axes, keep)), "log(sum(exp))")


def _index_of(type: str, call: Callable[..., Any], what: str) -> Any:
    def made(
        input: Any,
        axis: int | None = None,
        name: str | None = None,
        dimension: int | None = None,
        output_type: Any = int64,
    ) -> Tensor:
        along = int((dimension or 0) if axis is None else axis)
        kind = as_dtype(output_type)
        return node(type, lambda a: call(a, along) if kind == int64 else call(a, along).to(kind), [input], name)

    made.__doc__ = (
        f"Where along the axis, the first if none is given, the {what} element is, the first of several; int64."
    )
    return made


argmax = _index_of("ArgMax", offered.argmax, "largest")
argmin = _index_of("ArgMin", offered.argmin, "smallest")


def cumsum(x: Any, axis: int = 0, name: str | None = None) -> Tensor:
    """Sums of the elements up to each one along an axis."""
    return node("Cumsum", lambda a: offered.cumsum(a, int(axis), dtype=a.dtype), [x], name)


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Tensor:
    """The numbers, those out of bounds replaced by the bound."""
    tensor = convert_to_tensor(t)
    return minimum(maximum(tensor, clip_value_min), clip_value_max, name=name or "clip_by_value")


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """The square root of the sum of the squares of all elements of several tensors; None among them is left out."""
    tensors = [convert_to_tensor(each) for each in t_list if each is not None]

    def norm(*values: _C.Tensor) -> _C.Tensor:
        total = (values[0] * values[0]).sum()
        for value in values[1:]:
            total = total + (value * value).sum()
        return total.sqrt()

    return node("global_norm", norm, tensors, name)


def clip_by_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """The tensor, scaled down to that norm if its own is larger."""
    tensor, bound = same_types("clip_by_norm", t, clip_norm)
    return node("clip_by_norm", lambda x, c: x * c / offered.maximum((x * x).sum().sqrt(), c), [tensor, bound], name)


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Tensor | None], Tensor]:
    """The tensors, scaled down together to that norm if theirs is larger; and their norm."""
    norm = global_norm(t_list) if use_norm is None else convert_to_tensor(use_norm)
    bound = convert_to_tensor(clip_norm, norm.dtype)
    clipped = [
        None
        if each is None
        else node("clip", lambda x, c, n: x * (c / offered.maximum(n, c)), [each, bound, norm], name)
        for each in t_list
    ]
    return clipped, norm


__all__ = [
    "abs",
    "acos",
    "add",
    "add_n",
    "argmax",
    "argmin",
    "asin",
    "atan",
    "atan2",
    "cast",
    "ceil",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "cos",
    "cosh",
    "cumsum",
    "div",
    "divide",
    "einsum",
    "equal",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floordiv",
    "floormod",
    "global_norm",
    "greater",
    "greater_equal",
    "is_finite",
    "is_inf",
    "is_nan",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "pow",
    "realdiv",
    "reciprocal",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "squared_difference",
    "subtract",
    "tan",
    "tanh",
    "tensordot",
    "to_float",
    "to_int32",
    "to_int64",
    "truediv",
]  # fmt: skip


def named(module: dict[str, Any]) -> None:
    """Give the functions that were made here the names by which users, and pickle, find them."""
    for name, thing in module.items():
        if getattr(thing, "__qualname__", "").endswith("<locals>.made") and thing.__module__ == module["__name__"]:
            thing.__name__ = thing.__qualname__ = name


named(globals())
