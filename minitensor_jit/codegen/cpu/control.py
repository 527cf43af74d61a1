"""Loops and choices in the entry function: blocks around the launches, and where the values that go round are."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.buffer_assignment import Location
from ..control import ControlFlow
from ..emitter.loops import i64
from ..llvm.ir_types import I1, I8, I32, I64, PTR, VOID, constant
from ..llvm.ir_types import Value as Register
from ..schedule import ConditionalStep, Value, WhileStep, leaf
from .unit import Unit

__all__ = ["Control"]


@dataclass(kw_only=True)
class Control(ControlFlow):
    """Emits loops and choices into the entry."""

    unit: Unit

    # ---- loops

    def loop(self, loop: WhileStep) -> None:
        """A `while`: its changing values lie at the places of its outputs from the first iteration to the end."""
        unit = self.unit
        self.begin(loop)
        header, body, after = (unit.entry.block(name) for name in ("while", "body", "after"))
        unit.builder.branch(header)
        unit.builder.position_at_end(header)
        self.run(loop.condition)
        going = self._load(loop.condition.results[0], pred=True)
        self.forget(loop.condition)
        b = unit.builder
        b.cbranch(b.icmp_unsigned("!=", going, constant(I8, 0)), body, after)
        b.position_at_end(body)
        self.iterate(loop)
        unit.builder.branch(header)
        unit.builder.position_at_end(after)

    # ---- choices

    def choice(self, choice: ConditionalStep) -> None:
        """A `conditional`: each branch leaves its results at the places of the outputs."""
        unit = self.unit
        pred = leaf(choice.index).dtype == "pred"
        number = self._load(choice.index, pred=pred)
        blocks = [unit.entry.block("branch") for _ in choice.regions]
        after = unit.entry.block("after")
        b = unit.builder
        if pred:
            b.cbranch(b.icmp_unsigned("!=", number, constant(I8, 0)), blocks[0], blocks[1])
        else:
            cases = " ".join(f"i32 {k}, label %{block.label}" for k, block in enumerate(blocks[:-1]))
            b.raw(f"switch i32 {number.ref}, label %{blocks[-1].label} [ {cases} ]")
        for block, region in zip(blocks, choice.regions, strict=True):
            unit.builder.position_at_end(block)
            self.branch(choice, region)
            unit.builder.branch(after)
        unit.builder.position_at_end(after)

    # ---- memory

    def _load(self, value: Value, *, pred: bool) -> Register:
        b, buffers = self.unit.builder, self.unit.entry.arguments[0]
        address = self.unit.pointer(b, buffers, self.where(value))
        return b.load(address, I8 if pred else I32, 1 if pred else 4)

    def copy(self, source: Location, target: Location, nbytes: int) -> None:
        """Emits a copy, unless the places are the same."""
        if source == target or not nbytes:
            return
        b, buffers = self.unit.builder, self.unit.entry.arguments[0]
        to, from_ = self.unit.pointer(b, buffers, target), self.unit.pointer(b, buffers, source)
        # Not memcpy: a result's place may be a parameter's.
        move = self.unit.module.declare("llvm.memmove.p0.p0.i64", VOID, [PTR, PTR, I64, I1])
        b.call(move, [to, from_, i64(nbytes), constant(I1, False)])
