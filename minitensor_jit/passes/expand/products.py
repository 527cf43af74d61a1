"""Products whose result has a wider type than their operands: these are converted first."""

from __future__ import annotations

from typing import Final

from ...ir.builder import Builder
from ...ir.module import Instruction
from .rule import Rule

__all__ = ["PRODUCT_RULES"]


def _wider(b: Builder, i: Instruction) -> Instruction | None:
    if all(o.dtype == i.dtype for o in i.operands):
        return None
    operands = [o if o.dtype == i.dtype else b.convert(o, i.dtype) for o in i.operands]
    return b.emit(i.opcode, operands, dict(i.attrs))


PRODUCT_RULES: Final[dict[str, Rule]] = {"dot": _wider}
