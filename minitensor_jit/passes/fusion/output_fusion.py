"""Fuses into a product or a convolution what is done with each of its elements, while they are in the cache."""

from __future__ import annotations

from math import prod
from typing import Final

from ...ir.decision import Decision
from ...ir.infer.dot import dot_dims
from ...ir.module import Computation, Instruction
from ...ir.opcode import Trait, is_elementwise, opcodes_with
from ...ir.refusal import Refused
from ...ir.semantics.kernel_call import is_convolution
from ...ir.shape import Shape
from ...ir.size import is_one
from ..sequence_pass import SequencePass
from .fusion_decision import is_trivial
from .outline import Outline, outline

__all__ = ["OutputFusion"]

# Smaller products have faster ways without an epilogue, and stay in the cache anyway.
MIN_ELEMENTS: Final = 16384
MAX_MEMBERS: Final = 64
# How many times more elements than there are in memory make it worth finding each one when it is read.
EXPANDED: Final = 2
_MOVES: Final = opcodes_with(Trait.MOVES)


class OutputFusion(SequencePass):
    """Makes `fusion`s of kind kOutput: a dot, and a chain of elementwise operations of which each is the only reader.

    So are calls of the kernel of convolutions, whose parts are finished like a product's tiles.

    Contract: the root has the dot's type and dimensions, so that it is written over the product, tile after tile, as
    soon as a tile is done. Other operands are in memory, or are broadcasts and scalars, which are taken in. The bits
    are those of the same operations one after the other. What several products could take in goes to the last of them,
    so that products that are added up, as a weight's gradients are, each have the sum so far. With `in_registers`, for
    targets that keep tiles there, the root may have another type, values may be read by several of the chain, no
    product is too small, and an operand that shows elements of memory several times, as a matrix of windows does, is
    taken in.
    """

    name = "output-fusion"

    def __init__(self, in_registers: bool = False) -> None:
        super().__init__()
        self.in_registers = in_registers

    def _run(self, computation: Computation) -> bool:
        users = computation.users()
        order = {i: n for n, i in enumerate(computation.instructions)}
        outlines = []
        taken: set[Instruction] = set()
        for dot in reversed(computation.instructions):
            if dot.opcode == "dot":
                small = self.in_registers or _is_added(dot, users[dot])
                decision = _has_tiles(dot, 0 if small else MIN_ELEMENTS)
            elif is_convolution(dot) and not self.in_registers:
                decision = _is_large(dot, MIN_ELEMENTS)
            else:
                continue
            if not decision:
                self.refuse(dot, None, decision)
                continue
            find = self._region if self.in_registers else self._chain
            chain = find(computation, dot, users, taken)
            windows = self._windows(dot, users) if self.in_registers else set()
            if chain or windows:
                members = {dot, *chain, *windows, *(o for i in chain for o in _taken(i, chain, dot))}
                root = chain[-1] if chain else dot
                taken.update(chain)
                outlines.append(Outline(sorted(members, key=order.__getitem__), [root], "kOutput"))
        outline(computation, reversed(outlines))
        return bool(outlines)

    def _chain(
        self,
        computation: Computation,
        dot: Instruction,
        users: dict[Instruction, list[Instruction]],
        taken: set[Instruction],
    ) -> list[Instruction]:
        """What follows the dot, one after the other, up to the last that has its type; of a small one a sum alone."""
        chain: list[Instruction] = []
        last = dot
        while True:
            decision, reader = _next(computation, last, users[last], len(chain))
            if reader in taken or (chain and dot.array_shape.size < MIN_ELEMENTS):
                break
            if reader is None:
                # What ends a chain at a reader that no chain takes in is no loss.
                if not decision and (not chain or any(is_elementwise(user.opcode) for user in users[last])):
                    self.refuse(last, users[last][0] if users[last] else None, decision)
                break
            chain.append(reader)
            last = reader
        while chain and chain[-1].dtype != dot.dtype:
            chain.pop()
        return chain

    def _windows(self, dot: Instruction, users: dict[Instruction, list[Instruction]]) -> set[Instruction]:
        """What shows the product more elements than there are: a matrix of windows needs no memory then."""
        found: set[Instruction] = set()
        for operand in dot.operands:
            if operand.dtype != dot.dtype or "algorithm" in dot.attrs:
                continue  # matrix units take what lies in memory
            members: set[Instruction] = set()
            sources: set[Instruction] = set()
            pending = [operand]
            while pending:
                i = pending.pop()
                if i.opcode == "constant" and not i.dims:
                    members.add(i)
                elif i.opcode in _MOVES and (i is operand or all(u in members or u is dot for u in users[i])):
                    members.add(i)
                    pending += i.operands
                else:
                    sources.add(i)
            private = all(u is dot for u in users[operand])
            size = sum(i.array_shape.size for i in sources if not i.is_tuple)
            if private and operand in members and operand.array_shape.size >= EXPANDED * size:
                found |= members
        return found

    def _region(
        self,
        computation: Computation,
        dot: Instruction,
        users: dict[Instruction, list[Instruction]],
        taken: set[Instruction],
    ) -> list[Instruction]:
        """The elementwise instructions between the dot and the last one through which all that reads it goes."""
        reached = {dot}  # what depends on the dot
        members = [dot]
        for i in computation.instructions:
            if not any(o in reached for o in i.operands):
                continue
            reached.add(i)
            inside = [o for o in i.operands if o in reached]
            if (
                len(members) <= MAX_MEMBERS
                and i not in taken
                and isinstance(i.shape, Shape)
                and is_elementwise(i.opcode)
                and i.dims == dot.dims
                and all(o in members for o in inside)
            ):
                members.append(i)
        for root in reversed(members[1:]):
            needed, pending = {root}, [root]
            while pending:
                for o in pending.pop().operands:
                    if o in members and o not in needed:
                        needed.add(o)
                        pending.append(o)
            private = all(
                i is not computation.root and all(u in needed for u in users[i]) for i in needed if i is not root
            )
            if private:
                return [i for i in members[1:] if i in needed]
        if not _leaves(computation, dot, users[dot]):
            self.refuse(dot, users[dot][0] if users[dot] else None, _in_memory(dot))
        return []


