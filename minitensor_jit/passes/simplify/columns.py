"""Arithmetic on arrays that are put together of three columns is arithmetic on the columns."""

from __future__ import annotations

from typing import Final

from ...ir.module import Instruction
from ...ir.opcode import OPCODES, is_elementwise
from ...ir.shape import Shape
from ...ir.size import hint
from .rewriter import Rewriter, Rule

__all__ = ["RULES"]

_COLUMNS: Final = 3
"""Two or four are interleaved by shuffles as they are stored; lanes of three would each choose between operands."""
_LEAST_ROWS: Final = 64


def _is_columns(x: Instruction) -> bool:
    return (
        x.opcode == "concatenate"
        and len(x.operands) == _COLUMNS
        and x.attrs["dimensions"] == (len(x.dims) - 1,)
        and all(o.dims[-1] == 1 for o in x.operands)
    )


def _column(x: Instruction, k: int, dims: tuple[int, ...], r: Rewriter) -> Instruction:
    if x.opcode == "concatenate":
        return x.operands[k]
    if x.opcode == "broadcast":
        return r.broadcast(x.operands[0], dims, ())
    return r.emit("slice", (x,), {"slice": (*((0, n, 1) for n in dims[:-1]), (k, k + 1, 1))})


def _by_columns(i: Instruction, r: Rewriter) -> Instruction | None:
    """Each column is computed by itself, and they are put together at the end."""
    if not isinstance(i.shape, Shape) or len(i.dims) < 2 or not any(map(_is_columns, i.operands)):
        return None
    dims = (*i.dims[:-1], 1)
    if any(not isinstance(n, int) for n in dims) or hint(i.array_shape.size) < _LEAST_ROWS * _COLUMNS:
        return None
    for o in i.operands:
        spread = o.opcode == "broadcast" and not o.operands[0].dims
        if o.dims != i.dims or not (_is_columns(o) or spread or o.opcode in ("parameter", "get-tuple-element")):
            return None
    shape = i.array_shape.with_dims(dims)
    parts = [
        r.emit(i.opcode, [_column(o, k, dims, r) for o in i.operands], dict(i.attrs), shape) for k in range(_COLUMNS)
    ]
    return r.emit("concatenate", parts, {"dimensions": (len(dims) - 1,)})


RULES = (
    Rule(
        "elementwise-columns",
        tuple(name for name in OPCODES if is_elementwise(name)),
        _by_columns,
        "f(concatenate(a, b, c), x) of three columns is concatenate(f(a, x0), f(b, x1), f(c, x2))",
    ),
)
