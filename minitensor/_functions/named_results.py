"""Named results of functions that give several tensors."""

from __future__ import annotations

from functools import cache
from typing import Any

from minitensor import _C


@cache
def named(op: str, fields: tuple[str, ...]) -> Any:
    """The tuple type of op's results: called with the fields' values as arguments."""
    kind = _C.result_type(op, fields)

    def made(*values: Any) -> Any:
        return kind(values)

    return made
