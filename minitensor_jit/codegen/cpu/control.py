"""Loops and choices in the entry function: blocks around the launches, and where the values that go round are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ...runtime.buffer_assignment import Location
from ..llvm import I1, I8, I32, I64, PTR, VOID, constant
from ..llvm import Value as Register
from .loops import i64
from .schedule import Choice, Loop, Region, Value, leaf
from .unit import Unit

__all__ = ["Control"]


@dataclass
class Control:
    """Emits loops and choices into the entry.

    `run` emits the steps of a region, keeping the values that it is told to; `locations` says where values are;
    `reserve` and `release` give and take back scratch memory.
    """

    unit: Unit
    locations: dict[Value, Location]
    where: Callable[[Value], Location]
    run: Callable[[Region], None]
    reserve: Callable[[Hashable, int], Location]
    release: Callable[[list[Hashable]], None]

    # ---- loops

    def loop(self, loop: Loop) -> None:
        """A `while`: its changing values lie at the places of its outputs from the first turn to the end."""
        unit = self.unit
        for output, start in zip(loop.outputs, loop.starts, strict=True):
            self._copy(self.where(start), self.locations[output], _nbytes(output))
        header, turn, after = (unit.entry.block(name) for name in ("while", "turn", "after"))
        unit.builder.branch(header)
        unit.builder.position_at_end(header)
        self.run(loop.condition)
        going = self._load(loop.condition.results[0], pred=True)
        self._forget(loop.condition)
        b = unit.builder
        b.cbranch(b.icmp_unsigned("!=", going, constant(I8, 0)), turn, after)
        b.position_at_end(turn)
        moves = self._place(loop)
        self.run(loop.body)
        self._move(moves, set(loop.outputs))
        self._forget(loop.body)
        unit.builder.branch(header)
        unit.builder.position_at_end(after)

    def _place(self, loop: Loop) -> list[tuple[Value, Value]]:
        """Lets steps of the body write over the values of the turn before, where that is safe.

        What is left over must be moved at the end of the turn: (value, output).
        """
        maker = {value: (at, m) for at, step in enumerate(loop.body.steps) for m, value in enumerate(step.outputs)}
        moves = []
        for output, value in zip(loop.outputs, loop.body.results, strict=True):
            readers = [at for at, step in enumerate(loop.body.steps) if output in step.operands]
            if value in maker and value not in self.locations and output not in loop.body.results:
                at, m = maker[value]
                step = loop.body.steps[at]
                if max(readers, default=-1) < at or (readers[-1] == at and step.in_place(m, output)):
                    self.locations[value] = self.locations[output]
                    continue
            moves.append((value, output))
        return moves

    def _move(self, moves: list[tuple[Value, Value]], state: set[Value]) -> None:
        """Copies all values as if at once: those that are overwritten go through other memory first."""
        sources = {}
        held: list[Hashable] = []
        overwritten = {output for _, output in moves}
        for value, _ in moves:
            sources[value] = self.where(value)
            if value in state and value in overwritten:
                held.append(key := ("move", value))
                sources[value] = self.reserve(key, _nbytes(value))
                self._copy(self.where(value), sources[value], _nbytes(value))
        for value, output in moves:
            self._copy(sources[value], self.locations[output], _nbytes(output))
        self.release(held)

    # ---- choices

    def choice(self, choice: Choice) -> None:
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
            made = {output for step in region.steps for output in step.outputs}
            moves = []
            for output, value in zip(choice.outputs, region.results, strict=True):
                if value in made and value not in self.locations:
                    self.locations[value] = self.locations[output]
                else:
                    moves.append((value, output))
            self.run(region)
            self._move(moves, set())
            self._forget(region)
            unit.builder.branch(after)
        unit.builder.position_at_end(after)

    # ---- memory

    def _load(self, value: Value, *, pred: bool) -> Register:
        b, buffers = self.unit.builder, self.unit.entry.arguments[0]
        address = self.unit.pointer(b, buffers, self.where(value))
        return b.load(address, I8 if pred else I32, 1 if pred else 4)

    def _copy(self, source: Location, target: Location, nbytes: int) -> None:
        if source == target or not nbytes:
            return
        b, buffers = self.unit.builder, self.unit.entry.arguments[0]
        to, from_ = self.unit.pointer(b, buffers, target), self.unit.pointer(b, buffers, source)
        # Not memcpy: a result's place may be a parameter's.
        move = self.unit.module.declare("llvm.memmove.p0.p0.i64", VOID, [PTR, PTR, I64, I1])
        b.call(move, [to, from_, i64(nbytes), constant(I1, False)])

    def _forget(self, region: Region) -> None:
        """A region's results have been used."""
        made: list[Hashable] = [output for step in region.steps for output in step.outputs]
        self.release(made)


def _nbytes(value: Value) -> int:
    return leaf(value).nbytes
