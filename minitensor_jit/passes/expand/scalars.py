"""Functions of single elements: map and cbrt."""

from __future__ import annotations

from typing import Final

from ...ir.builder import Builder
from ...ir.module import Instruction
from .rule import Rule, inline

__all__ = ["SCALAR_RULES"]


def _map(b: Builder, i: Instruction) -> Instruction:
    """A function of scalars is one of arrays."""
    root = inline(b, i.attrs["to_apply"], i.operands)
    return root if root.dims == i.dims else b.broadcast(root, i.dims)


def _cbrt(b: Builder, i: Instruction) -> Instruction:
    """|x| to the third in double precision, one step of Newton's method, and the sign of x."""
    x = i.operands[0]
    wide = x if x.dtype == "f64" else b.convert(x, "f64")
    shape = wide.array_shape
    size = b.abs(wide)
    root = b.power(size, b.full(shape, 1 / 3))
    square = b.multiply(root, root)
    step = b.divide(b.subtract(b.multiply(square, root), size), b.multiply(b.full(shape, 3.0), square))
    # Zeros, infinities and NaN are their own roots.
    usual = b.and_(b.is_finite(size), b.compare(size, b.full(shape, 0.0), "GT"))
    size = b.select(usual, b.subtract(root, step), size)
    signed = b.select(b.compare(wide, b.full(shape, 0.0), "LT"), b.negate(size), b.select(usual, size, wide))
    return signed if x.dtype == "f64" else b.convert(signed, x.dtype)


SCALAR_RULES: Final[dict[str, Rule]] = {"map": _map, "cbrt": _cbrt}
