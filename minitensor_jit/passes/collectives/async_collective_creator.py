"""Makes a start and an end of an all-reduce, between which other code runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.decision import Decision
from ...ir.module import Computation, Instruction
from ...ir.opcode import Trait, opcodes_with
from ...ir.refusal import Refused
from ...ir.size import hint
from ..sequence_pass import SequencePass
from .all_reduce_combiner import MAX_BYTES

__all__ = ["AsyncCollectiveCreator"]

_NOT_RUN = opcodes_with(Trait.FREE | Trait.FORWARDS)


class AsyncCollectiveCreator(SequencePass):
    """Makes `all-reduce-start` and `all-reduce-done` of an all-reduce between processes, if others' code can run then.

    Contract: the same exchanges in the same order, with the same values. What read the result reads that of the end.
    Only what was there for the order alone, the barrier before the next collective, waits for the start.
    What is small is awaited at once: it has arrived sooner than another thread would have begun with it.
    """

    name = "async-collective-creator"

    def _run(self, computation: Computation) -> bool:
        candidates = [i for i in computation.instructions if i.opcode == "all-reduce"]
        if not candidates:
            return False
        users = computation.users()
        changed = False
        for i in candidates:
            decision = _suits(i) and _overlaps(computation, i, users)
            if not decision:
                self.refuse(i, None, decision)
                continue
            _split(computation, i, users)
            users = computation.users()
            changed = True
        if changed:
            computation.make_names_unique()
        return changed


def _suits(i: Instruction) -> Decision:
    if "process_group" not in i.attrs.get("frontend_attributes", ""):
        return Refused.OTHER_EXCHANGE.because("it is no exchange between processes", 0)
    if i.is_tuple:
        return Refused.LITTLE_GAINED.because("it has several small operands, which go together", 0)
    nbytes = hint(i.array_shape.nbytes)
    return Refused.LITTLE_GAINED.unless(nbytes > MAX_BYTES, f"it moves {nbytes} bytes, which is awaited at once", 0)


def _overlaps(computation: Computation, i: Instruction, users: dict[Instruction, list[Instruction]]) -> Decision:
    """Whether there is code that neither needs the result nor is needed for it."""
    near = _closure(i.operands, lambda x: x.operands) | _closure(_waiting(i, users)[1], lambda x: users.get(x, ()))
    free = (x for x in computation.instructions if x is not i and x not in near and x.opcode not in _NOT_RUN)
    return Refused.CYCLE.unless(any(free), "all other code waits for it, or it for that", 0)


def _closure(
    first: Iterable[Instruction], following: Callable[[Instruction], Iterable[Instruction]]
) -> set[Instruction]:
    found: set[Instruction] = set()
    todo = list(first)
    while todo:
        i = todo.pop()
        if i not in found:
            found.add(i)
            todo += following(i)
    return found


def _waiting(
    i: Instruction, users: dict[Instruction, list[Instruction]]
) -> tuple[list[Instruction], list[Instruction]]:
    """Who only waits for an instruction, as a member of a barrier whose result nobody reads; and who reads it."""
    waits: list[Instruction] = []
    reads: list[Instruction] = []
    for user in users.get(i, ()):
        barriers = users.get(user, ())
        waiting = user.opcode == "tuple" and bool(barriers) and all(b.opcode == "opt-barrier" for b in barriers)
        places = {k for k, o in enumerate(user.operands) if o is i}
        elements = [x for b in barriers for x in users.get(b, ())]
        if waiting and all(x.opcode == "get-tuple-element" and x.attrs["index"] not in places for x in elements):
            waits.append(user)
        else:
            reads.append(user)
    return waits, reads


def _split(computation: Computation, i: Instruction, users: dict[Instruction, list[Instruction]]) -> None:
    start = Instruction(f"{i.name}.start", "all-reduce-start", i.shape, i.operands, i.attrs, metadata=i.metadata)
    group = {"frontend_attributes": i.attrs["frontend_attributes"]}
    done = Instruction(i.name, "all-reduce-done", i.shape, (start,), group, metadata=i.metadata)
    for user in _waiting(i, users)[0]:
        user.operands = [start if o is i else o for o in user.operands]
    place = computation.instructions.index(i)
    computation.instructions[place : place + 1] = [start, done]
    computation.replace_uses({i: done})
