"""The operands of a dot as batches of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from ..infer.dot import dot_dims
from ..module import Instruction
from ..shape import Shape, strides_of

__all__ = ["BLOCK_K", "Matrix", "matrix_of", "product_sizes"]

# The length of a block of the sum over k, `kGemmBlockK` in `csrc/runtime/products/gemm.h`.
BLOCK_K: Final = 512


@dataclass(frozen=True)
class Matrix:
    """One operand as a batch of matrices: strides of the batch, the free and the contracted dimensions."""

    batch: int
    free: int
    contracted: int


def _merged(dims: Sequence[int], strides: Sequence[int], group: Sequence[int]) -> int | None:
    """The one stride with which all dimensions of the group are walked in order, or None if there is no such stride."""
    stride, below = 0, 1
    for d in reversed(group):
        if dims[d] == 1:
            continue
        if not stride:
            stride, below = strides[d], strides[d] * dims[d]
        elif strides[d] == below:
            below *= dims[d]
        else:
            return None
    return stride


def matrix_of(shape: Shape, batch: Sequence[int], free: Sequence[int], contracted: Sequence[int]) -> Matrix | None:
    """The operand without a copy, or None if a group of dimensions can't be walked with one stride."""
    strides = strides_of(shape.dims)
    found = [_merged(shape.dims, strides, group) for group in (batch, free, contracted)]
    if any(s is None for s in found):
        return None
    return Matrix(*found)  # type: ignore[arg-type]


def product_sizes(dot: Instruction) -> tuple[int, int, int, int]:
    """A dot as a batch of products: how many, rows, contracted elements, columns."""
    lb, lc, rb, rc = dot_dims(dot.attrs)
    lhs, rhs = (o.dims for o in dot.operands)
    rows = prod(n for d, n in enumerate(lhs) if d not in lb and d not in lc)
    columns = prod(n for d, n in enumerate(rhs) if d not in rb and d not in rc)
    return prod(lhs[d] for d in lb), rows, prod(lhs[d] for d in lc), columns
