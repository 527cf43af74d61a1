"""The errors of runs, by TensorFlow's kinds."""

from __future__ import annotations

from typing import Any

from minitensor.compat.v1.framework.instead import missing as _missing

__all__ = [
    "AlreadyExistsError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "ResourceExhaustedError",
]


class OpError(Exception):
    """What went wrong when an op ran: `op` is that op, or None, `message` the text."""

    error_code = 2

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        """`node_def`, `op`: the op, each may be None; its name and the line that made it end the message."""
        if op is not None:
            file, line = op.place
            message = f"{message}\n\t [[node {op.name} ({op.type}), made at {file}:{line}]]"
        super().__init__(message)
        self.node_def = node_def
        self.op = op
        self.message = message


class InvalidArgumentError(OpError, ValueError):
    """A value that an op can't take, or a placeholder without one."""

    error_code = 3


class NotFoundError(OpError):
    """A file, or a name in it, that isn't there."""

    error_code = 5


class AlreadyExistsError(OpError):
    """Something that was to be made and is there."""

    error_code = 6


class ResourceExhaustedError(OpError, MemoryError):
    """Memory that a run lacked."""

    error_code = 8


class FailedPreconditionError(OpError):
    """A variable that was read before it was initialised."""

    error_code = 9


__getattr__ = _missing(__name__)
