"""Reductions of everything whose elements are not read one after the other."""

from __future__ import annotations

from typing import Final

from ..module import Instruction
from ..opcode import is_elementwise
from ..size import hint

__all__ = ["reduces_scattered"]

# From so many elements on they are read faster from a copy in order.
FEWEST: Final = 4096
MOST_VISITED: Final = 64


def reduces_scattered(reduce: Instruction) -> bool:
    """Whether a reduce of all of a large array is one of what lies here and there in operands.

    A row is added up in a fixed order, whichever dimensions it consists of, so each vector of it would be put together
    of several places. A loop that computes what is reduced goes along these places instead.
    """
    x = reduce.operands[0]
    if len(x.dims) < 2 or len(reduce.attrs["dimensions"]) != len(x.dims) or hint(x.array_shape.size) < FEWEST:
        return False
    seen = {x}
    stack = [x]
    while stack and len(seen) <= MOST_VISITED:
        i = stack.pop()
        if _is_scattered(i):
            return True
        if is_elementwise(i.opcode) or i.opcode == "reshape":
            stack.extend(o for o in i.operands if o not in seen)
            seen.update(i.operands)
    return False


def _is_scattered(i: Instruction) -> bool:
    """Whether its elements, one after the other, lie here and there in the operand."""
    if i.opcode == "slice":
        cut = [d for d, (n, of) in enumerate(zip(i.dims, i.operands[0].dims, strict=True)) if n != of]
        return any(step != 1 for _, _, step in i.attrs["slice"]) or any(d != 0 for d in cut)
    if i.opcode == "broadcast":
        # A number, a row for all rows, or a number for each row.
        rank, along = len(i.dims), tuple(i.attrs["dimensions"])
        return along not in (tuple(range(len(along))), tuple(range(rank - len(along), rank)))
    return i.opcode in ("transpose", "reverse")
