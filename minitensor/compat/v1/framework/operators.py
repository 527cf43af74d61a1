"""Operators of tensors and variables: imported for its effect."""

from __future__ import annotations

from typing import Any

from minitensor.compat.v1.framework.graph import _Operand
from minitensor.compat.v1.ops import array_ops
from minitensor.compat.v1.ops import math_ops as m

__all__: list[str] = []

_BINARY = {
    "add": m.add, "sub": m.subtract, "mul": m.multiply, "truediv": m.truediv, "floordiv": m.floordiv, "mod": m.mod,
    "pow": m.pow, "matmul": m.matmul, "and": m.logical_and, "or": m.logical_or,
}  # fmt: skip
_ONE_WAY = {"lt": m.less, "le": m.less_equal, "gt": m.greater, "ge": m.greater_equal}


def _attach() -> None:
    cls: Any = _Operand
    for name, call in _BINARY.items():
        setattr(cls, f"__{name}__", lambda x, y, call=call: call(x, y))
        setattr(cls, f"__r{name}__", lambda x, y, call=call: call(y, x))
    for name, call in _ONE_WAY.items():
        setattr(cls, f"__{name}__", lambda x, y, call=call: call(x, y))
    cls.__neg__ = lambda x: m.negative(x)
    cls.__abs__ = lambda x: m.abs(x)
    cls.__invert__ = lambda x: m.logical_not(x)
    cls.__getitem__ = array_ops.getitem


_attach()
