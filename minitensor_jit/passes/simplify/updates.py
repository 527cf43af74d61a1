"""Rules on updates of a slice at a known place, as gradients of parts of a tensor make them: nothing is dynamic there.

An update of something that isn't in memory, a constant say, is a concatenation. One of an array stays what it is: it
may be written over the array, and touches the window only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.module import Instruction
from ...ir.size import Size
from .rewriter import Rewriter, Rule, scalar_value

__all__ = ["RULES"]


def _window(i: Instruction) -> list[tuple[int, int]] | None:
    """The first element of an update's window, and the one after its last, in each dimension; None if it's not known.

    Only dimensions that the window doesn't fill need a start that is known.
    """
    found = []
    for start, n, of in zip(i.operands[2:], i.operands[1].dims, i.dims, strict=True):
        if n == of:
            found.append((0, of))
            continue
        at = scalar_value(start)
        if at is None or isinstance(n, Size) or isinstance(of, Size):
            return None
        first = min(max(int(at), 0), of - n)
        found.append((first, first + n))
    return found


def _update_all(i: Instruction, r: Rewriter) -> Instruction | None:
    x, update = i.operands[:2]
    return update if update.dims == x.dims else x if update.array_shape.size == 0 else None


def _slice_update(i: Instruction, r: Rewriter) -> Instruction | None:
    """A slice within the window is one of the update, a slice beside it is one of what was there before."""
    bounds = i.attrs["slice"]
    inner = i.operands[0]
    while inner.opcode == "dynamic-update-slice" and (window := _window(inner)) is not None:
        known = [
            (first, end, low, high)
            for (first, end), (low, high, _), n in zip(window, bounds, inner.dims, strict=True)
            if end - first != n
        ]
        if any(isinstance(n, Size) for _, _, low, high in known for n in (low, high)):
            break
        if any(high <= first or end <= low for first, end, low, high in known):
            inner = inner.operands[0]  # all updates beside it at once, however many there are
            continue
        if not all(first <= low and high <= end for first, end, low, high in known):
            break
        moved = tuple(
            (low - first, high - first, step) for (first, _), (low, high, step) in zip(window, bounds, strict=True)
        )
        return r.emit("slice", inner.operands[1:2], {"slice": moved})
    return r.emit("slice", (inner,), {"slice": bounds}) if inner is not i.operands[0] else None


def _part(x: Instruction, axis: int, low: int, high: int, r: Rewriter) -> Instruction:
    """Some elements of `x` along an axis."""
    if low == 0 and high == x.dims[axis]:
        return x
    bounds = tuple((low, high, 1) if d == axis else (0, n, 1) for d, n in enumerate(x.dims))
    return r.emit("slice", (x,), {"slice": bounds})


def _update_parts(i: Instruction, r: Rewriter) -> Instruction | None:
    """An update along one dimension of a broadcast, or of a concatenation along it that nobody else reads."""
    x, update = i.operands[:2]
    if x.opcode not in ("broadcast", "concatenate") or (window := _window(i)) is None:
        return None
    axes = [d for d, (a, b) in enumerate(zip(update.dims, x.dims, strict=True)) if a != b]
    if len(axes) != 1:
        return None
    (axis,) = axes
    parts: Sequence[Instruction] = (x,)
    if x.opcode == "concatenate":
        if x.attrs["dimensions"] != (axis,) or r.uses.get(x, 1) > 1:
            return None
        parts = x.operands
    first, end = window[axis]
    if any(isinstance(part.dims[axis], Size) for part in parts):
        return None
    before, after, offset = [], [], 0
    for part in parts:
        n = part.dims[axis]
        if offset < first:
            before.append(_part(part, axis, 0, min(first - offset, n), r))
        if offset + n > end:
            after.append(_part(part, axis, max(end - offset, 0), n, r))
        offset += n
    return r.emit("concatenate", (*before, update, *after), {"dimensions": (axis,)})


RULES: tuple[Rule, ...] = (
    Rule("update-all", ("dynamic-update-slice",), _update_all, "an update of everything, or of nothing"),
    Rule("update-parts", ("dynamic-update-slice",), _update_parts, "a known window of a broadcast is concatenated"),
    Rule("slice-update", ("slice",), _slice_update, "a slice within an updated window, or beside it"),
)
