"""Rules on operations that move elements and compute nothing: they keep bits by nature."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.module import Instruction
from .rewriter import Rewriter, Rule, scalar_value

__all__ = ["RULES"]


def _same(i: Instruction, r: Rewriter) -> Instruction | None:
    """Moves nothing: the operand and the result are the same array."""
    x = i.operands[0]
    return x if x.shape == i.shape else None


def _copy(i: Instruction, r: Rewriter) -> Instruction | None:
    return i.operands[0]


# ---- transpose


def _transpose_same(i: Instruction, r: Rewriter) -> Instruction | None:
    permutation = i.attrs["dimensions"]
    return i.operands[0] if list(permutation) == list(range(len(permutation))) else None


def _transpose_transpose(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "transpose":
        return None
    first = inner.attrs["dimensions"]
    return r.transpose(inner.operands[0], [first[d] for d in i.attrs["dimensions"]])


def _transpose_of_ones(i: Instruction, r: Rewriter) -> Instruction | None:
    """Moving dimensions of size one around keeps the order of the elements."""
    x, permutation = i.operands[0], i.attrs["dimensions"]
    moved = [d for d in permutation if x.dims[d] != 1]
    return r.reshape(x, i.dims) if moved == sorted(moved) and list(permutation) != sorted(permutation) else None


def _transpose_broadcast(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    where = {d: k for k, d in enumerate(i.attrs["dimensions"])}
    dimensions = [where[d] for d in inner.attrs["dimensions"]]
    if dimensions != sorted(dimensions):
        return None
    return r.broadcast(inner.operands[0], i.dims, dimensions)


# ---- reshape


def _reshape_reshape(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    return r.reshape(inner.operands[0], i.dims) if inner.opcode == "reshape" else None


def _dims_without_ones(dims: Sequence[int]) -> list[int]:
    return [n for n in dims if n != 1]


def _only_ones(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether a reshape from `a` to `b` only adds or removes dimensions of size one."""
    return _dims_without_ones(a) == _dims_without_ones(b)


def _reshape_broadcast(i: Instruction, r: Rewriter) -> Instruction | None:
    """A reshape that removes ones from a broadcast, or any of a scalar, is another broadcast."""
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    x, dimensions = inner.operands[0], inner.attrs["dimensions"]
    if 1 in i.dims:
        return None  # the broadcast has lost its ones to this reshape
    if x.dims == ():
        return r.broadcast(x, i.dims, ())
    if not _only_ones(inner.dims, i.dims) or 1 in x.dims:
        return None
    big = [d for d, n in enumerate(inner.dims) if n != 1]
    new = [d for d, n in enumerate(i.dims) if n != 1]
    where = dict(zip(big, new, strict=True))
    return r.broadcast(x, i.dims, [where[d] for d in dimensions])


def _reshape_transpose(i: Instruction, r: Rewriter) -> Instruction | None:
    """A reshape of leading dimensions that a transpose leaves alone goes first, so that a dot sees the transpose."""
    inner = i.operands[0]
    if inner.opcode != "transpose" or 1 in i.dims:
        return None
    permutation, old, new = inner.attrs["dimensions"], inner.dims, i.dims
    count = 0  # trailing dimensions that both shapes share and that hold everything that moves
    fixed = next(d for d, p in enumerate((*permutation, -1)) if d != p)
    for a, b in zip(reversed(old), reversed(new), strict=False):
        if a != b or count == len(old) - fixed:
            break
        count += 1
    if count < len(old) - fixed or count == len(old) or count == len(new):
        return None
    first, lead = len(old) - count, len(new) - count
    source = inner.operands[0]
    moved = r.reshape(source, (*new[:lead], *source.dims[first:]))
    return r.transpose(moved, [*range(lead), *(lead + p - first for p in permutation[first:])])


# ---- broadcast


