"""Loops and choices: where the values lie that go round, for every target."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ..runtime.buffer_assignment import Location
from .schedule import ConditionalStep, Region, Value, WhileStep, leaf

__all__ = ["ControlFlow", "nbytes_of"]


@dataclass
class ControlFlow:
    """Places values of regions.

    `run` emits the steps of a region, keeping the values that it is told to; `locations` says where values are;
    `reserve` and `release` give and take back scratch memory.
    """

    locations: dict[Value, Location]
    where: Callable[[Value], Location]
    run: Callable[[Region], None]
    reserve: Callable[[Hashable, int], Location]
    release: Callable[[list[Hashable]], None]

    def copy(self, source: Location, target: Location, nbytes: int) -> None:
        """Emits a copy, unless the places are the same."""
        raise NotImplementedError

    def begin(self, loop: WhileStep) -> None:
        """Its changing values lie at the places of its outputs from the first iteration to the end."""
        for output, start in zip(loop.outputs, loop.starts, strict=True):
            self.copy(self.where(start), self.locations[output], nbytes_of(output))

    def iterate(self, loop: WhileStep) -> None:
        """The body, and what must be moved at its end."""
        moves = self._place(loop)
        self.run(loop.body)
        self._move(moves, set(loop.outputs))
        self.forget(loop.body)

    def branch(self, choice: ConditionalStep, region: Region) -> None:
        """A region of a choice, which leaves its results at the places of the outputs."""
        made = {output for step in region.steps for output in step.outputs}
        moves = []
        for output, value in zip(choice.outputs, region.results, strict=True):
            if value in made and value not in self.locations:
                self.locations[value] = self.locations[output]
            else:
                moves.append((value, output))
        self.run(region)
        self._move(moves, set())
        self.forget(region)

    def _place(self, loop: WhileStep) -> list[tuple[Value, Value]]:
        """Lets steps of the body write over the values of the iteration before, where that is safe.

        What is left over must be moved at the end of the iteration: (value, output).
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
                sources[value] = self.reserve(key, nbytes_of(value))
                self.copy(self.where(value), sources[value], nbytes_of(value))
        for value, output in moves:
            self.copy(sources[value], self.locations[output], nbytes_of(output))
        self.release(held)

    def forget(self, region: Region) -> None:
        """A region's results have been used."""
        made: list[Hashable] = [output for step in region.steps for output in step.outputs]
        self.release(made)


def nbytes_of(value: Value) -> int:
    """The size of an array."""
    return leaf(value).nbytes
