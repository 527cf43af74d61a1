"""Fuses row-wise normalisations: reductions over trailing dimensions together with what feeds them and reads them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from ...ir.analysis.scattered import reduces_scattered
from ...ir.decision import Decision
from ...ir.module import Computation, Instruction
from ...ir.opcode import OPCODES, is_elementwise
from ...ir.refusal import Refused
from ...ir.semantics.reduction import reduction_kind
from ...ir.shape import Shape
from ...ir.size import hint
from ..sequence_pass import SequencePass
from .outline import Outline, outline

__all__ = ["RowFusion"]

# A row that is passed over more than once is worked on from the cache: with its intermediates it must fit there.
MAX_ROW: Final = 65536
# With fewer rows than this there is too little to share among threads for many elements.
FEW_ROWS: Final = 8
MAX_SERIAL: Final = 16384
# How many scalar operations are copied into a fusion for one value that it broadcasts.
MAX_SCALARS: Final = 8
MAX_MEMBERS: Final = 256
MAX_OPERANDS: Final = 64


@dataclass(frozen=True, slots=True)
class _Space:
    """The shapes of one row fusion: `full` is [rows..., row...], with `reduced` dimensions in the row."""

    full: tuple[int, ...]
    reduced: int

    @property
    def rows(self) -> tuple[int, ...]:
        return self.full[: -self.reduced]

    @property
    def length(self) -> int:
        return prod(self.full[-self.reduced :])


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """A row fusion to be: the instructions that move into it, and its outline, which has copies of leaves too."""

    members: frozenset[Instruction]
    outline: Outline


class RowFusion(SequencePass):
    """Makes one fusion (kind kCustom, backend_config "row") of a softmax-like pattern, processed a row at a time.

    Contract: all reductions in it are over the same trailing dimensions of one shape [rows..., row...], with a scalar
    constant as initial value and a simple combiner. Every other instruction in it is elementwise on the full shape or
    on [rows...], a broadcast or iota to one of the two, or a scalar. A broadcast repeats a value of the row along the
    row, or reads an operand of the fusion or a scalar that does not depend on the rows. Outputs have one of the two
    shapes. Some elementwise instruction depends on a reduction; lone reductions are left to `Fusion`. If the row is
    passed over more than once, or an output has the full shape, the row has at most 65,536 elements.
    """

    name = "row-fusion"

    def _run(self, computation: Computation) -> bool:
        spaces: dict[_Space, None] = {}
        for i in computation.instructions:
            if i.opcode == "reduce":
                decision = row_reduction(i)
                if decision:
                    spaces[_Space(i.operands[0].dims, len(i.attrs["dimensions"]))] = None
                else:
                    self.refuse(i, None, decision)
        if not spaces:
            return False
        taken: set[Instruction] = set()
        groups: list[_Group] = []
        # The largest shapes first: a value of shape [N] may be rows of [N, C] or a row itself. Then the most rows.
        for space in sorted(spaces, key=lambda s: (-len(s.full), -prod(s.full), s.reduced)):
            self._collect(computation, space, taken, groups)
        if not groups:
            return False
        outline(computation, [g.outline for g in groups])
        return True

    def _collect(self, computation: Computation, space: _Space, taken: set[Instruction], groups: list[_Group]) -> None:
        candidates = [i for i in computation.instructions if i not in taken and _is_candidate(i, space)]
        for component in _components(candidates):
            members = _convex(computation, component)
            decision = _worthwhile(members)
            if decision:
                group = _complete(computation, members)
                decision = _fits_cache(group, space) and self._fits(computation, group, groups)
                if decision:
                    taken.update(members)
                    groups.append(group)
            if not decision:
                self.refuse(component[0], None, decision)

    @staticmethod
    def _fits(computation: Computation, group: _Group, groups: list[_Group]) -> Decision:
        members = set(group.outline.members)
        operands = {o for i in group.outline.members for o in i.operands if o not in members}
        if len(members) > MAX_MEMBERS or len(operands) > MAX_OPERANDS:
            return Refused.TOO_LARGE.because("the fusion would be too large")
        # Each group is convex, but two groups may still wait for each other.
        acyclic = not _has_cycle(computation, [*groups, group])
        return Refused.CYCLE.unless(acyclic, "it would form a cycle with another fusion")


def row_reduction(i: Instruction) -> Decision:
    """Whether a reduce can be part of a row fusion."""
    if len(i.operands) != 2:
        return Refused.NO_KERNEL.because("it reduces several operands at once", 0)
    if reduction_kind(i.attrs["to_apply"]) is None:
        return Refused.NO_KERNEL.because("its combiner is not a single operation", 0)
    x, init = i.operands
    dimensions = sorted(i.attrs["dimensions"])
    if not dimensions or dimensions != list(range(len(x.dims) - len(dimensions), len(x.dims))):
        return Refused.OTHER_LOOP.because("it does not reduce exactly the last dimensions", 0)
    if reduces_scattered(i):
        return Refused.OTHER_LOOP.because("all of it is reduced, one element after the other", x.shape.nbytes)
    if prod(x.dims[d] for d in dimensions) < 2:
        return Refused.LITTLE_GAINED.because("a row has less than two elements", 0)
    return Refused.NO_KERNEL.unless(init.opcode == "constant", "its initial value is not a constant", 0)


def _is_candidate(i: Instruction, space: _Space) -> bool:
    if not isinstance(i.shape, Shape):
        return False
    opcode = i.opcode
    if opcode == "reduce":
        fits = i.operands[0].dims == space.full and len(i.attrs["dimensions"]) == space.reduced
        return fits and bool(row_reduction(i))
    if i.dims != space.full and i.dims != space.rows:
        return False
    if opcode == "broadcast":
        return _repeats_row_value(i, space)
    return is_elementwise(opcode)


def _repeats_row_value(i: Instruction, space: _Space) -> bool:
    """A broadcast of one value a row along the row. Other broadcasts are leaves: they read operands of the fusion."""
    return (
        i.dims == space.full
        and i.operands[0].dims == space.rows
        and tuple(i.attrs["dimensions"]) == tuple(range(len(space.rows)))
    )


def _is_leaf(i: Instruction) -> bool:
    return i.opcode in ("broadcast", "iota") or (i.opcode == "constant" and i.shape == Shape(i.dtype))


def _components(candidates: list[Instruction]) -> list[list[Instruction]]:
    """The candidates that are connected by operands and hold a reduction."""
    known = set(candidates)
    # A broadcast of something else is a leaf, which connects nothing.
    candidates = [i for i in candidates if i.opcode != "broadcast" or i.operands[0] in known]
    parent: dict[Instruction, Instruction] = {i: i for i in candidates}

    def find(i: Instruction) -> Instruction:
        while parent[i] is not i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i in candidates:
        for operand in i.operands:
            if operand in parent:
                parent[find(i)] = find(operand)
    components: dict[Instruction, list[Instruction]] = {}
    for i in candidates:
        components.setdefault(find(i), []).append(i)
    return [c for c in components.values() if any(i.opcode == "reduce" for i in c)]


def _convex(computation: Computation, component: list[Instruction]) -> list[Instruction]:
    """The largest prefix-closed part that no path leaves and enters again."""
    wanted = set(component)
    group: set[Instruction] = set()
    outside: set[Instruction] = set()  # depends on the group without being in it
    members: list[Instruction] = []
    for i in computation.instructions:
        if i in wanted and not any(o in outside for o in i.operands):
            group.add(i)
            members.append(i)
        elif any(o in group or o in outside for o in i.operands):
            outside.add(i)
    return members


def _worthwhile(members: list[Instruction]) -> Decision:
    after: set[Instruction] = set()
    for i in members:
        if i.opcode == "reduce" or any(o in after for o in i.operands):
            if i.opcode not in ("reduce", "broadcast"):
                return Decision.allow()
            after.add(i)
    return Refused.LITTLE_GAINED.because("no elementwise operation reads a reduction's result", 0)


def _fits_cache(group: _Group, space: _Space) -> Decision:
    """Whether one thread can work on a row as a whole."""
    after: set[Instruction] = set()  # depends on a reduction
    passes = any(root.dims == space.full for root in group.outline.roots)
    for i in group.outline.members:
        if i.opcode == "reduce" or any(o in after for o in i.operands):
            after.add(i)
            passes |= i.dims == space.full
    if not passes:
        return Decision.allow()  # the row is read once, from wherever it is, and may be shared among threads
    if space.length > MAX_ROW:
        return Refused.CACHE.because(f"a row of {space.length} elements does not fit the cache")
    return Refused.FEW_ROWS.unless(
        hint(prod(space.rows)) >= FEW_ROWS or hint(prod(space.full)) <= MAX_SERIAL,
        f"{prod(space.rows)} rows of {space.length} elements leave nothing to share among threads",
    )


def _complete(computation: Computation, members: list[Instruction]) -> _Group:
    """Add the leaves that members read (copies: others may read them too) and find the outputs."""
    inside = set(members)
    wanted = set(members)
    for member in members:
        for operand in member.operands:
            if operand not in wanted and _is_leaf(operand):
                wanted.add(operand)
                if operand.opcode == "broadcast":
                    _add_scalars(operand.operands[0], wanted)
    # A broadcast that others read too stays outside as well: its source leaves the fusion, which is smaller.
    moved = {i for i in members if i.opcode != "broadcast"}
    users = computation.users()
    outside = {i for i in computation.instructions if i not in inside}
    for i in reversed(members):
        if i.opcode == "broadcast" and (i is computation.root or any(u in outside for u in users[i])):
            outside.add(i)
    roots = [i for i in members if i in moved and (i is computation.root or any(u in outside for u in users[i]))]
    needed = set(roots)
    for i in reversed(computation.instructions):
        if i in needed:
            needed.update(o for o in i.operands if o in wanted)
    ordered = [i for i in computation.instructions if i in needed]
    return _Group(frozenset(moved), Outline(ordered, roots, "kCustom", "row"))


def _add_scalars(i: Instruction, wanted: set[Instruction]) -> None:
    """Add a copy of a scalar and of the scalars that it is computed from, as far as they are cheap."""
    stack = [i]
    budget = MAX_SCALARS
    while stack and budget:
        i = stack.pop()
        if i in wanted or i.shape != Shape(i.dtype):
            continue
        if i.opcode == "constant" or (is_elementwise(i.opcode) and not OPCODES[i.opcode].transcendental):
            wanted.add(i)
            stack.extend(i.operands)
            budget -= 1


def _has_cycle(computation: Computation, groups: list[_Group]) -> bool:
    """Whether the computation has a cycle once each group is one node (Kahn's algorithm)."""
    node: dict[Instruction, object] = {i: group for group in groups for i in group.members}
    reads: dict[object, set[object]] = {}
    for i in computation.instructions:
        if i not in node:
            reads[i] = {node.get(o, o) for o in i.operands}
    for group in groups:
        inside = set(group.outline.members)
        reads[group] = {node.get(o, o) for i in inside for o in i.operands if o not in inside}
    readers: dict[object, list[object]] = {}
    for reader, sources in reads.items():
        for source in sources:
            readers.setdefault(source, []).append(reader)
    waits = {n: len(sources) for n, sources in reads.items()}
    ready = [n for n, count in waits.items() if not count]
    done = 0
    while ready:
        done += 1
        for target in readers.get(ready.pop(), ()):
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return done != len(waits)
