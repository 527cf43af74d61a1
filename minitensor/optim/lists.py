"""Ops on lists of tensors, one call for all: what optimizers are written in.

Lists have as many items as there are parameters. What is no list is the same for every item: a number, what stands for
a number that a compiled function reads at each call, or a tensor of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor.ops import ROWS

Tensor = _C.Tensor
Tensors = Sequence[Any]


def _each(op: Any, *columns: Any) -> tuple[Any, ...]:
    return _C.foreach(op, columns, ())


def _function(name: str) -> Callable[..., Any]:
    return _named(name, ROWS[name].call, f"``{name}`` of the items of lists.")


def _in_place(name: str) -> Callable[..., Any]:
    return _named(f"{name}_", _C.inplace_form(ROWS[name].call), f"``{name}_`` of the items of lists.")


def _named(name: str, op: Any, doc: str) -> Callable[..., Any]:
    def function(*columns: Any) -> tuple[Any, ...]:
        return _C.foreach(op, columns, ())

    function.__name__, function.__qualname__, function.__doc__ = name, name, doc
    return function


add, sub, mul, div = map(_function, ("add", "sub", "mul", "div"))
neg, sqrt, sign = map(_function, ("neg", "sqrt", "sign"))
absolute, where, greater, less, maximum = map(_function, ("abs", "where", "gt", "lt", "maximum"))
lerp, addcmul = _function("lerp"), _function("addcmul")
add_, sub_, mul_, div_, sqrt_, lerp_ = map(_in_place, ("add", "sub", "mul", "div", "sqrt", "lerp"))
_addcmul_, _addcdiv_ = _in_place("addcmul"), _in_place("addcdiv")
copy_ = _named("copy_", Tensor.copy_, "Copy the tensors of another list into these.")
clone = _named("clone", Tensor.clone, "Copies of the tensors.")


def clamp_(tensors: Tensors, lowest: float, highest: float) -> None:
    """Bring every element into these bounds."""
    _each(Tensor.clamp_, tensors, lowest, highest)


def _has_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, list) and any(isinstance(v, Tensor) for v in value))


def addcmul_(tensors: Tensors, a: Tensors, b: Tensors, value: Any = 1) -> None:
    """``tensor += value * a * b``."""
    if _has_tensor(value):
        add_(tensors, mul(mul(a, value), b))
    else:
        _addcmul_(tensors, a, b, value)


def addcdiv_(tensors: Tensors, a: Tensors, b: Tensors, value: Any = 1) -> None:
    """``tensor += value * a / b``."""
    if _has_tensor(value):
        add_(tensors, div(mul(a, value), b))
    else:
        _addcdiv_(tensors, a, b, value)


def numbers(function: Callable[..., Any], *columns: Sequence[Any]) -> Any:
    """The function of the numbers of each parameter: one number if they are the same for all, else a list."""
    if all(set(map(type, column)) == {float} and column.count(column[0]) == len(column) for column in columns):
        return function(*(column[0] for column in columns))
    return [function(*row) for row in zip(*columns, strict=True)]


def count_steps(steps: Tensors) -> tuple[Any, ...]:
    """Add one to every count of steps; the counts, as numbers."""
    return _each(_C.count_step, steps)


def real(tensors: Tensors) -> Tensors:
    """Complex tensors as what they are made of, in a last dimension of 2."""
    return [ROWS["view_as_real"].call(t) if t.is_complex() else t for t in tensors]
