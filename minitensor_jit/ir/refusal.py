"""What passes and code generation leave as it is: what, beside what, and why.

Noting one costs a tuple, so that every compilation can; places in the program and costs are worked out for who asks.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from .decision import Decision
from .module import Instruction

__all__ = ["Refusal", "Refused"]


class Refused(enum.Enum):
    """The kinds of refusals: a code, and what the user could do."""

    NEEDED_IN_MEMORY = (
        "needed-in-memory",
        "let go of the tensor before values are asked for, if the program keeps it; else let only elementwise ops and "
        "reductions read it, since what sorts, gathers or multiplies matrices reads memory",
    )
    COMPUTED_AGAIN = (
        "computed-again",
        "give all that reads it one shape, so that it is one loop that computes it once; or apply the op to what was "
        "expanded already, or after the parts are joined",
    )
    OTHER_LOOP = (
        "other-loop",
        "keep elements in their order between the two: reshape, transpose or flip before or after both, and reduce the "
        "last dimensions",
    )
    LITTLE_GAINED = (
        "little-gained",
        "nothing: it is as fast alone. With other sizes the answer may be another",
    )
    TOO_LARGE = (
        "too-large",
        "make one of many: `stack` what is done alike to many tensors, and let loops have fewer iterations",
    )
    CYCLE = (
        "cycle",
        "compute what stands between them before both or after both",
    )
    CACHE = (
        "cache",
        "work on shorter rows, such as x.reshape(-1, n), where the sense of the program allows it",
    )
    FEW_ROWS = (
        "few-rows",
        "work on more rows at a time: 8 are enough for threads to share them",
    )
    NO_KERNEL = (
        "no-kernel",
        "multiply matrices of float32 or float64 rather than vectors or other dtypes; let a reduction be a sum, "
        "product, maximum or minimum",
    )
    OTHER_LAYOUT = (
        "other-layout",
        "keep the operand in memory in the order in which the product reads it, batch dimensions first: "
        "x.transpose(...).contiguous() once, before the loop",
    )
    SIZES_VARY = (
        "sizes-vary",
        "call it with one size, or set --dynamic_shapes=false to have code for each",
    )
    UNKNOWN_TRIP_COUNT = (
        "unknown-trip-count",
        "let the number of iterations follow from Python numbers, not from tensors",
    )
    EFFECTS = (
        "effects",
        "take it out of the loop: it may be another in every iteration",
    )
    OTHER_EXCHANGE = (
        "other-exchange",
        "let collectives that follow each other have one group, one reduction and one dtype",
    )
    NOT_ROUNDED = (
        "not-rounded",
        "convert the operands of the product to float32 or float64",
    )
    MAY_FAIL = (
        "may-fail",
        "let no op beside the write raise errors: divide floating-point numbers rather than integers",
    )
    READ_LATER = (
        "read-later",
        "read the old contents before the op that writes them, in ops that are compiled with it",
    )
    OTHER_PLACE = (
        "other-place",
        "write to another tensor, or let each element depend on its own place only",
    )

    def __init__(self, code: str, fix: str) -> None:
        self.code = code
        self.fix = fix

    def because(self, reason: str, nbytes: Any = None) -> Decision:
        """Refuse with a reason, at the cost of so many bytes of memory traffic."""
        return Decision(reason, self, nbytes)

    def unless(self, condition: bool, reason: str, nbytes: Any = None) -> Decision:
        """Allow when `condition` holds, else refuse."""
        return Decision.allow() if condition else Decision(reason, self, nbytes)


class Refusal(NamedTuple):
    """That an instruction was left as it is; beside another one, if it is about two."""

    what: Instruction
    into: Instruction | None
    decision: Decision

    def __str__(self) -> str:
        names = self.what.name if self.into is None else f"{self.what.name} into {self.into.name}"
        return f"{names}: {self.decision}"
