"""A fusion in the making: its instructions, what it costs to compute them there, and what may join."""

from __future__ import annotations

from typing import Final, TypeAlias

from ...ir.analysis.scattered import reduces_scattered
from ...ir.analysis.window_updates import begins_as_parameter
from ...ir.decision import Decision
from ...ir.module import Instruction
from ...ir.opcode import OPCODES, Trait, is_elementwise, opcodes_with
from ...ir.refusal import Refused
from ...ir.shape import Shape
from ...ir.size import hint

__all__ = ["Group", "is_expensive", "is_loop", "is_trivial"]

MAX_MEMBERS: Final = 256
MAX_OPERANDS: Final = 64
# How many operations a fusion may compute more often than they have elements.
MAX_REPEATED: Final = 8
# Under how many different conditions a member's code may be repeated: it doubles with every update of an update.
MAX_CONDITIONS: Final = 8
# From so many bytes on an array is out of a core's cache when it is read again, and its memory is worth having back.
MIN_KEPT_BYTES: Final = 1 << 20
# From so many bytes on several such arrays are out of the last cache as well: writing one and reading it again takes as
# long as computing a polynomial of each element twice. From the last cache it takes a fraction of that.
MIN_RECOMPUTED_BYTES: Final = 8 << 20
# How often an element may be computed that comes from one operand or another: each time both are at hand, and a choice.
MAX_CHOICES: Final = 4
# Sharing fewer bytes than this is no reason to merge two loops.
MIN_SHARED_BYTES: Final = 1024

_PER_ELEMENT: Final = opcodes_with(Trait.PER_ELEMENT)
_CHOOSES: Final = opcodes_with(Trait.CHOOSES)


Conditions: TypeAlias = tuple[tuple[Instruction, int], ...]
"""That each of these instructions needs that operand for the element at hand."""


def is_loop(i: Instruction) -> bool:
    """Whether an element of the result can be computed by itself, in a loop with others."""
    return isinstance(i.shape, Shape) and (i.opcode in _PER_ELEMENT or is_elementwise(i.opcode))


def is_trivial(i: Instruction) -> bool:
    """Whether reading the result from memory costs more than computing it."""
    return i.opcode in ("broadcast", "iota", "reshape") or (i.opcode == "constant" and i.array_shape.size == 1)


def is_expensive(i: Instruction) -> bool:
    """Whether an element costs more than a few reads from memory."""
    return OPCODES[i.opcode].transcendental or i.opcode == "gather"


def is_polynomial(i: Instruction) -> bool:
    """Whether it is expensive, but no more than a polynomial in registers."""
    row = OPCODES[i.opcode]
    return row.transcendental and row.kind == "unary"


def is_arithmetic(i: Instruction) -> bool:
    """Whether it computes something rather than moving it."""
    return is_elementwise(i.opcode) and i.opcode not in ("copy", "bitcast-convert")


def _joins_many(i: Instruction) -> bool:
    """Whether it puts so many arrays together that each is written by a loop of its own."""
    return i.opcode == "concatenate" and len(i.operands) > MAX_CHOICES


def _widens(i: Instruction) -> bool:
    """Whether its operand takes less memory."""
    return i.opcode == "convert" and i.operands[0].array_shape.itemsize < i.array_shape.itemsize


