"""Vectors of which the first lanes exist, by way of the stack, where the target has no masked instructions for them.

LLVM makes a branch and an instruction for every lane of such a load or store: hundreds for a vector of bytes.
"""

from __future__ import annotations

from ..llvm.ir_text import Builder, Function, Module
from ..llvm.ir_types import I8, I64, PTR, VOID, LeadingLanes, Type, Value, constant
from .loops import i64, is_constant

__all__ = ["is_staged", "load_staged", "store_staged"]

# A place of its own among the stack memory of a function, beside those of calls and tables.
_PLACE = -2
# So few lanes take less time one by one: what is put together on the stack can't be read as a vector at once.
_FEW = 16
_COPY = "copy_bytes"


def is_staged(module: Module, mask: Value, itemsize: int) -> bool:
    """Whether a load or a store of elements of `itemsize` bytes under this mask goes by way of the stack."""
    if not isinstance(mask, LeadingLanes) or itemsize >= module.narrowest_mask:
        return False
    return (int(mask.count.ref) if is_constant(mask.count) else mask.lanes) > _FEW


def load_staged(b: Builder, address: Value, type_: Type, mask: Value, lane_bytes: int) -> Value:
    """The lanes that exist, and zeros in the others. A lane is of `lane_bytes`, of one element or two."""
    assert isinstance(mask, LeadingLanes)
    stage = b.function.spill(_PLACE, mask.lanes * lane_bytes)
    b.store(constant(type_, None), stage, 64)
    _copy(b, stage, address, mask.count, lane_bytes)
    return b.load(stage, type_, 64)


def store_staged(b: Builder, value: Value, address: Value, mask: Value, lane_bytes: int) -> None:
    """Writes the lanes that exist."""
    assert isinstance(mask, LeadingLanes)
    stage = b.function.spill(_PLACE, mask.lanes * lane_bytes)
    b.store(value, stage, 64)
    _copy(b, address, stage, mask.count, lane_bytes)


def _copy(b: Builder, to: Value, source: Value, lanes: Value, lane_bytes: int) -> None:
    nbytes = i64(int(lanes.ref) * lane_bytes) if is_constant(lanes) else b.mul(lanes, i64(lane_bytes))
    b.raw(f"call void @{_copier(b.module).name}(ptr {to.ref}, ptr {source.ref}, {nbytes.text} {nbytes.ref})")


def _copier(module: Module) -> Function:
    """`copy_bytes(to, source, n)`: words of eight bytes, then bytes."""
    for known in module.functions:
        if known.name == _COPY:
            return known
    function = Function(module, _COPY, VOID, [(PTR, "to"), (PTR, "source"), (I64, "n")])
    to, source, count = function.arguments
    begin = function.block("begin")
    b = Builder(function, begin)
    words = b.and_(count, i64(-8))
    _copy_loop(b, to, source, i64(0), words, I64, 8)
    _copy_loop(b, to, source, words, count, I8, 1)
    b.ret()
    return function


def _copy_loop(b: Builder, to: Value, source: Value, first: Value, end: Value, element: Type, step: int) -> None:
    """Elements from byte `first` up to byte `end`; `b` goes on behind them."""
    function, before = b.function, b.block
    loop, after = function.block("loop"), function.block("after")
    b.cbranch(b.icmp_signed("<", first, end), loop, after)
    b.position_at_end(loop)
    k, following = (Value(I64, "i64", function.fresh()) for _ in range(2))
    b.raw(f"{k.ref} = phi i64 [ {first.ref}, %{before.label} ], [ {following.ref}, %{loop.label} ]")
    b.store(b.load(b.gep(source, k, I8), element, 1), b.gep(to, k, I8), 1)
    b.raw(f"{following.ref} = add i64 {k.ref}, {step}")
    b.cbranch(b.icmp_signed("<", following, end), loop, after)
    b.position_at_end(after)
