"""Rules that move reshapes and transposes behind elementwise operations.

There they meet others and cancel, or come to a dot, which reads through them; and the operation is done in the order
in which its operands lie in memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...ir.module import Instruction
from .rewriter import ELEMENTWISE, Rewriter, Rule

__all__ = ["RULES"]


def _moved(i: Instruction, r: Rewriter, opcode: str) -> list[Instruction] | None:
    """The operands that are moved alike by `opcode`, and scalars that are repeated; None if there are others."""
    how: set[Hashable] = set()
    moved: list[Instruction] = []
    for x in i.operands:
        if x.opcode == opcode:
            # Somebody else's value would then be moved twice.
            if r.uses.get(x) != sum(o is x for o in i.operands):
                return None
            how.add((x.operands[0].dims, x.attrs.get("dimensions")))
            moved.append(x)
        elif x.opcode != "broadcast" or x.operands[0].dims != ():
            return None
    return moved if len(how) == 1 else None


def _on_sources(i: Instruction, r: Rewriter, dims: Sequence[int]) -> Instruction:
    sources = [r.broadcast(x.operands[0], dims, ()) if x.opcode == "broadcast" else x.operands[0] for x in i.operands]
    return r.emit(i.opcode, sources, dict(i.attrs), i.array_shape.with_dims(tuple(dims)))


def _operation_of_transposes(i: Instruction, r: Rewriter) -> Instruction | None:
    moved = _moved(i, r, "transpose")
    if moved is None:
        return None
    return r.transpose(_on_sources(i, r, moved[0].operands[0].dims), moved[0].attrs["dimensions"])


def _operation_of_reshapes(i: Instruction, r: Rewriter) -> Instruction | None:
    moved = _moved(i, r, "reshape")
    # Dimensions of size one are left to the rules that do away with them.
    if moved is None or 1 in i.dims or 1 in moved[0].operands[0].dims:
        return None
    return r.reshape(_on_sources(i, r, moved[0].operands[0].dims), i.dims)


RULES: tuple[Rule, ...] = (
    Rule(
        "operation-of-transposes",
        ELEMENTWISE,
        _operation_of_transposes,
        "op(transpose(x), ...) is transpose(op(x, ...))",
    ),
    Rule("operation-of-reshapes", ELEMENTWISE, _operation_of_reshapes, "op(reshape(x), ...) is reshape(op(x, ...))"),
)
