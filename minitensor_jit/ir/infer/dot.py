"""The shape rule of dot, and its dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ..shape import AnyShape, Shape
from .checks import Attrs, accumulated, distinct, wrong

__all__ = ["dot_dims", "infer_dot"]


def dot_dims(attrs: Attrs) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(lhs batch, lhs contracting, rhs batch, rhs contracting) dimensions of a dot."""
    keys = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    a, b, c, d = (tuple(attrs.get(key, ())) for key in keys)
    return a, b, c, d


def infer_dot(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    """The batch dimensions, then those of lhs and of rhs that aren't contracted."""
    lhs, rhs = shapes
    lb, lc, rb, rc = dot_dims(attrs)
    if lhs.dtype != rhs.dtype:
        wrong(f"dot of {lhs} and {rhs}: types must be equal")
    if len(lb) != len(rb) or len(lc) != len(rc):
        wrong("dot: lhs and rhs need equally many batch and equally many contracting dimensions")
    distinct("dot lhs", (*lb, *lc), lhs.rank)
    distinct("dot rhs", (*rb, *rc), rhs.rank)
    for what, left, right in (("batch", lb, rb), ("contracting", lc, rc)):
        for a, b in zip(left, right, strict=True):
            if lhs.dims[a] != rhs.dims[b]:
                wrong(f"dot of {lhs} and {rhs}: {what} dimensions {a} and {b} have different sizes")
    batch = tuple(lhs.dims[d] for d in lb)
    left_free = tuple(n for d, n in enumerate(lhs.dims) if d not in lb and d not in lc)
    right_free = tuple(n for d, n in enumerate(rhs.dims) if d not in rb and d not in rc)
    return accumulated("dot", lhs, declared).with_dims(batch + left_free + right_free)
