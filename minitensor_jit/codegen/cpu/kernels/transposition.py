"""Transposed copies of small arrays: calls of a function of the core, which costs no time to compile."""

from __future__ import annotations

from ....ir.library import find_loop
from ....ir.shape import DTYPES
from ...emitter.loops import i64
from ...llvm.ir_text import Builder
from ...llvm.ir_types import I64, PTR, VOID, Value

__all__ = ["transpose"]

# Elements of a size are moved alike.
_MOVED_AS = {1: "u8", 2: "u16", 4: "f32", 8: "f64"}


def transpose(b: Builder, dtype: str, source: tuple[Value, int], target: tuple[Value, int], m: Value, n: Value) -> None:
    """Copies an array of [n, m] elements to one of [m, n]: for both, where it is and how far apart its rows are."""
    loop = find_loop("transpose_plane", _MOVED_AS[DTYPES[dtype].itemsize])
    assert loop is not None  # the core has it for every size
    b.module.imports[loop.symbol] = loop.address
    callee = b.module.declare(loop.symbol, VOID, [PTR, I64, PTR, I64, I64, I64])
    b.call(callee, [source[0], i64(source[1]), target[0], i64(target[1]), m, n])