def _broadcast_broadcast(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    outer = i.attrs["dimensions"]
    return r.broadcast(inner.operands[0], i.dims, [outer[d] for d in inner.attrs["dimensions"]])


def _broadcast_as_reshape(i: Instruction, r: Rewriter) -> Instruction | None:
    """A broadcast that only adds dimensions of size one repeats nothing."""
    x = i.operands[0]
    return r.reshape(x, i.dims) if x.array_shape.size == i.array_shape.size and x.dims != i.dims else None


def _broadcast_reshape(i: Instruction, r: Rewriter) -> Instruction | None:
    """The ones that a reshape adds before a broadcast need not be there."""
    inner = i.operands[0]
    if inner.opcode != "reshape":
        return None
    x = inner.operands[0]
    if len(x.dims) >= len(inner.dims) or not _only_ones(x.dims, inner.dims) or 1 in x.dims:
        return None
    dimensions = [i.attrs["dimensions"][d] for d, n in enumerate(inner.dims) if n != 1]
    return r.broadcast(x, i.dims, dimensions)


# ---- slice


def _slice_slice(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "slice":
        return None
    bounds = []
    for (a, b, s), (first, _, step) in zip(i.attrs["slice"], inner.attrs["slice"], strict=True):
        start = first + a * step
        last = first + (b - 1) * step if b > a else start - 1
        bounds.append((start, last + 1, s * step))
    return r.emit("slice", inner.operands, {"slice": tuple(bounds)})


def _slice_broadcast(i: Instruction, r: Rewriter) -> Instruction | None:
    """Slicing repeated dimensions only makes a smaller broadcast."""
    inner = i.operands[0]
    if inner.opcode != "broadcast":
        return None
    x, dimensions = inner.operands[0], inner.attrs["dimensions"]
    bounds = i.attrs["slice"]
    if all(bounds[d] == (0, inner.dims[d], 1) for d in dimensions):
        return r.broadcast(x, i.dims, dimensions)
    source = r.emit("slice", (x,), {"slice": tuple(bounds[d] for d in dimensions)})
    return r.broadcast(source, i.dims, dimensions)


def _slice_concatenate(i: Instruction, r: Rewriter) -> Instruction | None:
    """A slice that lies inside one part of a concatenation is a slice of that part."""
    inner = i.operands[0]
    if inner.opcode != "concatenate":
        return None
    axis = inner.attrs["dimensions"][0]
    bounds = i.attrs["slice"]
    start, limit, stride = bounds[axis]
    offset = 0
    for part in inner.operands:
        size = part.dims[axis]
        if offset <= start and limit <= offset + size:
            moved = (start - offset, limit - offset, stride)
            return r.emit("slice", (part,), {"slice": (*bounds[:axis], moved, *bounds[axis + 1 :])})
        offset += size
    return None


def _dynamic_slice_constant(i: Instruction, r: Rewriter) -> Instruction | None:
    x, sizes = i.operands[0], i.attrs["dynamic_slice_sizes"]
    starts = [scalar_value(s) for s in i.operands[1:]]
    if x.dims == tuple(sizes):
        return x  # starts are clamped to zero
    if any(s is None for s in starts):
        return None
    clamped = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, x.dims, sizes, strict=True)]
    return r.emit("slice", (x,), {"slice": tuple((s, s + n, 1) for s, n in zip(clamped, sizes, strict=True))})


# ---- concatenate, pad, reverse


def _concatenate_one(i: Instruction, r: Rewriter) -> Instruction | None:
    return i.operands[0] if len(i.operands) == 1 else None


def _concatenate_empty(i: Instruction, r: Rewriter) -> Instruction | None:
    parts = [x for x in i.operands if x.array_shape.size]
    if len(parts) == len(i.operands) or not parts:
        return None
    return parts[0] if len(parts) == 1 else r.emit("concatenate", parts, dict(i.attrs))


def _concatenate_concatenate(i: Instruction, r: Rewriter) -> Instruction | None:
    if not any(x.opcode == "concatenate" and x.attrs == i.attrs for x in i.operands):
        return None
    parts: list[Instruction] = []
    for x in i.operands:
        parts.extend(x.operands if x.opcode == "concatenate" and x.attrs == i.attrs else (x,))
    return r.emit("concatenate", parts, dict(i.attrs))


def _concatenate_slices(i: Instruction, r: Rewriter) -> Instruction | None:
    """Neighbouring slices of one array, put together again."""
    axis = i.attrs["dimensions"][0]
    parts: list[Instruction] = []
    for x in i.operands:
        before = parts[-1] if parts else None
        if before is not None and (joined := _join(before, x, axis, r)) is not None:
            parts[-1] = joined
        else:
            parts.append(x)
    if len(parts) == len(i.operands):
        return None
    return parts[0] if len(parts) == 1 else r.emit("concatenate", parts, dict(i.attrs))


def _join(x: Instruction, y: Instruction, axis: int, r: Rewriter) -> Instruction | None:
    if x.opcode != "slice" or y.opcode != "slice" or x.operands[0] is not y.operands[0]:
        return None
    p, q = x.attrs["slice"], y.attrs["slice"]
    if any(a != b for d, (a, b) in enumerate(zip(p, q, strict=True)) if d != axis):
        return None
    if p[axis][2] != 1 or q[axis][2] != 1 or p[axis][1] != q[axis][0]:
        return None
    bounds = (*p[:axis], (p[axis][0], q[axis][1], 1), *p[axis + 1 :])
    return r.emit("slice", x.operands, {"slice": bounds})


