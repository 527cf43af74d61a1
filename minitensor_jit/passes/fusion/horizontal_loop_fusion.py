"""Fuses equal loops over different arrays, such as an optimizer's updates, into one with results of all sizes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from ...ir.analysis.flat import flat_part
from ...ir.decision import Decision
from ...ir.module import Computation, Instruction
from ...ir.opcode import Trait, opcodes_with
from ...ir.refusal import Refused
from ...ir.shape import TupleShape, leaves
from ...ir.size import active
from ..sequence_pass import SequencePass

__all__ = ["HorizontalLoopFusion"]

# A loop that moves more bytes than this is worth a launch of its own: waking the threads takes 2 us, some 60 KB.
MAX_BYTES: Final = 512 << 10
# What waits for the last of the loops, or was made by the first, has to stay in the second-level cache meanwhile.
MAX_WAITING: Final = 1 << 20
# The addresses of so many loops' arrays are put together for a launch.
MAX_LOOPS: Final = 128
_SAME_ORDER: Final = opcodes_with(Trait.SAME_ORDER)


@dataclass(slots=True)
class _Together:
    """Loops that will be one, in order."""

    loops: list[Instruction] = field(default_factory=list)
    names: list[Instruction] = field(default_factory=list)
    """Other names for their results, which follow these."""
    waiting: int = 0
    read_at: int = 1 << 62
    """Where the first reader of their results stands."""


class HorizontalLoopFusion(SequencePass):
    """Merges kLoop fusions that do the same to each element of arrays of any size, and read nothing of each other.

    Contract: a merged fusion is of kind kLoop and has the results of all its loops, one after the other, of which each
    may have dimensions of its own. It stands where the last of them stood, with
    reshapes of its results behind it; everything else keeps its place. Only loops
    in which each element is computed from those at its own place and scalars are merged, and only of any size with one
    code (`ir/analysis/flat.py`).

    What is gained is the launch of every loop but one, and that loops too short to be divided are divided among the
    threads together. What is lost is that operands wait in memory for the last loop to begin, and results for their
    readers. So long loops stay alone, and those that are together never let more wait than a cache holds. A refusal
    costs a launch, and no memory traffic.
    """

    name = "horizontal-loop-fusion"

    def _run(self, computation: Computation) -> bool:
        loops = [i for i in computation.instructions if i.opcode == "fusion" and i.attrs["kind"] == "kLoop"]
        if len(loops) < 2:
            return False
        if active.get() is not None:
            self.refuse(loops[0], None, Refused.SIZES_VARY.because("its code is for sizes that vary", 0))
            return False
        position = {i: n for n, i in enumerate(computation.instructions)}
        users = computation.users()
        together: dict[Hashable, _Together] = {}
        found: list[_Together] = []
        for loop in loops:
            part = flat_part(loop.attrs["calls"])
            key = None if part is None else part.key
            decision = _suits(computation, loop, key, users[loop])
            if not decision:
                self.refuse(loop, None, decision)
                continue
            one = together.setdefault(key, _Together())
            names, waiting, read_at = _around(computation, loop, users, position)
            decision = _joins(one, position[loop], waiting)
            if not decision:
                self.refuse(one.loops[0], loop, decision)
                found.append(one)
                one = together[key] = _Together()
            one.loops.append(loop)
            one.names += names
            one.waiting += waiting
            one.read_at = min(one.read_at, read_at)
        groups = [_Merged(one, users) for one in (*found, *together.values()) if len(one.loops) > 1]
        if groups:
            _replace(computation, groups)
        return bool(groups)


def _suits(computation: Computation, loop: Instruction, key: Hashable | None, readers: list[Instruction]) -> Decision:
    if key is None:
        return Refused.OTHER_LOOP.because("an element needs more than those at its own place and scalars", 0)
    if loop.is_tuple and (loop is computation.root or any(u.opcode != "get-tuple-element" for u in readers)):
        return Refused.NO_KERNEL.because("its results are read as one tuple", 0)
    moved = sum(o.shape.nbytes for o in loop.operands) + sum(s.nbytes for s in leaves(loop.shape))
    return Refused.LITTLE_GAINED.unless(
        moved <= MAX_BYTES, f"it moves {moved} bytes, which is worth a launch of its own", 0
    )


def _joins(one: _Together, position: int, waiting: int) -> Decision:
    if one.read_at <= position:
        return Refused.CYCLE.because("a result of those before it is read before its operands are there", 0)
    if len(one.loops) >= MAX_LOOPS:
        return Refused.TOO_LARGE.because(f"the fusion has {MAX_LOOPS} loops already", 0)
    total = one.waiting + waiting
    fits = total <= MAX_WAITING or not one.loops
    return Refused.CACHE.unless(fits, f"{total} bytes would wait for the last of them", 0)


def _around(
    computation: Computation, loop: Instruction, users: dict[Instruction, list[Instruction]],
    position: dict[Instruction, int],
) -> tuple[list[Instruction], int, int]:  # fmt: skip
    """Other names for its results; the bytes that are made for it or by it for others; where these begin to read."""
    names: list[Instruction] = []
    waiting = sum(o.shape.nbytes for o in loop.operands if _source(o).opcode not in ("parameter", "constant"))
    read_at = 1 << 62
    for value in users[loop] if loop.is_tuple else [loop]:
        known, readers = [value], []
        while known:
            for user in users[known.pop()]:
                if user.opcode in _SAME_ORDER and user is not computation.root:
                    names.append(user)
                    known.append(user)
                else:
                    readers.append(user)
        read_at = min([read_at, *(position[u] for u in readers)])
        if any(u is not computation.root for u in readers):
            waiting += value.shape.nbytes
    return names, waiting, read_at


def _source(i: Instruction) -> Instruction:
    while i.opcode in _SAME_ORDER:
        i = i.operands[0]
    return i


class _Merged:
    """One fusion for several: `made` is it and its elements, `instead` says which of these are the old values."""

    def __init__(self, together: _Together, users: dict[Instruction, list[Instruction]]) -> None:
        self.loops, self.names = together.loops, together.names
        loops, main = self.loops, self.loops[0]
        inner: Computation = main.attrs["calls"]
        parameters: dict[Instruction, Instruction] = {}  # by what they stand for
        body: list[Instruction] = []
        roots: list[Instruction] = []
        for loop in loops:
            roots += _copy(loop, parameters, body)
        outputs = Instruction("outputs", "tuple", TupleShape(tuple(r.array_shape for r in roots)), roots)
        called = Computation(inner.name, [*parameters.values(), *body, outputs], outputs)
        called.make_names_unique()
        attrs = {"kind": "kLoop", "calls": called}
        name = f"horizontal_{main.name}"
        fusion = Instruction(name, "fusion", outputs.shape, parameters, attrs, metadata=main.metadata)
        self.made = [fusion]
        self.instead: dict[Instruction, Instruction] = {}
        first = 0
        for loop in loops:
            for value in users[loop] if loop.is_tuple else [loop]:
                index = first + (value.attrs["index"] if loop.is_tuple else 0)
                element = Instruction(
                    f"{name}.{index}", "get-tuple-element", value.shape, (fusion,), {"index": index},
                    metadata=value.metadata,
                )  # fmt: skip
                self.made.append(element)
                self.instead[value] = element
            first += len(leaves(loop.shape))


def _copy(loop: Instruction, parameters: dict[Instruction, Instruction], body: list[Instruction]) -> list[Instruction]:
    """Appends a loop's instructions to a body, whose parameters are known by what they stand for; gives its roots."""
    inner: Computation = loop.attrs["calls"]
    mapping: dict[Instruction, Instruction] = {}
    for parameter, operand in zip(inner.parameters, loop.operands, strict=True):
        known = parameters.get(operand)
        if known is None:
            number = len(parameters)
            known = Instruction(f"param_{number}", "parameter", operand.shape, parameter_number=number)
            parameters[operand] = known
        mapping[parameter] = known
    for i in inner.instructions:
        if i.opcode not in ("parameter", "tuple"):
            mapping[i] = i.clone([mapping[o] for o in i.operands])
            body.append(mapping[i])
    return [mapping[r] for r in inner.roots]


def _replace(computation: Computation, groups: list[_Merged]) -> None:
    """Puts each merged fusion in the place of its last loop."""
    instead = {old: new for group in groups for old, new in group.instead.items()}
    gone = {i for group in groups for i in (*group.loops, *group.names)}.union(instead)
    places = {group.loops[-1]: group for group in groups}
    order: list[Instruction] = []
    for i in computation.instructions:
        if i in places:
            order += places[i].made + places[i].names
        if i not in gone:
            order.append(i)
    for i in order:
        if any(o in instead for o in i.operands):
            i.operands = [instead.get(o, o) for o in i.operands]
    computation.instructions = order
    computation.root = instead.get(computation.root, computation.root)
    computation.make_names_unique()
