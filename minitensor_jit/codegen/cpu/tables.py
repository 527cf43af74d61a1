"""Tables of addresses: a kernel that reads where its arrays are from one works on any arrays of its kind."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...runtime.buffer_assignment import Location
from ..llvm.ir_text import Builder, Function
from ..llvm.ir_types import I8, I64, PTR, VOID, Value
from .unit import Unit

__all__ = ["emit_table"]


def emit_table(unit: Unit, places: Sequence[Location], room: int = 0) -> Value:
    """Emits into the entry what makes a table of these addresses, with room for so many words behind them.

    The next table of the same function lies in its place.
    """
    buffers = unit.entry.arguments[0]
    table = unit.entry.spill(-1, 8 * (len(places) + room))
    # What is constant has its address in the code.
    pairs = [(0, 0) if p.kind == "constant" else (p.slot, p.offset) for p in places]
    words = unit.module.data(b"".join(struct.pack("<qq", *pair) for pair in pairs))
    fill = f"call void @{_filler(unit).name}(ptr {buffers.ref}, ptr {table.ref}, ptr {words.ref}"
    unit.builder.raw(f"{fill}, i64 {len(places)})")
    for k, place in enumerate(places):
        if place.kind == "constant":
            unit.builder.store(unit.module.data(place.data), unit.builder.gep(table, k, PTR), 8)
    return table


def _filler(unit: Unit) -> Function:
    """`fill_table(buffers, table, places, n)`: n addresses, from pairs of a buffer's number and an offset."""
    if unit.table_filler is not None:
        return unit.table_filler
    names = [(PTR, "buffers"), (PTR, "table"), (PTR, "places"), (I64, "n")]
    unit.table_filler = function = Function(unit.module, "fill_table", VOID, names)
    buffers, table, places, count = function.arguments
    begin, loop, after = (function.block(hint) for hint in ("begin", "loop", "after"))
    Builder(function, begin).branch(loop)
    b = Builder(function, loop)
    k, following = (Value(I64, "i64", function.fresh()) for _ in range(2))
    b.raw(f"{k.ref} = phi i64 [ 0, %{begin.label} ], [ {following.ref}, %{loop.label} ]")
    pair = b.gep(places, b.add(k, k), I64)
    base = b.load(b.gep(buffers, b.load(pair, I64, 8), PTR), PTR, 8)
    address = b.gep(base, b.load(b.gep(pair, 1, I64), I64, 8), I8)
    b.store(address, b.gep(table, k, PTR), 8)
    b.raw(f"{following.ref} = add i64 {k.ref}, 1")
    b.cbranch(b.icmp_signed("<", following, count), loop, after)
    Builder(function, after).ret()
    return function
