"""How a semi-structured matrix is packed: two numbers of four, and four bits that say which.

The lower two bits are the place of the first number among the four, the upper two that of the second. Of float32 one
number of two is kept, as if it were two halves of one. The order of the words, `reordered`, is that of CUTLASS.
"""

from __future__ import annotations

from typing import Any

from minitensor._C import float32, int8, int32, int64, uint8
from minitensor._functions.offered import arange, empty_like, stack, where, zeros, zeros_like

__all__ = ["decoded", "encoded", "pattern_bits", "pruned", "reordered", "restored"]

_BITS = 4


def encoded(dense: Any, word: Any) -> tuple[Any, Any]:
    """The numbers `[M, K / 2]` that are kept of a matrix `[M, K]`, and the codes of their places in words `[M, ...]`.

    Of more than two numbers that are not zero the first is kept, and the second if it is next to that; else the last.
    """
    rows, columns = dense.shape
    pairs = dense.dtype is float32
    group = 2 if pairs else 4
    parts = dense.view(rows, columns // group, group)
    small = dense.dtype.itemsize == 1 and dense.dtype is not int8  # float8: all bits but the sign
    there = (parts.view(int8) & 0x7F != 0 if small else parts != 0).unbind(-1)
    a, b, d = (there[0], there[0], there[1]) if pairs else (there[0], there[1], there[3])
    one, two, three = (zeros_like(a, dtype=int64) + n for n in (1, 2, 3))
    first = where(a, 0, where(b, one, two))
    second = where(a & b, one, where(d | (first == 2), three, two))
    if pairs:
        kept = parts.gather(-1, (first // 2)[..., None])
    elif dense.dtype.itemsize == 1:
        kept = parts.view(int8).gather(-1, stack([first, second], -1)).view(dense.dtype)
    else:
        kept = parts.gather(-1, stack([first, second], -1))
    codes = first | second << 2
    in_word = word.itemsize * 8 // _BITS
    shifts = arange(in_word, device=dense.device) * _BITS
    words = (codes.view(rows, -1, in_word) << shifts).sum(-1)
    return kept.reshape(rows, columns // 2), words.to(word)


def decoded(values: Any, words: Any) -> Any:
    """The matrix `[M, K]` of what :func:`encoded` gave."""
    rows, half = values.shape
    in_word = words.dtype.itemsize * 8 // _BITS
    shifts = arange(in_word, device=values.device) * _BITS
    codes = (words.to(int64)[..., None] >> shifts & 0xF).view(rows, -1)
    if values.dtype is float32:
        places = (codes & 3)[..., None] // 2
        made = zeros(rows, half, 2, dtype=values.dtype, device=values.device)
        return made.scatter_(-1, places, values[..., None]).view(rows, 2 * half)
    places = stack([codes & 3, codes >> 2], -1)
    kind = int8 if values.dtype.itemsize == 1 else values.dtype
    made = zeros(rows, half // 2, 4, dtype=kind, device=values.device)
    made.scatter_(-1, places, values.view(kind).reshape(rows, half // 2, 2))
    return made.view(rows, 2 * half).view(values.dtype)


def _offsets(words: Any) -> Any:
    """Where each word of a matrix is in CUTLASS' order: rows of a group interleaved, in columns of two."""
    rows, columns = words.shape
    group, step = (32, 4) if words.dtype.itemsize == 2 else (16, 2)
    row = arange(rows, device=words.device)[:, None].expand(rows, columns)
    column = arange(columns, device=words.device).expand(rows, columns)
    row = row // group * group + row % 8 * step + row % group // 8
    # The corners of blocks of two by two beside the diagonal change places.
    swap = (row % 2 == 0).to(int64) * (column % 2 == 1) - (row % 2 == 1).to(int64) * (column % 2 == 0)
    row, column = row + swap, column - swap
    return (column // 2 * rows * 2 + row * 2 + column % 2).reshape(-1)


def reordered(words: Any) -> Any:
    """Words in CUTLASS' order."""
    return empty_like(words).view(-1).scatter_(0, _offsets(words), words.reshape(-1)).view(words.shape)


def restored(words: Any) -> Any:
    """Words of CUTLASS' order, row by row."""
    return words.reshape(-1).gather(0, _offsets(words)).view(words.shape)


def pruned(dense: Any) -> Any:
    """The matrix with at most two numbers in each row and column of each tile of four by four.

    The largest is taken first; of equal ones that which comes first in the tile.
    """
    rows, columns = dense.shape
    tiles = dense.view(rows // 4, 4, columns // 4, 4).transpose(1, 2).reshape(-1, 16)
    order = tiles.argsort(-1, descending=True, stable=True)
    in_row = zeros(tiles.shape[0], 4, dtype=int32, device=dense.device)
    in_column, kept = zeros_like(in_row), zeros_like(tiles, dtype=int32)
    for at in order.unbind(-1):
        at = at[:, None]
        row, column = at // 4, at % 4
        take = ((in_row.gather(-1, row) < 2) & (in_column.gather(-1, column) < 2)).to(int32)
        in_row.scatter_add_(-1, row, take)
        in_column.scatter_add_(-1, column, take)
        kept.scatter_(-1, at, take)
    tiles = where(kept != 0, tiles, zeros_like(tiles))
    return tiles.view(rows // 4, columns // 4, 4, 4).transpose(1, 2).reshape(rows, columns)


def pattern_bits(dense: Any) -> Any:
    """Which numbers aren't zero: `[M / 8, K / 8, 4, 2]` bytes, two for each tile of a block of eight by eight."""
    rows, columns = dense.shape
    bits = (dense != 0).to(int64).view(rows // 8, 2, 4, columns // 8, 2, 4).permute(0, 3, 1, 4, 2, 5)
    shifts = arange(8, device=dense.device)
    return (bits.reshape(rows // 8, columns // 8, 4, 2, 8) << shifts).sum(-1).to(uint8)
