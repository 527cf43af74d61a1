"""`_foreach_*`: an op on every tensor of a list, as optimizers use them.

Functions give a tuple of results; those whose name ends with an underscore change the tensors and give the list back.
Each takes lists of tensors, lists of numbers, one number, or one tensor without dimensions where PyTorch's do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C, _tensor  # noqa: F401  (which has the methods)
from minitensor.composite.numbers import number

__all__ = [
    "_foreach_abs",
    "_foreach_abs_",
    "_foreach_acos",
    "_foreach_acos_",
    "_foreach_add",
    "_foreach_add_",
    "_foreach_addcdiv",
    "_foreach_addcdiv_",
    "_foreach_addcmul",
    "_foreach_addcmul_",
    "_foreach_asin",
    "_foreach_asin_",
    "_foreach_atan",
    "_foreach_atan_",
    "_foreach_ceil",
    "_foreach_ceil_",
    "_foreach_clamp_max",
    "_foreach_clamp_max_",
    "_foreach_clamp_min",
    "_foreach_clamp_min_",
    "_foreach_clone",
    "_foreach_copy_",
    "_foreach_cos",
    "_foreach_cos_",
    "_foreach_cosh",
    "_foreach_cosh_",
    "_foreach_div",
    "_foreach_div_",
    "_foreach_erf",
    "_foreach_erf_",
    "_foreach_erfc",
    "_foreach_erfc_",
    "_foreach_exp",
    "_foreach_exp_",
    "_foreach_expm1",
    "_foreach_expm1_",
    "_foreach_floor",
    "_foreach_floor_",
    "_foreach_frac",
    "_foreach_frac_",
    "_foreach_lerp",
    "_foreach_lerp_",
    "_foreach_lgamma",
    "_foreach_lgamma_",
    "_foreach_log",
    "_foreach_log1p",
    "_foreach_log1p_",
    "_foreach_log2",
    "_foreach_log2_",
    "_foreach_log10",
    "_foreach_log10_",
    "_foreach_log_",
    "_foreach_max",
    "_foreach_maximum",
    "_foreach_maximum_",
    "_foreach_minimum",
    "_foreach_minimum_",
    "_foreach_mm",
    "_foreach_mul",
    "_foreach_mul_",
    "_foreach_neg",
    "_foreach_neg_",
    "_foreach_norm",
    "_foreach_pow",
    "_foreach_pow_",
    "_foreach_powsum",
    "_foreach_reciprocal",
    "_foreach_reciprocal_",
    "_foreach_round",
    "_foreach_round_",
    "_foreach_rsqrt",
    "_foreach_rsqrt_",
    "_foreach_sigmoid",
    "_foreach_sigmoid_",
    "_foreach_sign",
    "_foreach_sign_",
    "_foreach_sin",
    "_foreach_sin_",
    "_foreach_sinh",
    "_foreach_sinh_",
    "_foreach_sqrt",
    "_foreach_sqrt_",
    "_foreach_sub",
    "_foreach_sub_",
    "_foreach_tan",
    "_foreach_tan_",
    "_foreach_tanh",
    "_foreach_tanh_",
    "_foreach_trunc",
    "_foreach_trunc_",
    "_foreach_zero_",
]

Tensor = _C.Tensor


def _tensors(value: Any, name: str, argument: str, position: int) -> Any:
    if not isinstance(value, (list, tuple)):
        kind = "Tensor" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(
            f"_foreach_{name}(): argument '{argument}' (position {position}) must be tuple of Tensors, not {kind}"
        )
    for i, item in enumerate(value):
        if not isinstance(item, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument {position - 1}, but got {type(item).__name__}")
    return value


def _numbers(tensors: Any, value: Any, name: str) -> Any:
    """One number, one for each tensor, or a list of tensors; a tensor of numbers becomes a list."""
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], Tensor):
            return _tensors(value, name, "other", 2)
        if len(value) != len(tensors):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return value


_Function = Callable[..., Any]


def _named(name: str, function: _Function, doc: str) -> _Function:
    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__module__ = "minitensor"
    function.__doc__ = doc
    return function


def _op(name: str) -> Any:
    return getattr(Tensor, name)


def _unary(name: str) -> tuple[_Function, _Function]:
    """The function and its form in place."""
    op, changing = _op(name), _op(f"{name}_")

    def function(self: Sequence[Any]) -> tuple[Any, ...]:
        return _C.foreach(op, (_tensors(self, name, "self", 1),), ())

    def in_place(self: Sequence[Any]) -> Sequence[Any]:
        _C.foreach(changing, (_tensors(self, f"{name}_", "self", 1),), ())
        return self

    return (
        _named(name, function, f"`{name}` of every tensor."),
        _named(f"{name}_", in_place, f"`{name}_` of every tensor."),
    )


def _binary(
    name: str, alpha: bool = False, op: _Function | None = None, changing: _Function | None = None
) -> tuple[_Function, _Function]:
    op, changing = op or _op(name), changing or _op(f"{name}_")

    def lists(self: Any, other: Any, scale: Any, called: str) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        tensors = _tensors(self, called, "self", 1)
        given, scale = _numbers(tensors, other, called), number(scale, called, "alpha")
        return ((tensors, given, scale), ("alpha",)) if alpha and scale != 1 else ((tensors, given), ())

    if alpha:

        def function(self: Sequence[Any], other: Any, *, alpha: Any = 1) -> tuple[Any, ...]:
            return _C.foreach(op, *lists(self, other, alpha, name))

        def in_place(self: Sequence[Any], other: Any, *, alpha: Any = 1) -> Sequence[Any]:
            _C.foreach(changing, *lists(self, other, alpha, f"{name}_"))
            return self

    else:

        def function(self: Sequence[Any], other: Any) -> tuple[Any, ...]:  # type: ignore[misc]  # the other form
            return _C.foreach(op, *lists(self, other, 1, name))

        def in_place(self: Sequence[Any], other: Any) -> Sequence[Any]:  # type: ignore[misc]  # the other form
            _C.foreach(changing, *lists(self, other, 1, f"{name}_"))
            return self

    return (
        _named(name, function, f"`{name}` of every tensor and the other tensor or number in its place."),
        _named(f"{name}_", in_place, f"`{name}_` of every tensor and the other tensor or number in its place."),
    )


def _bounded(name: str, bound: str) -> tuple[_Function, _Function]:
    def op(self: Any, other: Any) -> Any:
        return self.clamp(**{bound: other})

    def changing(self: Any, other: Any) -> Any:
        return self.clamp_(**{bound: other})

    return _binary(name, False, op, changing)


def _pow(self: Any, exponent: Any) -> tuple[Any, ...]:
    from minitensor.ops import ROWS

    tensors = exponent if not isinstance(self, (list, tuple)) else self
    _tensors(tensors, "pow", "self", 1)
    return _C.foreach(ROWS["pow"].call, (self, _numbers(tensors, exponent, "pow")), ())


def _pow_(self: Sequence[Any], exponent: Any) -> Sequence[Any]:
    tensors = _tensors(self, "pow_", "self", 1)
    _C.foreach(_op("pow_"), (tensors, _numbers(tensors, exponent, "pow_")), ())
    return self


def _three(name: str) -> tuple[_Function, _Function]:
    op, changing = _op(name), _op(f"{name}_")

    def lists(self: Any, first: Any, second: Any, scalars: Any, value: Any, called: str) -> Any:
        tensors = _tensors(self, called, "self", 1)
        if isinstance(scalars, Tensor) and scalars.requires_grad:
            raise TypeError(f"{called}(): argument 'scalars' must be a Tensor that does not require grad, or numbers")
        factors = value if scalars is None else scalars.tolist() if isinstance(scalars, Tensor) else scalars
        given = _tensors(first, called, "tensor1", 2), _tensors(second, called, "tensor2", 3)
        return (tensors, *given, _numbers(tensors, factors, called)), ("value",)

    def function(
        self: Sequence[Any], tensor1: Sequence[Any], tensor2: Sequence[Any], scalars: Any = None, *, value: Any = 1
    ) -> tuple[Any, ...]:
        return _C.foreach(op, *lists(self, tensor1, tensor2, scalars, value, name))

    def in_place(
        self: Sequence[Any], tensor1: Sequence[Any], tensor2: Sequence[Any], scalars: Any = None, *, value: Any = 1
    ) -> Sequence[Any]:
        _C.foreach(changing, *lists(self, tensor1, tensor2, scalars, value, f"{name}_"))
        return self

    return (
        _named(name, function, f"`{name}` of the tensors of three lists, with a value for all or for each."),
        _named(f"{name}_", in_place, f"`{name}_` of the tensors of three lists, with a value for all or for each."),
    )


def _lerp(self: Sequence[Any], tensors1: Sequence[Any], weight: Any) -> tuple[Any, ...]:
    ends = _tensors(tensors1, "lerp", "tensors1", 2)
    return _C.foreach(_op("lerp"), (_tensors(self, "lerp", "self", 1), ends, _numbers(self, weight, "lerp")), ())


def _lerp_(self: Sequence[Any], tensors1: Sequence[Any], weight: Any) -> Sequence[Any]:
    ends = _tensors(tensors1, "lerp_", "tensors1", 2)
    _C.foreach(_op("lerp_"), (_tensors(self, "lerp_", "self", 1), ends, _numbers(self, weight, "lerp_")), ())
    return self


def _norm(self: Sequence[Any], ord: Any = 2, dtype: Any = None) -> tuple[Any, ...]:
    from minitensor.linalg import vector_norm

    def norm(tensor: Any) -> Any:
        return vector_norm(tensor, ord, dtype=dtype)

    return _C.foreach(norm, (_tensors(self, "norm", "self", 1),), ())


def _powsum(self: Sequence[Any], ord: Any = 2, dtype: Any = None) -> tuple[Any, ...]:
    def power(tensor: Any) -> Any:
        return tensor.abs().pow(ord).sum(dtype=dtype)

    return _C.foreach(power, (_tensors(self, "powsum", "self", 1),), ())


def _max(self: Sequence[Any]) -> tuple[Any, ...]:
    from minitensor.ops import ROWS

    return _C.foreach(ROWS["amax"].call, (_tensors(self, "max", "self", 1),), ())


def _mm(self: Sequence[Any], mat2: Sequence[Any]) -> tuple[Any, ...]:
    return _C.foreach(_op("mm"), (_tensors(self, "mm", "self", 1), _tensors(mat2, "mm", "mat2", 2)), ())


def _clone(self: Sequence[Any], *, memory_format: Any = None) -> tuple[Any, ...]:
    return _C.foreach(_op("clone"), (_tensors(self, "clone", "self", 1),), ())


def _zero_(self: Sequence[Any]) -> Sequence[Any]:
    _C.foreach(_op("fill_"), (_tensors(self, "zero_", "self", 1), 0), ())
    return self


def _copy_(self: Sequence[Any], src: Sequence[Any], non_blocking: bool = False) -> Sequence[Any]:
    _C.foreach(_op("copy_"), (_tensors(self, "copy_", "self", 1), _tensors(src, "copy_", "src", 2)), ())
    return self


_foreach_abs, _foreach_abs_ = _unary("abs")
_foreach_acos, _foreach_acos_ = _unary("acos")
_foreach_asin, _foreach_asin_ = _unary("asin")
_foreach_atan, _foreach_atan_ = _unary("atan")
_foreach_ceil, _foreach_ceil_ = _unary("ceil")
_foreach_cos, _foreach_cos_ = _unary("cos")
_foreach_cosh, _foreach_cosh_ = _unary("cosh")
_foreach_erf, _foreach_erf_ = _unary("erf")
_foreach_erfc, _foreach_erfc_ = _unary("erfc")
_foreach_exp, _foreach_exp_ = _unary("exp")
_foreach_expm1, _foreach_expm1_ = _unary("expm1")
_foreach_floor, _foreach_floor_ = _unary("floor")
_foreach_frac, _foreach_frac_ = _unary("frac")
_foreach_lgamma, _foreach_lgamma_ = _unary("lgamma")
_foreach_log, _foreach_log_ = _unary("log")
_foreach_log10, _foreach_log10_ = _unary("log10")
_foreach_log1p, _foreach_log1p_ = _unary("log1p")
_foreach_log2, _foreach_log2_ = _unary("log2")
_foreach_neg, _foreach_neg_ = _unary("neg")
_foreach_reciprocal, _foreach_reciprocal_ = _unary("reciprocal")
_foreach_round, _foreach_round_ = _unary("round")
_foreach_rsqrt, _foreach_rsqrt_ = _unary("rsqrt")
_foreach_sigmoid, _foreach_sigmoid_ = _unary("sigmoid")
_foreach_sign, _foreach_sign_ = _unary("sign")
_foreach_sin, _foreach_sin_ = _unary("sin")
_foreach_sinh, _foreach_sinh_ = _unary("sinh")
_foreach_sqrt, _foreach_sqrt_ = _unary("sqrt")
_foreach_tan, _foreach_tan_ = _unary("tan")
_foreach_tanh, _foreach_tanh_ = _unary("tanh")
_foreach_trunc, _foreach_trunc_ = _unary("trunc")

_foreach_add, _foreach_add_ = _binary("add", alpha=True)
_foreach_sub, _foreach_sub_ = _binary("sub", alpha=True)
_foreach_mul, _foreach_mul_ = _binary("mul")
_foreach_div, _foreach_div_ = _binary("div")
# PyTorch's clamp_max is minimum under another name, and takes numbers and lists alike.
_foreach_maximum, _foreach_maximum_ = _bounded("maximum", "min")
_foreach_minimum, _foreach_minimum_ = _bounded("minimum", "max")
_foreach_clamp_min, _foreach_clamp_min_ = _bounded("clamp_min", "min")
_foreach_clamp_max, _foreach_clamp_max_ = _bounded("clamp_max", "max")
_foreach_addcmul, _foreach_addcmul_ = _three("addcmul")
_foreach_addcdiv, _foreach_addcdiv_ = _three("addcdiv")
_foreach_pow = _named("pow", _pow, "Every tensor to its power, or a number to the power of every tensor.")
_foreach_pow_ = _named("pow_", _pow_, "Every tensor to its power, in place.")
_foreach_lerp = _named("lerp", _lerp, "From the tensors of one list to those of another, by a weight.")
_foreach_lerp_ = _named("lerp_", _lerp_, "From the tensors of one list to those of another, by a weight, in place.")
_foreach_norm = _named("norm", _norm, "The vector norm of every tensor.")
_foreach_powsum = _named("powsum", _powsum, "The sum of the powers of the magnitudes of every tensor.")
_foreach_max = _named("max", _max, "The largest element of every tensor.")
_foreach_mm = _named("mm", _mm, "The matrix products of the tensors of two lists.")
_foreach_clone = _named("clone", _clone, "A copy of every tensor.")
_foreach_zero_ = _named("zero_", _zero_, "Zero in every tensor.")
_foreach_copy_ = _named("copy_", _copy_, "The tensors of another list copied into these.")