def _pad_nothing(i: Instruction, r: Rewriter) -> Instruction | None:
    x = i.operands[0]
    if all(p == (0, 0, 0) for p in i.attrs["padding"]):
        return x
    return r.broadcast(i.operands[1], i.dims, ()) if x.array_shape.size == 0 else None


def _pad_negative(i: Instruction, r: Rewriter) -> Instruction | None:
    """Padding that only crops is a slice."""
    x, padding = i.operands[0], i.attrs["padding"]
    if any(low > 0 or high > 0 or inner for low, high, inner in padding):
        return None
    bounds = tuple((-low, n + high, 1) for (low, high, _), n in zip(padding, x.dims, strict=True))
    return None if all(p == (0, 0, 0) for p in padding) else r.emit("slice", (x,), {"slice": bounds})


def _reverse_ones(i: Instruction, r: Rewriter) -> Instruction | None:
    x, dimensions = i.operands[0], i.attrs["dimensions"]
    real = tuple(d for d in dimensions if x.dims[d] > 1)
    if len(real) == len(dimensions) and real:
        return None
    return r.emit("reverse", (x,), {"dimensions": real}) if real else x


def _reverse_reverse(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "reverse":
        return None
    dimensions = tuple(sorted({*i.attrs["dimensions"]} ^ {*inner.attrs["dimensions"]}))
    return r.emit("reverse", inner.operands, {"dimensions": dimensions}) if dimensions else inner.operands[0]


def _element_of_tuple(i: Instruction, r: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    return inner.operands[i.attrs["index"]] if inner.opcode == "tuple" else None


RULES: tuple[Rule, ...] = (
    Rule("copy", ("copy",), _copy, "a copy of a value is the value"),
    Rule("same", ("reshape", "bitcast", "broadcast", "slice"), _same, "nothing moves"),
    Rule("transpose-same", ("transpose",), _transpose_same, "the identity permutation"),
    Rule("transpose-transpose", ("transpose",), _transpose_transpose, "two permutations are one"),
    Rule("transpose-of-ones", ("transpose",), _transpose_of_ones, "moving dimensions of size one is a reshape"),
    Rule("transpose-broadcast", ("transpose",), _transpose_broadcast, "transpose(broadcast(x)) is a broadcast"),
    Rule("reshape-reshape", ("reshape",), _reshape_reshape, "two reshapes are one"),
    Rule("reshape-transpose", ("reshape",), _reshape_transpose, "batch dimensions are reshaped before a transpose"),
    Rule("reshape-broadcast", ("reshape",), _reshape_broadcast, "reshape(broadcast(x)) is a broadcast"),
    Rule("broadcast-broadcast", ("broadcast",), _broadcast_broadcast, "two broadcasts are one"),
    Rule(
        "broadcast-as-reshape", ("broadcast",), _broadcast_as_reshape, "a broadcast that repeats nothing is a reshape"
    ),
    Rule("broadcast-reshape", ("broadcast",), _broadcast_reshape, "broadcast(reshape(x)) where only ones are added"),
    Rule("slice-slice", ("slice",), _slice_slice, "two slices are one"),
    Rule("slice-broadcast", ("slice",), _slice_broadcast, "slice(broadcast(x)) is a smaller broadcast"),
    Rule("slice-concatenate", ("slice",), _slice_concatenate, "a slice of one part of a concatenation"),
    Rule("dynamic-slice-constant", ("dynamic-slice",), _dynamic_slice_constant, "known starts make it a slice"),
    Rule("concatenate-one", ("concatenate",), _concatenate_one, "one part is the whole"),
    Rule("concatenate-empty", ("concatenate",), _concatenate_empty, "empty parts are dropped"),
    Rule("concatenate-concatenate", ("concatenate",), _concatenate_concatenate, "nested parts are listed"),
    Rule("concatenate-slices", ("concatenate",), _concatenate_slices, "neighbouring slices are one"),
    Rule("pad-nothing", ("pad",), _pad_nothing, "no padding, or nothing but padding"),
    Rule("pad-negative", ("pad",), _pad_negative, "a padding that crops is a slice"),
    Rule("reverse-ones", ("reverse",), _reverse_ones, "a dimension of size one has no order"),
    Rule("reverse-reverse", ("reverse",), _reverse_reverse, "reversed twice"),
    Rule("element-of-tuple", ("get-tuple-element",), _element_of_tuple, "an element of a tuple just made"),
)
