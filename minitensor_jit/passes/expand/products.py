"""Products whose result has a wider type than their operands, which are converted first, and those of preds."""

from __future__ import annotations

from typing import Final

from ...ir.builder import Builder
from ...ir.module import Instruction
from .rule import Rule

__all__ = ["PRODUCT_RULES"]


def _wider(b: Builder, i: Instruction) -> Instruction | None:
    if all(o.dtype == i.dtype for o in i.operands):
        return None
    if i.dtype == "pred":
        return None
    operands = [o if o.dtype == i.dtype else b.convert(o, i.dtype) for o in i.operands]
    return b.emit(i.opcode, operands, dict(i.attrs))


def _any(b: Builder, i: Instruction) -> Instruction | None:
    """A product of preds is true where any of its terms is: where their number is not zero."""
    if i.dtype != "pred":
        return None
    count = b.emit("dot", [b.convert(o, "s32") for o in i.operands], dict(i.attrs))
    return b.compare(count, b.full(count.array_shape, 0), "NE")


def _dot(b: Builder, i: Instruction) -> Instruction | None:
    return _any(b, i) or _wider(b, i)


PRODUCT_RULES: Final[dict[str, Rule]] = {"dot": _dot}
