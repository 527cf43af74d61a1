"""Orders, elements of an order, and places in sorted rows as HLO for GPUs, as csrc/kernels/cpu/sort has them."""

from __future__ import annotations

from collections.abc import Sequence

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.call import FLOATING, RecordedCall
from minitensor_jit.lowering.context import Lowering

__all__ = [
    "kthvalue",
    "median",
    "median_of_all",
    "mode",
    "nanmedian",
    "nanmedian_of_all",
    "search_fits",
    "searchsorted",
    "sort",
    "topk",
]


def sort(b: Lowering, x: Instruction, dim: int, descending: bool, _stable: bool) -> tuple[Instruction, Instruction]:
    """The elements in order, equal ones as they stood and NaN as the greatest, and their places."""
    if not x.dims:
        return x, b.full(Shape("s64"), 0)
    dim %= len(x.dims)
    c = Builder("before")
    first, second, *_ = (c.parameter(Shape(t)) for t in (x.dtype, x.dtype, "s64", "s64"))
    before = c.compare(first, second, "GT" if descending else "LT")
    if x.dtype in FLOATING:
        nan, other_nan = (c.compare(v, v, "NE") for v in (first, second))
        lower, greater = (other_nan, nan) if descending else (nan, other_nan)
        before = c.or_(before, c.and_(greater, c.not_(lower)))
    made = b.sort((x, b.iota(Shape("s64", x.dims), dim)), dim, c.build_computation(before))
    return b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)


def topk(b: Lowering, x: Instruction, k: int, dim: int, largest: bool, _sorted: bool) -> Sequence[Instruction]:
    """The first of them."""
    made = sort(b, x, dim, largest, True)
    limits = [k if d == dim % len(x.dims) else n for d, n in enumerate(x.dims)] if x.dims else []
    return [b.slice(one, (0,) * len(limits), limits) if limits else one for one in made]


# ---- one element of the order


def _at(
    b: Lowering, x: Instruction, rank: int | Instruction, dim: int, keepdim: bool
) -> tuple[Instruction, Instruction]:
    """The element that is `rank`-th of the order along dim, counted from 0, and where it stands."""
    values, places = sort(b, x, dim, False, True)
    if not x.dims:
        return values, places
    dim %= len(x.dims)
    kept = tuple(1 if d == dim else n for d, n in enumerate(x.dims))
    dims = kept if keepdim else (*x.dims[:dim], *x.dims[dim + 1 :])
    if isinstance(rank, int):
        starts = tuple(rank if d == dim else 0 for d in range(len(kept)))
        limits = tuple(rank + 1 if d == dim else n for d, n in enumerate(kept))
        found = [b.slice(one, starts, limits) for one in (values, places)]
    else:
        rank = b.reshape(rank, kept)
        found = [b.pick(one, rank, dim) for one in (values, places)]
    return b.reshape(found[0], dims), b.reshape(found[1], dims)


def kthvalue(b: Lowering, x: Instruction, k: int, dim: int, keepdim: bool) -> tuple[Instruction, Instruction]:
    """The k-th smallest, counted from 1."""
    return _at(b, x, k - 1, dim, keepdim)