class Group:
    """The members of one fusion. The first root made it; others come by merging.

    `reads` are values from outside. `dims` is what its loops run over: the dimensions of the outputs, or of the inputs
    for a reduction. A member is aligned if each iteration computes one element of it, at the iteration's own index.
    `evaluations` estimates how often a member is computed, `conditions` says in which branches of the code.
    """

    __slots__ = (
        "aligned",
        "conditions",
        "dims",
        "evaluations",
        "kind",
        "loops",
        "members",
        "reads",
        "reads_in_order",
        "recomputed",
        "repeated",
        "roots",
        "size",
        "takes_no_others",
        "window",
    )

    def __init__(self, root: Instruction, kind: str) -> None:
        self.kind = kind
        self.roots = [root]
        self.members: set[Instruction] = {root}
        shape = root.operands[0].array_shape if kind == "kInput" else root.array_shape
        self.dims = shape.dims
        reduced = tuple(sorted(root.attrs["dimensions"])) if kind == "kInput" else ()
        self.loops = (kind, shape.dims, reduced)  # groups with the same loops may be merged
        self.reads_in_order = kind == "kInput" and reduces_scattered(root)
        self.reads: set[Instruction] = set(root.operands)
        self.size = shape.size
        self.aligned: set[Instruction] = {root}
        self.evaluations: dict[Instruction, int] = {root: self.size}
        self.conditions: dict[Instruction, set[Conditions]] = {root: {()}}
        self.repeated = 0
        self.window = root.opcode == "dynamic-update-slice" and begins_as_parameter(root)
        """Whether it replaces a window of a parameter. Written over that, it writes the window only: then all else that
        is read has to be read before, since it may lie in the same memory."""
        self.takes_no_others = self.window or _joins_many(root)
        """Whether its loops are others than one over all elements."""
        self.recomputed: Instruction | None = None
        """The expensive member that another fusion computes as well."""

    # ---- one more member

    def _reading(self, p: Instruction, users: list[Instruction]) -> tuple[bool, int]:
        """Whether p is aligned, and how often it is computed, as a member.

        Code generation computes what an inner loop does not change outside of it: a scalar once, and what is broadcast
        along inner dimensions once for each of its elements.
        """
        size = p.array_shape.size
        aligned, count = True, 0
        for user in users:
            if user not in self.members:
                continue
            if (
                user in self.aligned
                and (is_elementwise(user.opcode) or user.opcode == "reduce")
                and p.dims == self.dims
            ):
                continue
            aligned = False
            leading = user.opcode == "broadcast" and tuple(user.attrs["dimensions"]) == tuple(range(len(p.dims)))
            outside = size == 1 or (leading and self.kind == "kLoop" and user in self.aligned and not is_expensive(p))
            count += size if outside else self.evaluations[user]
        if aligned:
            return True, self.size
        return False, size if size == 1 else min(count, 1 << 62)

    def _conditions(self, p: Instruction, users: list[Instruction]) -> set[Conditions]:
        """Under which conditions p is computed: those of its users, and that the user needs it where it may not."""
        found: set[Conditions] = set()
        for user in users:
            if user not in self.members:
                continue
            for place, operand in enumerate(user.operands):
                if operand is not p:
                    continue
                if user.opcode not in _CHOOSES or (user.opcode == "dynamic-update-slice" and place == 0):
                    found |= self.conditions[user]
                else:
                    found |= {(*c, (user, place)) for c in self.conditions[user]}
        return found

    def accepts(self, p: Instruction, users: list[Instruction]) -> Decision:
        """Whether p, read by members only at their own cost, may be computed inside."""
        if len(self.members) >= MAX_MEMBERS:
            return Refused.TOO_LARGE.because(f"the fusion has {MAX_MEMBERS} instructions already")
        if len(self.reads) + len(p.operands) > MAX_OPERANDS and len(self.reads.union(p.operands)) > MAX_OPERANDS:
            return Refused.TOO_LARGE.because(f"the fusion would read more than {MAX_OPERANDS} arrays")
        if is_trivial(p):
            return Decision.allow()
        if self.window:
            return Refused.LITTLE_GAINED.because(
                "the window of an array that may be written in place is computed first"
            )
        if self.reads_in_order and not _widens(p):
            return Refused.OTHER_LOOP.because("all of it is reduced, one element after the other", p.shape.nbytes)
        if _joins_many(p):
            why = f"each element would be looked for among {len(p.operands)} arrays"
            return Refused.COMPUTED_AGAIN.because(why, p.shape.nbytes)
        conditions = self._conditions(p, users)
        if len(conditions) > MAX_CONDITIONS:
            return Refused.COMPUTED_AGAIN.because(f"its code would be repeated under {len(conditions)} conditions")
        aligned, count = self._reading(p, users)
        size = p.array_shape.size
        if not aligned and count > size:
            if is_expensive(p):
                return Refused.COMPUTED_AGAIN.because(
                    f"it is expensive and would be computed {count} times for {size} elements"
                )
            if p.opcode in _CHOOSES and count > MAX_CHOICES * size:
                return Refused.COMPUTED_AGAIN.because(f"its elements would be chosen {count} times for {size} elements")
            if is_arithmetic(p) and self.repeated >= MAX_REPEATED:
                return Refused.COMPUTED_AGAIN.because(f"{MAX_REPEATED} operations are repeated in the fusion already")
        if is_expensive(p) and any(u.opcode in _CHOOSES for u in users if u in self.members):
            return Refused.COMPUTED_AGAIN.because("it is expensive and would be computed where it is not used")
        return Decision.allow()

    def add(self, p: Instruction, users: list[Instruction]) -> None:
        """Take p in."""
        aligned, count = self._reading(p, users)
        self.conditions[p] = self._conditions(p, users)
        self.members.add(p)
        self.reads.update(o for o in p.operands if o not in self.members)
        self.reads.discard(p)
        self.evaluations[p] = count
        if aligned:
            self.aligned.add(p)
        elif count > p.array_shape.size and is_arithmetic(p):
            self.repeated += 1

    @staticmethod
    def _recomputes(p: Instruction, targets: list[Group]) -> bool:
        """Whether two consumers may each compute an expensive p: one such p a fusion, of a large array."""
        large = isinstance(p.shape, Shape) and hint(p.shape.nbytes) >= MIN_RECOMPUTED_BYTES
        return len(targets) == 2 and large and is_polynomial(p) and all(g.recomputed is None for g in targets)

    @staticmethod
    def duplication(p: Instruction, targets: list[Group]) -> Decision:
        """Whether computing p in each of several groups is cheaper than writing it once and reading it."""
        copies = len(targets)
        if copies == 1 or is_trivial(p):
            return Decision.allow()
        if is_expensive(p) and not Group._recomputes(p, targets):
            return Refused.COMPUTED_AGAIN.because(f"it is expensive and has {copies} consumers")
        # Bytes moved with p in memory: its operands once, p written once and read by each consumer.
        reads = sum(o.shape.nbytes for o in set(p.operands))
        nbytes = p.array_shape.nbytes
        materialised = reads + nbytes * (1 + copies)
        inline = sum(sum(o.shape.nbytes for o in set(p.operands) if o not in g.reads) for g in targets)
        # Storing it is cheaper: nothing is lost.
        return Refused.COMPUTED_AGAIN.unless(
            inline <= materialised,
            f"computing it in {copies} consumers would read {inline} bytes, storing it moves {materialised}",
            0,
        )

    # ---- several outputs

    def shares(self, other: Group) -> Decision:
        """Whether merging with a group of the same loops saves memory traffic."""
        if any(root.is_tuple for root in (*self.roots, *other.roots)):
            return Refused.NO_KERNEL.because("one of them gives a tuple")
        if self.takes_no_others or other.takes_no_others:
            return Refused.LITTLE_GAINED.because("one writes the parts of its result by loops of their own")
        if len(self.members) + len(other.members) > MAX_MEMBERS:
            return Refused.TOO_LARGE.because("the fusion would be too large")
        mine, theirs = self.reads, other.reads
        if len(mine | theirs) > MAX_OPERANDS:
            return Refused.TOO_LARGE.because(f"the fusion would read more than {MAX_OPERANDS} arrays")
        reading = False
        for producer, consumer, reads in ((self, other, theirs), (other, self, mine)):
            for root in producer.roots:
                if root not in reads:
                    continue
                if consumer.kind == "kInput":
                    return Refused.OTHER_LOOP.because("one reduces the other's result", root.shape.nbytes)
                users = [u for u in consumer.members if root in u.operands]
                if not all(u in consumer.aligned and is_elementwise(u.opcode) for u in users):
                    return Refused.OTHER_LOOP.because("it is not read at the iteration's own index", root.shape.nbytes)
                reading = True
        if reading:
            return Decision.allow()
        shared = sum(o.shape.nbytes for o in mine & theirs)
        shared += sum(m.array_shape.nbytes for m in self.members & other.members if not is_trivial(m))
        smallest = min(sum(r.shape.nbytes for r in g.roots) for g in (self, other))
        return Refused.LITTLE_GAINED.unless(
            shared >= min(MIN_SHARED_BYTES, max(smallest, 1)), f"they share only {shared} bytes of input", shared
        )

    def computes(self, other: Group) -> bool:
        """Whether the other loop's output costs next to nothing here: it's made of what is read and computed anyway."""
        return (
            self.loops == other.loops
            and not (self.takes_no_others or other.takes_no_others)
            and other.reads <= self.reads
            and all(m in self.members for m in other.members if is_expensive(m))
            and len(self.members | other.members) <= MAX_MEMBERS
        )

    def merge(self, other: Group) -> None:
        """Take in the members and roots of a group of the same loops."""
        self.members |= other.members
        self.reads = (self.reads | other.reads) - self.members
        self.roots += other.roots
        self.aligned |= other.aligned
        for member, count in other.evaluations.items():
            self.evaluations[member] = max(self.evaluations.get(member, 0), count)
        for member, conditions in other.conditions.items():
            self.conditions[member] = self.conditions.get(member, set()) | conditions
        self.repeated += other.repeated
        self.recomputed = self.recomputed or other.recomputed
