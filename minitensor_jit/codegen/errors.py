"""What the code generator raises when it cannot compile something."""

from __future__ import annotations

from ..errors import JitError

__all__ = ["CompileError"]


class CompileError(JitError):
    """An opcode, dtype or form that this target has no code for. The caller runs the cluster eagerly instead."""

    def __init__(self, opcode: str, reason: str) -> None:
        super().__init__(f"{opcode}: {reason}")
        self.opcode = opcode
        self.reason = reason
