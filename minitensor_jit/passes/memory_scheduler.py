"""Orders instructions so that as little memory as possible is in use at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from ..ir.module import Computation, Instruction, Module
from ..ir.opcode import Trait, opcodes_with
from ..ir.shape import Shape, TupleShape, leaves
from ..ir.size import hint

__all__ = ["MemoryScheduler", "peak_bytes"]

_FORWARDS: Final = opcodes_with(Trait.FORWARDS)


class MemoryScheduler:
    """Orders the instructions of the entry, and of what loops and conditionals run, by what they free and take.

    Contract: the same instructions in another topological order, and only if the peak of live bytes is lower in it, or
    the same and bytes are live for a shorter time: what is read soon after it was made is still in the cache.

    Next comes the instruction, of those whose operands are there, that leaves the fewest bytes; of equals, the first in
    the order as it is. Up to the peak the order may stay as it is, since what comes after has room. What makes a result
    of a parameter of its shape waits, if it can, until nothing else reads the parameter: then the result may be written
    over it, and an update in place takes no memory.
    """

    name = "schedule"

    def run(self, module: Module) -> bool:
        """Order every computation that is run step by step."""
        changed = False
        for computation in module.sequences():
            values = _Values(computation)
            least = _use(values, computation.instructions)
            for start in (0, least.at + 1):
                order = _greedy(computation, values, start)
                use = _use(values, order)
                if use.peak < least.peak or (use.peak == least.peak and use.total < MIN_SHORTER * least.total):
                    computation.instructions, changed = order, True
                    break
        return changed


# Less than this part of the time that bytes were live is worth another order.
MIN_SHORTER: Final = 0.95


# An array in memory: the instruction that makes it, and which leaf of its result it is.
_Array: TypeAlias = tuple[Instruction, int]


class _Values:
    """Which arrays an instruction's result is in, and who reads them."""

    def __init__(self, computation: Computation) -> None:
        self.arrays: dict[Instruction, tuple[_Array, ...]] = {}
        self.bytes: dict[_Array, int] = {}
        self.readers: dict[_Array, set[Instruction]] = {}
        self.makes: dict[Instruction, tuple[_Array, ...]] = {}
        self.reads: dict[Instruction, set[_Array]] = {}
        shape_of: dict[_Array, Shape] = {}
        starts: dict[Instruction, list[int]] = {}  # of a tuple's elements among its arrays
        for i in computation.instructions:
            shapes = leaves(i.shape)
            if i.opcode == "tuple":
                self.arrays[i] = tuple(a for x in i.operands for a in self.arrays[x])
            elif i.opcode == "get-tuple-element":
                whole = i.operands[0]
                if whole not in starts:
                    assert isinstance(whole.shape, TupleShape)
                    starts[whole] = [0, *accumulate(len(leaves(s)) for s in whole.shape.elements)]
                first = starts[whole][i.attrs["index"]]
                self.arrays[i] = self.arrays[whole][first : first + len(shapes)]
            elif i.opcode in _FORWARDS:
                self.arrays[i] = self.arrays[i.operands[0]]
            else:
                made = tuple((i, k) for k in range(len(shapes)))
                self.arrays[i] = made
                shape_of.update(zip(made, shapes, strict=True))
                kept = i.opcode in ("parameter", "constant")
                self.bytes.update((a, 0 if kept else hint(s.nbytes)) for a, s in zip(made, shapes, strict=True))
                self.readers.update((a, set()) for a in made)
                self.makes[i] = made
                self.reads[i] = {a for x in i.operands for a in self.arrays[x]}
                for a in self.reads[i]:
                    self.readers[a].add(i)
        results = self.arrays[computation.root]
        # Results are the caller's memory, for the whole run.
        self.bytes.update((a, 0) for a in results)
        # Who may write over which parameters, and the other way round.
        self.updates: dict[Instruction, set[_Array]] = {}
        self.updaters: dict[_Array, set[Instruction]] = {}
        wanted: dict[Instruction, set[Shape]] = {}
        for a in results:
            wanted.setdefault(a[0], set()).add(shape_of[a])
        for i, kinds in wanted.items():
            over = {a for a in self.reads[i] if a[0].opcode == "parameter" and shape_of[a] in kinds}
            if over:
                self.updates[i] = over
            for a in over:
                self.updaters.setdefault(a, set()).add(i)


def peak_bytes(computation: Computation, order: Sequence[Instruction] | None = None) -> int:
    """The most bytes of intermediate values that are alive at once; parameters, constants and results don't count."""
    return _use(_Values(computation), order or computation.instructions).peak


class _Use(NamedTuple):
    """The memory of an order: the most bytes that are live, when that is first, and the sum over all instructions."""

    peak: int
    at: int
    total: int


def _use(values: _Values, order: Sequence[Instruction]) -> _Use:
    left = {a: len(readers) for a, readers in values.readers.items()}
    live = peak = at = total = 0
    for n, i in enumerate(order):
        made = values.makes.get(i, ())
        live += sum(values.bytes[a] for a in made)
        if live > peak:
            peak, at = live, n
        total += live
        live -= sum(values.bytes[a] for a in made if not left[a])
        for a in values.reads.get(i, ()):
            left[a] -= 1
            if not left[a]:
                live -= values.bytes[a]
    return _Use(peak, at, total)


def _greedy(computation: Computation, values: _Values, start: int) -> list[Instruction]:
    """The order in which each instruction from number `start` on leaves the fewest bytes."""
    position = {i: n for n, i in enumerate(computation.instructions)}
    users = computation.users()
    waiting = {i: len(set(i.operands)) for i in computation.instructions}
    left = {a: set(readers) for a, readers in values.readers.items()}
    order: list[Instruction] = []
    ready: list[tuple[int, int, Instruction]] = []
    held: list[tuple[int, int, Instruction]] = []  # updates of what is still read

    def growth(i: Instruction) -> int:
        if i not in values.makes:
            return -1 << 62  # costs nothing, and may let others go
        taken = sum(values.bytes[a] for a in values.makes[i])
        return taken - sum(values.bytes[a] for a in values.reads[i] if left[a] == {i})

    def is_early(i: Instruction) -> bool:
        return any(
            other not in values.updates for a in values.updates.get(i, ()) for other in left[a] if other is not i
        )

    def push(i: Instruction) -> None:
        heapq.heappush(held if is_early(i) else ready, (growth(i), position[i], i))

    for i in computation.instructions:
        if not waiting[i]:
            push(i)
    done: set[Instruction] = set()

    def take(i: Instruction) -> None:
        done.add(i)
        order.append(i)
        for a in values.reads.get(i, ()):
            left[a].discard(i)
            nearer = left[a] if len(left[a]) == 1 else values.updaters.get(a, ())
            for other in nearer:
                if not waiting[other] and other not in done:
                    push(other)
        for user in users[i]:
            waiting[user] -= 1
            if not waiting[user]:
                push(user)

    for i in computation.instructions[:start]:
        take(i)
    while ready or held:
        known, _, i = heapq.heappop(ready or held)
        if i in done:
            continue
        if growth(i) < known:  # what it reads has lost its other readers in the meantime
            push(i)
        else:
            take(i)
    parameters = [i for i in order if i.opcode == "parameter"]
    return parameters + [i for i in order if i.opcode != "parameter"]
