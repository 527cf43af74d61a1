"""Elementwise loops as the same code for any number of elements.

A computation is *flat* if every element of its results is computed from those at its own place in memory and from
scalars. What it does then depends neither on the dimensions nor on how many elements there are: loops with equal keys
can share their code, and run as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from ..module import Computation, Instruction
from ..opcode import Trait, is_elementwise, opcodes_with
from ..shape import Shape, TupleShape
from .fingerprint import line_key

__all__ = ["ANY_SIZE", "FlatPart", "flat_part", "flat_parts"]

# Stands for the number of elements, which code learns when it runs.
ANY_SIZE: Final = 1 << 30
# They show an array in the same order.
_SAME_ORDER: Final = opcodes_with(Trait.SAME_ORDER)


@dataclass(frozen=True, slots=True)
class FlatPart:
    """A flat computation of more than one element, or a part of one that shares nothing with the others."""

    size: int
    parameters: tuple[int, ...]
    """The numbers of those that it reads, in the order in which it does."""
    results: tuple[int, ...]
    """The numbers of the computation's results that it gives."""
    instructions: tuple[Instruction, ...]
    """What it computes, without parameters, tuples, and other names for an array."""
    key: Hashable
    """Parts with the same key do the same to each element, with their parameters and results in their order."""

    def flattened(self, whole: Computation) -> Computation:
        """The part as a computation of its own, on one dimension of any size."""
        given, roots = whole.parameters, whole.roots
        mapping: dict[Instruction, Instruction] = {}
        for k, number in enumerate(self.parameters):
            old = given[number]
            mapping[old] = Instruction(old.name, "parameter", _any_size(old), parameter_number=k)
        for i in self.instructions:
            copy = i.clone([mapping[_source(o)] for o in i.operands])
            copy.shape = _any_size(i)
            mapping[i] = copy
        made = [mapping[_source(roots[n])] for n in self.results]
        every = list(mapping.values())
        if len(made) > 1:
            every.append(Instruction("outputs", "tuple", TupleShape(tuple(r.shape for r in made)), made))
        return Computation(whole.name, every, every[-1] if len(made) > 1 else made[0])


def flat_part(computation: Computation) -> FlatPart | None:
    """The computation as one part; None if it is not flat, or has one element."""
    body = [i for i in computation.instructions if i.opcode not in ("parameter", "tuple")]
    return _part(computation.roots, range(len(computation.roots)), body)


def flat_parts(computation: Computation) -> list[FlatPart]:
    """The flat parts of a computation with several results, if they all have one key; otherwise none."""
    roots = computation.roots
    if len(roots) < 2:
        return []
    # Whatever reads the same instruction belongs together.
    leader: dict[Instruction, Instruction] = {}

    def find(i: Instruction) -> Instruction:
        while leader[i] is not i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    for i in computation.instructions:
        if i.opcode in ("parameter", "tuple"):
            continue
        leader[i] = i
        for o in i.operands:
            if o.opcode != "parameter":
                if o not in leader:
                    return []
                leader[find(o)] = i
    if any(r not in leader for r in roots):
        return []
    members: dict[Instruction, list[Instruction]] = {}
    for i in leader:
        members.setdefault(find(i), []).append(i)
    results: dict[Instruction, list[int]] = {}
    for n, r in enumerate(roots):
        results.setdefault(find(r), []).append(n)
    if len(results) < 2 or len(results) != len(members):
        return []
    found: list[FlatPart] = []
    for one, numbers in results.items():
        part = _part(roots, numbers, members[one])
        if part is None or (found and part.key != found[0].key):
            return []
        found.append(part)
    return found


def _part(roots: Sequence[Instruction], results: Sequence[int], body: Sequence[Instruction]) -> FlatPart | None:
    mine = [roots[n] for n in results]
    size = mine[0].shape.size if isinstance(mine[0].shape, Shape) else 0
    if size < 2 or any(not isinstance(r.shape, Shape) or r.shape.size != size for r in mine):
        return None
    numbers: dict[Instruction, tuple[str, int]] = {}
    read: list[Instruction] = []
    kept: list[Instruction] = []
    lines: list[Hashable] = []
    for i in body:
        if not _fits(i, size):
            return None
        if i.opcode in _SAME_ORDER:
            continue
        for o in map(_source, i.operands):
            if o.opcode == "parameter" and o not in numbers:
                if not _fits(o, size):
                    return None
                numbers[o] = ("parameter", len(read))
                read.append(o)
        operands = tuple([numbers[_source(o)] for o in i.operands])
        lines.append((line_key(i), i.array_shape.dtype, i.dims == (), operands))
        numbers[i] = ("line", len(kept))
        kept.append(i)
    if any(_source(r) not in numbers for r in mine):
        return None  # a parameter as it is
    key = (
        tuple([(p.dtype, p.dims == ()) for p in read]),
        tuple(lines),
        tuple([numbers[_source(r)] for r in mine]),
    )
    return FlatPart(size, tuple(p.parameter_number or 0 for p in read), tuple(results), tuple(kept), key)


def _fits(i: Instruction, size: int) -> bool:
    """Whether an instruction is a scalar, or one element of it is computed from those at the same place."""
    if not isinstance(i.shape, Shape) or (i.dims and i.shape.size != size):
        return False
    if i.opcode == "broadcast":
        return i.operands[0].dims == ()
    if i.opcode == "constant":
        return i.dims == ()
    if i.opcode in _SAME_ORDER:
        return i.dims != () and i.operands[0].dims != () and i.operands[0].dtype == i.dtype
    return i.opcode == "parameter" or is_elementwise(i.opcode)


def _source(i: Instruction) -> Instruction:
    while i.opcode in _SAME_ORDER:
        i = i.operands[0]
    return i


def _any_size(i: Instruction) -> Shape:
    return i.array_shape.with_dims((ANY_SIZE,)) if i.dims else i.array_shape
