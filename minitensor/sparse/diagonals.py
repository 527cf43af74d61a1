"""Matrices of diagonals."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import int64
from minitensor._functions.offered import arange, cat, stack, unique
from minitensor.composite.layout import sparse_coo, sparse_csc, sparse_csr
from minitensor.sparse.conversion import to_compressed
from minitensor.sparse.tensor import Pattern, build

__all__ = ["spdiags"]


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix of that shape with the rows of `diagonals` `[D, K]` on the diagonals that `offsets` `[D]` names.

    Element `[i, j]` of the matrix is `diagonals[d, j]` where `j - i` is offset d. `layout` is sparse_coo, the default,
    sparse_csr or sparse_csc. RuntimeError for arguments that don't fit.
    """
    with _C.DisableTorchFunctionSubclass():
        kind = sparse_coo if layout is None else layout
        if kind not in (sparse_coo, sparse_csr, sparse_csc):
            raise RuntimeError(f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}")
        diagonals = diagonals if diagonals.ndim == 2 else diagonals.reshape(1, -1)
        offsets = offsets.reshape(-1) if offsets.ndim < 2 else offsets
        if len(shape) != 2:
            raise RuntimeError("Output shape must be 2d")
        if offsets.ndim != 1:
            raise RuntimeError("Offsets must be scalar or vector")
        if diagonals.shape[0] != offsets.shape[0]:
            raise RuntimeError(
                f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})"
            )
        if offsets.dtype is not int64:
            raise RuntimeError(f"Offset Tensor must have dtype Long, but got {offsets.dtype}")
        if unique(offsets).shape[0] != offsets.shape[0]:
            raise RuntimeError("Offset tensor contains duplicate values")
        return _matrix(diagonals, offsets.tolist(), tuple(shape), kind)


def _matrix(diagonals: Any, offsets: list[int], shape: tuple[int, int], kind: Any) -> Any:
    rows, cols = shape
    width = min(int(diagonals.shape[1]), cols)
    row, col, flat = [], [], []
    for number, offset in enumerate(offsets):
        columns = arange(max(offset, 0), max(min(width, rows + offset), max(offset, 0)), device=diagonals.device)
        row.append(columns - offset)
        col.append(columns)
        flat.append(columns + number * int(diagonals.shape[1]))
    none = [arange(0, device=diagonals.device)]
    places = cat(flat or none)
    indices = stack([cat(row or none), cat(col or none)])
    values = diagonals.reshape(-1).index_select(0, places)
    made = build(Pattern(sparse_coo, shape, (indices,)), values)
    return made if kind is sparse_coo else to_compressed(made, kind)
