"""Named results of ops that give several tensors."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any


@cache
def named(op: str, fields: tuple[str, ...]) -> Any:
    """The tuple type of op's results."""
    return namedtuple(op, fields, module="minitensor.return_types")
