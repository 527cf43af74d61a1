"""Computations on scalars that instructions name: combiners, and the comparators of sorts."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.module import Computation, Instruction
from ...ir.shape import DTYPES, Shape
from ..errors import CompileError
from ..llvm.ir_types import Value
from .elementwise import ELEMENTWISE
from .scope import Scope
from .types import dtype_constant

__all__ = ["apply_scalar", "before", "check_scalar"]


def check_scalar(opcode: str, computation: Computation) -> None:
    """Raises `CompileError` unless the computation consists of elementwise operations on scalars."""
    for i in computation.instructions:
        if i.opcode in ("parameter", "constant", "tuple"):
            continue
        if i.opcode not in ELEMENTWISE or i.dims:
            raise CompileError(opcode, f"its computation {computation.name} has {i.opcode}, which is not scalar")


def apply_scalar(e: Scope, computation: Computation, arguments: Sequence[Value]) -> list[Value]:
    """Calls a computation on scalars, or on vectors lane by lane."""
    values: dict[Instruction, Value] = {}
    lanes = max(v.lanes for v in arguments)
    for i in computation.instructions:
        if i.parameter_number is not None:
            values[i] = e.splat(arguments[i.parameter_number], lanes)
        elif i.opcode == "constant":
            assert i.literal is not None
            values[i] = dtype_constant(i.dtype, i.literal, lanes)
        elif i.opcode != "tuple":
            operands = [values[o] for o in i.operands]
            values[i] = ELEMENTWISE[i.opcode](e.at(*operands), i, operands)
    return [values[r] for r in computation.roots]


def before(dtype: str, *, largest: bool) -> Computation:
    """The comparator of topk: of floating-point numbers the order of their bits, in which NaN is largest."""
    b = Builder("before")
    attrs = {"direction": "GT" if largest else "LT"}
    if DTYPES[dtype].kind == "f":
        attrs["type"] = "TOTALORDER"
    return b.build_computation(b.emit("compare", (b.parameter(Shape(dtype)), b.parameter(Shape(dtype))), attrs))
