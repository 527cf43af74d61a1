"""Functions of single elements: map, cbrt and topk's order."""

from __future__ import annotations

from typing import Final

from ...ir.builder import Builder
from ...ir.module import Computation, Instruction
from ...ir.shape import DTYPES, Shape
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


def _before(dtype: str, *, largest: bool) -> Computation:
    """The comparator of topk: of floating-point numbers the order of their bits, in which NaN is largest."""
    c = Builder("before")
    left, right, *_ = [c.parameter(Shape(d)) for d in (dtype, dtype, "s32", "s32")]
    attrs = {"direction": "GT" if largest else "LT"}
    if DTYPES[dtype].kind == "f":
        attrs["type"] = "TOTALORDER"
    return c.build_computation(c.emit("compare", (left, right), attrs))


def _topk(b: Builder, i: Instruction) -> Instruction:
    """A sort of the elements with their positions, cut off."""
    x, k = i.operands[0], i.attrs["k"]
    last = len(x.dims) - 1
    places = b.iota(x.array_shape.with_dtype("s32"), last)
    both = b.sort((x, places), last, _before(x.dtype, largest=bool(i.attrs["largest"])))
    limits = (*x.dims[:-1], k)
    parts = [b.slice(b.get_tuple_element(both, n), (0,) * len(limits), limits) for n in range(2)]
    return b.tuple(*parts)


SCALAR_RULES: Final[dict[str, Rule]] = {"map": _map, "cbrt": _cbrt, "topk": _topk}
