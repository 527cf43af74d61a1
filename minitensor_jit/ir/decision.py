"""A yes, or a no that says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Code", "Decision"]


class Code(Protocol):
    """What kind of refusal it is."""

    @property
    def code(self) -> str:
        """A name for programs."""

    @property
    def fix(self) -> str:
        """What the user could do about it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to "may this be done?": allowed, or refused with a reason.

    It is true when allowed, so it reads like a bool in a condition; but a refusal can't lose its reason on the way to
    the person who asks for it. `a & b` is the first refusal of the two.
    """

    reason: str = ""
    """Why it was refused, as a clause without a final stop; empty when allowed."""
    why: Code | None = None
    """The kind of refusal, where those who ask tell kinds apart."""
    nbytes: int | None = None
    """How many bytes of memory traffic the refusal costs, where that was weighed."""

    @staticmethod
    def allow() -> Decision:
        """Give the answer yes."""
        return _ALLOW

    @staticmethod
    def refuse(reason: str) -> Decision:
        """Give the answer no. The reason is required: "its output's shape depends on the data"."""
        if not reason:
            raise ValueError("a refusal needs a reason")
        return Decision(reason)

    @staticmethod
    def when(condition: bool, otherwise: str) -> Decision:
        """Allow when `condition` holds, else refuse with the reason `otherwise`."""
        return _ALLOW if condition else Decision.refuse(otherwise)

    def __bool__(self) -> bool:
        return not self.reason

    def __and__(self, other: Decision) -> Decision:
        return other if self else self

    def __str__(self) -> str:
        return f"no: {self.reason}" if self.reason else "yes"


_ALLOW = Decision()
