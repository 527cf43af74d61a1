"""The computations that combine two scalars in a reduce or scatter, and their identities."""

from __future__ import annotations

from typing import Any

from ..infer.infer_shape import ShapeError, infer_shape
from ..module import Computation, Instruction
from ..shape import DTYPES, Shape
from ..small_types import float_limits, integer_limits

__all__ = ["REDUCTIONS", "combiner", "highest", "lowest"]

# Reduction kinds by name: the opcode that combines two scalars.
REDUCTIONS = {
    "add": "add",
    "sum": "add",
    "multiply": "multiply",
    "prod": "multiply",
    "maximum": "maximum",
    "max": "maximum",
    "minimum": "minimum",
    "min": "minimum",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


def combiner(kind: str, dtype: str) -> Computation:
    """The computation `(a, b) -> kind(a, b)` on scalars, for reduce and scatter; `assign` gives `b`."""
    shape = Shape(dtype)
    a = Instruction("a", "parameter", shape, parameter_number=0)
    b = Instruction("b", "parameter", shape, parameter_number=1)
    if kind == "assign":
        return Computation(f"assign_{dtype}", [a, b], b)
    if kind not in REDUCTIONS:
        raise ValueError(f"unknown reduction kind {kind!r}; known: {', '.join(REDUCTIONS)}")
    opcode = REDUCTIONS[kind]
    infer_shape(opcode, (shape, shape), {})
    root = Instruction(opcode, opcode, shape, (a, b))
    return Computation(f"{opcode}_{dtype}", [a, b, root], root)


def lowest(dtype: str) -> Any:
    """The identity of `maximum`: -inf, where there is none the smallest number, or False."""
    return _extreme(dtype, 0, False)


def highest(dtype: str) -> Any:
    """The identity of `minimum`: inf, where there is none the largest number, or True."""
    return _extreme(dtype, 1, True)


def _extreme(dtype: str, which: int, logical: bool) -> Any:
    kind = DTYPES[dtype].kind
    if kind == "f":
        return float_limits(dtype)[which]
    if kind == "b":
        return logical
    if kind == "c":
        raise ShapeError(f"{dtype} has no order")
    return integer_limits(dtype)[which]
