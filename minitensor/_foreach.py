"""`_foreach_*`: an op on every tensor of a list, as optimizers use them.

Functions give a tuple of results; those whose name ends with an underscore change the tensors and give the list back.
Each takes lists of tensors, lists of numbers, one number, or one tensor without dimensions where PyTorch's do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C

__all__: list[str] = []

Tensor = _C.Tensor

_UNARY = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log",
    "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
]  # fmt: skip


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


def _define(name: str, function: Callable[..., Any], doc: str) -> None:
    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__module__ = "minitensor"
    function.__doc__ = doc
    globals()[f"_foreach_{name}"] = function
    __all__.append(f"_foreach_{name}")


def _op(name: str) -> Any:
    return getattr(Tensor, name)


def _unary(name: str) -> None:
    op, changing = _op(name), _op(f"{name}_")

    def function(self: Sequence[Any]) -> tuple[Any, ...]:
        return _C.foreach(op, (_tensors(self, name, "self", 1),), ())

    def in_place(self: Sequence[Any]) -> Sequence[Any]:
        _C.foreach(changing, (_tensors(self, f"{name}_", "self", 1),), ())
        return self

    _define(name, function, f"`{name}` of every tensor.")
    _define(f"{name}_", in_place, f"`{name}_` of every tensor.")


def _binary(name: str, op: Any, changing: Any, alpha: bool) -> None:
    def lists(self: Any, other: Any, scale: Any, called: str) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        tensors = _tensors(self, called, "self", 1)
        given = _numbers(tensors, other, called)
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

    _define(name, function, f"`{name}` of every tensor and the other tensor or number in its place.")
    _define(f"{name}_", in_place, f"`{name}_` of every tensor and the other tensor or number in its place.")


def _pow(self: Any, exponent: Any) -> tuple[Any, ...]:
    from minitensor.ops import ROWS

    tensors = exponent if not isinstance(self, (list, tuple)) else self
    _tensors(tensors, "pow", "self", 1)
    return _C.foreach(ROWS["pow"].call, (self, _numbers(tensors, exponent, "pow")), ())


def _pow_(self: Sequence[Any], exponent: Any) -> Sequence[Any]:
    tensors = _tensors(self, "pow_", "self", 1)
    _C.foreach(_op("pow_"), (tensors, _numbers(tensors, exponent, "pow_")), ())
    return self


def _three(name: str) -> None:
    op, changing = _op(name), _op(f"{name}_")

    def lists(self: Any, first: Any, second: Any, scalars: Any, value: Any, called: str) -> Any:
        tensors = _tensors(self, called, "self", 1)
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

    _define(name, function, f"`{name}` of the tensors of three lists, with a value for all or for each.")
    _define(f"{name}_", in_place, f"`{name}_` of the tensors of three lists, with a value for all or for each.")


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


for _name in _UNARY:
    _unary(_name)
for _name, _alpha in {"add": True, "sub": True, "mul": False, "div": False}.items():
    _binary(_name, _op(_name), _op(f"{_name}_"), _alpha)
# PyTorch's clamp_max is minimum under another name, and takes numbers and lists alike.
for _name, _bound in {"maximum": "min", "minimum": "max", "clamp_min": "min", "clamp_max": "max"}.items():

    def _bounded(self: Any, other: Any, _bound: str = _bound) -> Any:
        return self.clamp(**{_bound: other})

    def _bounded_(self: Any, other: Any, _bound: str = _bound) -> Any:
        return self.clamp_(**{_bound: other})

    _binary(_name, _bounded, _bounded_, False)
for _name in ("addcmul", "addcdiv"):
    _three(_name)
for _name, _function, _doc in (
    ("pow", _pow, "Every tensor to its power, or a number to the power of every tensor."),
    ("pow_", _pow_, "Every tensor to its power, in place."),
    ("lerp", _lerp, "From the tensors of one list to those of another, by a weight."),
    ("lerp_", _lerp_, "From the tensors of one list to those of another, by a weight, in place."),
    ("norm", _norm, "The vector norm of every tensor."),
    ("powsum", _powsum, "The sum of the powers of the magnitudes of every tensor."),
    ("max", _max, "The largest element of every tensor."),
    ("mm", _mm, "The matrix products of the tensors of two lists."),
    ("clone", _clone, "A copy of every tensor."),
    ("zero_", _zero_, "Zero in every tensor."),
    ("copy_", _copy_, "The tensors of another list copied into these."),
):
    _define(_name, _function, _doc)