def _is_added(dot: Instruction, readers: list[Instruction]) -> bool:
    """Whether it is added to another product, or to a sum that ends with one: no product is too small for that."""
    if len(readers) != 1 or readers[0].opcode != "add":
        return False
    others = [o for o in readers[0].operands if o is not dot]
    return any(o.opcode == "dot" or (o.opcode == "add" and any(p.opcode == "dot" for p in o.operands)) for o in others)


def _has_tiles(dot: Instruction, least: int) -> Decision:
    lb, lc, rb, rc = dot_dims(dot.attrs)
    lhs, rhs = (o.dims for o in dot.operands)
    m = prod(n for d, n in enumerate(lhs) if d not in lb and d not in lc)
    n = prod(n for d, n in enumerate(rhs) if d not in rb and d not in rc)
    if dot.dtype not in ("f32", "f64"):
        return Refused.NO_KERNEL.because(f"products of {dot.dtype} have no epilogue")
    if is_one(m) or is_one(n):
        return Refused.NO_KERNEL.because("the product of a vector has no tiles")
    return _is_large(dot, least)


def _is_large(dot: Instruction, least: int) -> Decision:
    size = dot.array_shape.size
    return Refused.LITTLE_GAINED.unless(size >= least, f"{size} elements stay in the cache between two loops", 0)


def _next(
    computation: Computation, last: Instruction, readers: list[Instruction], length: int
) -> tuple[Decision, Instruction | None]:
    if _leaves(computation, last, readers):
        return Decision.allow(), None  # it is a result, and nothing is done with it
    if last is computation.root or len(readers) != 1:
        return _in_memory(last), None
    (reader,) = readers
    if not isinstance(reader.shape, Shape) or not is_elementwise(reader.opcode) or reader.dims != last.dims:
        return Refused.OTHER_LOOP.because(f"{reader.opcode} does not work on single elements of the product"), None
    if length >= MAX_MEMBERS:
        return Refused.TOO_LARGE.because(f"the fusion has {MAX_MEMBERS} instructions already"), None
    return Decision.allow(), reader


def _leaves(computation: Computation, last: Instruction, readers: list[Instruction]) -> bool:
    return all(reader is computation.root and reader.opcode == "tuple" for reader in readers)


def _in_memory(value: Instruction) -> Decision:
    return Refused.NEEDED_IN_MEMORY.because("its value is needed in memory", value.shape.nbytes)


def _taken(i: Instruction, chain: list[Instruction], dot: Instruction) -> list[Instruction]:
    """The operands that are computed again inside: broadcasts of what is in memory, and constants."""
    found = []
    for o in i.operands:
        if o is dot or o in chain or not is_trivial(o) or o.opcode == "reshape":
            continue
        found.append(o)
        if o.opcode == "broadcast" and o.operands[0].opcode == "constant" and is_trivial(o.operands[0]):
            found.append(o.operands[0])
    return found
