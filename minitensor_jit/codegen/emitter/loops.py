"""Counted loops, which every target's skeletons are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..llvm.ir_text import Builder
from ..llvm.ir_types import I64, Value, constant
from .scope import Scope

__all__ = ["counted_loop", "i64", "is_constant", "while_loop"]

# Body of a counted loop: (variable, carried values) -> carried values.
Body = Callable[[Value, list[Value]], Sequence[Value]]


def i64(value: int) -> Value:
    """A constant i64."""
    return constant(I64, value)


def is_constant(value: Value) -> bool:
    """Whether the value is known now."""
    return value.ref[0] != "%"


def counted_loop(
    e: Scope, begin: Value, end: Value, step: int | Value, body: Body, carried: Sequence[Value] = ()
) -> list[Value]:
    """`for (i = begin; i < end; i += step)`, with values carried from one round to the next.

    A step that is known at run time only is a value. Constant bounds that give no or one round need no loop at all.
    """
    guarded = True
    if is_constant(begin) and is_constant(end) and isinstance(step, int):
        first, last = int(begin.ref), int(end.ref)
        if first >= last:
            return list(carried)
        if first + step >= last:
            return list(body(begin, list(carried)))
        guarded = False
    function, outer = e.function, e.inner
    block, after = function.block("loop"), function.block("after")
    level = len(e.builders)
    e.push(Builder(function, block, level))
    variable = Value(begin.type, begin.text, function.fresh(), level)
    phis = [Value(v.type, v.text, function.fresh(), level) for v in carried]
    results = list(body(variable, phis))
    b = e.inner
    following = b.add(variable, step if isinstance(step, Value) else constant(begin.type, step))
    b.cbranch(b.icmp_signed("<", following, end), block, after)
    latch = b.block
    e.pop()
    before = outer.block
    if guarded:
        outer.cbranch(outer.icmp_signed("<", begin, end), block, after)
    else:
        outer.branch(block)
    heads = [(variable, begin, following), *zip(phis, carried, results, strict=True)]
    block.lines[:0] = [
        f"  {p.ref} = phi {p.text} [ {a.ref}, %{before.label} ], [ {z.ref}, %{latch.label} ]" for p, a, z in heads
    ]
    outer.position_at_end(after)
    finals = []
    for first_value, last_value in zip(carried, results, strict=True):
        ref = last_value.ref
        if guarded:
            ref = function.fresh()
            after.lines.append(
                f"  {ref} = phi {last_value.text} [ {first_value.ref}, %{before.label} ], "
                f"[ {last_value.ref}, %{latch.label} ]"
            )
        finals.append(Value(last_value.type, last_value.text, ref, outer.level))
    return finals


def while_loop(
    e: Scope,
    carried: Sequence[Value],
    condition: Callable[[list[Value]], Value],
    body: Callable[[list[Value]], Sequence[Value]],
) -> list[Value]:
    """`while (condition(values)) values = body(values)`; the values at the end."""
    function, outer = e.function, e.inner
    header, turn, after = (function.block(name) for name in ("while", "turn", "after"))
    level = len(e.builders)
    phis = [Value(v.type, v.text, function.fresh(), level) for v in carried]
    e.push(Builder(function, header, level))
    going = condition(phis)
    e.inner.cbranch(going, turn, after)
    e.inner.position_at_end(turn)
    results = list(body(phis))
    latch = e.inner.block
    e.inner.branch(header)
    e.pop()
    # What the body moved out of the loop may have opened other blocks.
    before = outer.block
    outer.branch(header)
    header.lines[:0] = [
        f"  {p.ref} = phi {p.text} [ {a.ref}, %{before.label} ], [ {z.ref}, %{latch.label} ]"
        for p, a, z in zip(phis, carried, results, strict=True)
    ]
    outer.position_at_end(after)
    return [Value(p.type, p.text, p.ref, outer.level) for p in phis]