def _middle(b: Lowering, x: Instruction, dim: int, keepdim: bool, skip: bool) -> tuple[Instruction, Instruction]:
    n = x.dims[dim] if x.dims else 1
    if x.dtype not in FLOATING or not x.dims:
        return _at(b, x, (n - 1) // 2, dim, keepdim)
    nans = b.reduce_dims(b.convert(b.compare(x, x, "NE"), "s64"), "add", dim, True)
    none, size, half = (b.full(nans.array_shape, k) for k in (0, n, (n - 1) // 2))
    if skip:
        left = b.subtract(b.subtract(size, nans), b.full(nans.array_shape, 1))
        rank = b.maximum(b.divide(left, b.full(nans.array_shape, 2)), none)
    else:
        # They are the last of the order: the first of them is wanted.
        rank = b.select(b.compare(nans, none, "GT"), b.subtract(size, nans), half)
    return _at(b, x, rank, dim, keepdim)


def median(b: Lowering, x: Instruction, dim: int, keepdim: bool) -> tuple[Instruction, Instruction]:
    """The lower of the middle elements, or the first NaN."""
    return _middle(b, x, dim, keepdim, False)


def nanmedian(b: Lowering, x: Instruction, dim: int, keepdim: bool) -> tuple[Instruction, Instruction]:
    """The lower of the middle elements that are not NaN."""
    return _middle(b, x, dim, keepdim, True)


def _flat(b: Lowering, x: Instruction) -> Instruction:
    return b.reshape(x, (x.array_shape.size,))


def median_of_all(b: Lowering, x: Instruction) -> Instruction:
    """Of all elements."""
    return median(b, _flat(b, x), 0, False)[0]


def nanmedian_of_all(b: Lowering, x: Instruction) -> Instruction:
    """Of all elements."""
    return nanmedian(b, _flat(b, x), 0, False)[0]


def mode(b: Lowering, x: Instruction, dim: int, keepdim: bool) -> tuple[Instruction, Instruction]:
    """The least of the most frequent elements, and where it stands last. NaN equals nothing."""
    if not x.dims:
        return x, b.full(Shape("s64"), 0)
    dim %= len(x.dims)
    n, rank = x.dims[dim], len(x.dims)
    values, places = sort(b, x, dim, False, True)
    shape = Shape("s64", x.dims)
    at = b.iota(shape, dim)
    if n > 1:
        starts, limits = [0] * rank, list(x.dims)
        limits[dim] -= 1
        around = [(1, 0, 0) if d == dim else (0, 0, 0) for d in range(rank)]
        before = b.pad(b.slice(values, starts, limits), b.constant(0, x.dtype), around)
        begins = b.compare(values, before, "NE")
        begin = b.select(begins, at, b.full(shape, 0))
        # Where the elements begin that are equal to each.
        begin = b.kernel_call("cummax", [begin], [shape, shape], kinds="t", params=(dim,))[0]
        at = b.subtract(at, begin)
    longest = b.reduce_dims(at, "maximum", dim, True)
    last = b.full(shape, n)
    first = b.select(b.compare(at, b.broadcast_to(longest, x.dims), "EQ"), b.iota(shape, dim), last)
    which = b.reduce_dims(first, "minimum", dim, True)
    dims = which.dims if keepdim else (*x.dims[:dim], *x.dims[dim + 1 :])
    value, place = (b.reshape(b.pick(one, which, dim), dims) for one in (values, places))
    return value, place


# ---- places in sorted rows


def _compared(row: Instruction, value: Instruction) -> str:
    """The type of the comparisons. What has no dimensions counts only where its kind of number is the higher one."""
    floats = [x for x in (row, value) if x.dtype in FLOATING]
    if not floats:
        return "s64"
    if len(floats) == 2 and bool(row.dims) != bool(value.dims):
        floats = [x for x in floats if x.dims]
    return "f64" if any(x.dtype == "f64" for x in floats) else "f32"


def search_fits(call: RecordedCall) -> bool:
    """Whether it is lowered: an order that is given apart would have to be checked."""
    return "u64" not in call.dtypes and (len(call.operands) < 3 or call.operands[2].kind == "none")


def searchsorted(
    b: Lowering, row: Instruction, value: Instruction, sorter: None, _int32: bool, right: bool
) -> Instruction:
    """The first place whose element is not below the value, or with `right` is above it; NaN counts as below."""
    n = row.dims[-1] if row.dims else 1
    shared = len(row.dims) <= 1
    row = b.reshape(row, (n,)) if shared else row
    compared = _compared(row, value)
    row, value = b.to_dtype(row, compared), b.to_dtype(value, compared)
    shape = Shape("s32" if n < 1 << 31 else "s64", value.dims)
    one, last, none = (b.full(shape, k) for k in (1, n - 1, 0))
    low, left = none, b.full(shape, n)
    for _ in range(n.bit_length()):
        half = b.emit("shift-right-logical", (left, one))
        middle = b.add(low, half)
        at = b.minimum(middle, last)
        element = b.take(row, at, 0, checked=True) if shared else b.pick(row, at, -1)
        passed = b.compare(element, value, "GT" if right else "GE")
        going = b.compare(left, none, "GT")
        low = b.select(b.or_(passed, b.not_(going)), low, b.add(middle, one))
        fewer = b.subtract(b.subtract(left, half), one)
        left = b.select(passed, half, b.maximum(fewer, none))
    return low
