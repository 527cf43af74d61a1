"""What is worked out of a pattern: places as single numbers, compressed rows, and the same of the transpose."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._functions.offered import arange, cat, searchsorted, stack
from minitensor.composite.dims import product
from minitensor.composite.layout import sparse_coo
from minitensor.sparse.invariants import check_coo
from minitensor.sparse.tensor import BY_COLUMNS, Pattern

__all__ = ["Rows", "coo_of", "flat_of", "flat_places", "rows_of"]


def flat_of(indices: Any, size: tuple[int, ...]) -> Any:
    """Indices `[dims, nnz]` in `size` as places in row-major order; RuntimeError for those that are not in it."""
    check_coo(indices, size)
    flat = indices.new_zeros(indices.shape[1])
    for dim, length in enumerate(size):
        flat = indices[dim] if not dim else flat * length + indices[dim]
    return flat


def flat_places(pattern: Pattern) -> Any:
    """The place of each number, or dense part, of the values as one number in row-major order; they are checked."""
    coo = coo_of(pattern)
    return pattern.known("flat", lambda: flat_of(coo.indices[0], coo.size[: coo.sparse_dim]))


def _all_rows(compressed: Any, nnz: int) -> Any:
    """For each plain index of a matrix the row, or column, that it is in."""
    compressed = compressed.to(_C.int64)
    count = compressed.shape[0] - 1
    steps = compressed[1:] - compressed[:-1]
    if int(compressed[0]) != 0 or int(compressed[-1]) != nnz or (count and bool((steps < 0).any())):
        raise RuntimeError("the compressed indices don't rise from 0 to nnz: the sparse tensor is invalid")
    return arange(count, device=compressed.device).repeat_interleave(steps)


def coo_of(pattern: Pattern) -> Pattern:
    """The pattern as one of sparse_coo: a place for each number of the values, in their order; batches are dims."""
    if pattern.is_coo:
        return pattern

    def work_out() -> Pattern:
        compressed, plain = pattern.indices
        batch, nnz, columns = pattern.batch_dims, pattern.nnz, pattern.layout in BY_COLUMNS
        lead = tuple(pattern.size[:batch])
        count = product(lead)
        first = compressed.reshape(count, compressed.shape[-1])
        second = plain.reshape(count, nnz).to(_C.int64)
        parts = []
        for number in range(first.shape[0]):
            at: list[int] = []
            rest = number
            for length in reversed(lead):
                at.insert(0, rest % length)
                rest //= length
            main, other = _all_rows(first[number], nnz), second[number]
            row, col = (other, main) if columns else (main, other)
            high, wide = pattern.block
            if pattern.block_dims:
                row = (row.reshape(-1, 1, 1) * high + arange(high).reshape(1, -1, 1)).expand(-1, -1, wide).reshape(-1)
                col = (col.reshape(-1, 1, 1) * wide + arange(wide).reshape(1, 1, -1)).expand(-1, high, -1).reshape(-1)
            pair = [row, col]
            parts.append(_stack([*(row.new_full(tuple(row.shape), n) for n in at), *pair]))
        indices = _cat(parts) if parts else compressed.new_zeros((batch + 2, 0)).to(_C.int64)
        check_coo(indices, pattern.size)
        return Pattern(sparse_coo, pattern.size, (indices,), not columns and not pattern.block_dims)

    return pattern.known("coo", work_out)  # type: ignore[no-any-return]


def _stack(rows: list[Any]) -> Any:
    return stack(rows)


def _cat(parts: list[Any]) -> Any:
    return cat(parts, 1)


class Rows:
    """The compressed rows of a matrix: `crow` `[rows + 1]`, `col` `[nnz]`, and which element of the tensor each is.

    `order` is None where that is the same.
    """

    __slots__ = ("_transposed", "col", "crow", "order", "size")

    def __init__(self, crow: Any, col: Any, order: Any, size: tuple[int, int]) -> None:
        self.crow, self.col, self.order, self.size = crow, col, order, size
        self._transposed: Rows | None = None

    @property
    def transposed(self) -> Rows:
        """The rows of the transpose; their `order` is among these rows' elements."""
        if self._transposed is None:
            made = rows_of_indices(self.col, _all_rows(self.crow, self.col.shape[0]), (self.size[1], self.size[0]))
            self._transposed = made
        return self._transposed

    def values(self, elements: Any) -> Any:
        """A tensor's elements in the order of the rows."""
        return elements if self.order is None else elements.index_select(0, self.order)


def rows_of_indices(row: Any, col: Any, size: tuple[int, int]) -> Rows:
    """Compressed rows of elements at these indices, which may be in any order; it is kept within a row."""
    rising = not bool((row[1:] < row[:-1]).any())
    order = None if rising else row.argsort(stable=True)
    if order is not None:
        row, col = row[order], col[order]
    crow = _searched(row.contiguous(), size[0])
    return Rows(crow, col.contiguous(), order, size)


def _searched(row: Any, count: int) -> Any:
    return searchsorted(row, arange(count + 1, device=row.device))


def rows_of(pattern: Pattern) -> Rows:
    """The compressed rows of a matrix in any layout without blocks, batches and dense dimensions."""

    def work_out() -> Rows:
        size = (pattern.size[0], pattern.size[1])
        if pattern.is_coo:
            check_coo(pattern.indices[0], size)
            return rows_of_indices(pattern.indices[0][0], pattern.indices[0][1], size)
        compressed, plain = (one.to(_C.int64).contiguous() for one in pattern.indices)
        if pattern.layout in BY_COLUMNS:
            check_coo(plain.unsqueeze(0), (size[0],))
            return Rows(compressed, plain, None, (size[1], size[0])).transposed
        check_coo(plain.unsqueeze(0), (size[1],))
        return Rows(compressed, plain, None, size)

    return pattern.known("rows", work_out)  # type: ignore[no-any-return]
