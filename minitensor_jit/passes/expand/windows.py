"""What slides a window, as reductions and products over the windows' elements.

`slide` makes an array that has every element of every window, by broadcasts, reshapes and slices only: nobody needs it
in memory, and where an element lies is an affine form of the indices, so a loop over it is a loop over the windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Final

from ...ir.builder import Builder, highest, lowest
from ...ir.library import library
from ...ir.module import Computation, Instruction
from ...ir.semantics.kernel_call import KERNEL_PREFIX
from ...ir.semantics.reduction import reduction_kind
from ...ir.semantics.window import ConvolutionDims, Window, WindowDim
from ...ir.shape import DTYPES, Shape
from .rule import Rule, inline

__all__ = ["WINDOW_RULES", "slide"]


def slide(b: Builder, x: Instruction, axis: int, window: WindowDim, places: int) -> Instruction:
    """Dimension `axis`, padded already, as two: the offset within the window, and its place."""
    outer, extent, inner = x.dims[:axis], x.dims[axis], x.dims[axis + 1 :]
    size, stride, dilation = window.size, window.stride, window.window_dilation

    def cut(y: Instruction, at: int, limit: int, step: int = 1) -> Instruction:
        limits = [limit if d == at else n for d, n in enumerate(y.dims)]
        steps = [step if d == at else 1 for d in range(len(y.dims))]
        return b.slice(y, (0,) * len(limits), limits, steps)

    if size == 1:
        return b.reshape(cut(x, axis, (places - 1) * stride + 1, stride), (*outer, 1, places, *inner))
    if places == 1:
        return b.reshape(cut(x, axis, (size - 1) * dilation + 1, dilation), (*outer, size, 1, *inner))
    # Rows that are longer than the array by the dilation: each begins so much further on.
    row = extent + dilation
    rows = -(-size * row // extent)
    repeated = b.broadcast(x, (*outer, rows, *x.dims[axis:]), [d + (d >= axis) for d in range(len(x.dims))])
    flat = cut(b.reshape(repeated, (*outer, rows * extent, *inner)), axis, size * row)
    return cut(b.reshape(flat, (*outer, size, row, *inner)), axis + 1, (places - 1) * stride + 1, stride)


def _padding(window: Window) -> list[tuple[int, int, int]]:
    return [(w.low, w.high, w.base_dilation - 1) for w in window.dims]


def _all_windows(b: Builder, x: Instruction, window: Window, places: Sequence[int]) -> tuple[Instruction, list[int]]:
    """Every window's elements, and the dimensions of the offsets; a window of one element has none."""
    offsets: list[int] = []
    for d, (w, count) in enumerate(zip(window.dims, places, strict=True)):
        axis = d + len(offsets)
        if w.size == 1 and w.stride == 1:
            continue  # the padding is the only thing that it does
        x = slide(b, x, axis, w, count)
        offsets.append(axis)
    return x, offsets


def _identity(kind: str, dtype: str) -> Any:
    if kind in ("maximum", "minimum"):
        return lowest(dtype) if kind == "maximum" else highest(dtype)
    if kind == "and":
        return True if dtype == "pred" else -1
    return {"add": 0, "multiply": 1, "or": 0, "xor": 0}[kind]


def _where_inside(computation: Computation, dtypes: list[str]) -> Computation:
    """The combiner for operands with one more, which says whether there is an element."""
    b = Builder(f"{computation.name}_inside")
    n = len(dtypes)
    shapes = [*map(Shape, dtypes), Shape("pred")]
    parameters = [b.parameter(s) for s in (*shapes, *shapes)]
    before, after = parameters[:n], parameters[n + 1 : -1]
    root = inline(b, computation, [*before, *after])
    values = root.operands if root.is_tuple else [root]
    kept = [b.select(parameters[-1], new, old) for new, old in zip(values, before, strict=True)]
    made = b.build_computation([*kept, parameters[n]])
    made.remove_dead()
    return made


def _reduce_window(b: Builder, i: Instruction) -> Instruction:
    n, window, combiner = len(i.operands) // 2, i.attrs["window"], i.attrs["to_apply"]
    inputs, inits = list(i.operands[:n]), i.operands[n:]
    places = window.positions(inputs[0].dims)
    if 0 in places or 0 in inputs[0].dims or any(w.size == 0 for w in window.dims):
        filled = [b.broadcast(init, places) if places else init for init in inits]
        return filled[0] if n == 1 else b.tuple(*filled)
    padding = _padding(window)
    kind = reduction_kind(combiner) if n == 1 and DTYPES[inputs[0].dtype].kind != "c" else None
    if any(any(p) for p in padding):
        mask = b.full(inputs[0].array_shape.with_dtype("pred"), True)
        fill = [b.constant(_identity(kind, x.dtype) if kind else 0, x.dtype) for x in inputs]
        inputs = [b.pad(x, value, padding) for x, value in zip(inputs, fill, strict=True)]
        if kind is None:  # what lies in the padding must not be combined
            inputs.append(b.pad(mask, b.constant(False), padding))
            inits = [*inits, b.constant(True)]
            combiner = _where_inside(combiner, [x.dtype for x in i.operands[:n]])
    if kind:
        return _known(b, inputs[0], inits[0], window, places, kind, combiner)
    pairs = [_all_windows(b, x, window, places) for x in inputs]
    made = b.reduce([x for x, _ in pairs], inits, pairs[0][1], combiner)
    if len(inputs) == n:
        return made
    parts = [b.get_tuple_element(made, k) for k in range(n)]
    return parts[0] if n == 1 else b.tuple(*parts)


# Windows of so few elements are combined by an operation for each.
FEW: Final = 16
# Longer dimensions of a window are combined from windows of half the size.
LONG: Final = 8


def _known(
    b: Builder, x: Instruction, init: Instruction, window: Window, places: Sequence[int], kind: str,
    combiner: Computation,
) -> Instruction:  # fmt: skip
    """The combined windows of an array that is padded already, for a combination that may be done in any order."""
    dims = list(window.dims)
    for d, w in enumerate(dims):
        if w.size > LONG:
            x = _by_halves(b, x, d, w, kind)
            dims[d] = WindowDim(1, w.stride)
    if prod(w.size for w in dims) > FEW:
        x, offsets = _all_windows(b, x, Window(tuple(dims)), places)
        return b.reduce(x, init, offsets, combiner)
    if x.opcode in ("pad", kind):  # read by every offset, so that it had better be in memory
        x = b.get_tuple_element(b.emit("opt-barrier", (b.tuple(x),)), 0)
    total = b.broadcast(init, tuple(places)) if places else init
    for offset in product(*(range(w.size) for w in dims)):
        starts = [o * w.window_dilation for o, w in zip(offset, dims, strict=True)]
        limits = [s + (n - 1) * w.stride + 1 for s, n, w in zip(starts, places, dims, strict=True)]
        total = b.emit(kind, (total, b.slice(x, starts, limits, [w.stride for w in dims])))
    return total


def _by_halves(b: Builder, x: Instruction, axis: int, w: WindowDim, kind: str) -> Instruction:
    """The combined windows along one dimension, at every place: of one window and the next that of twice the size."""

    def part(y: Instruction, start: int, length: int) -> Instruction:
        starts = [start if d == axis else 0 for d in range(len(y.dims))]
        limits = [start + length if d == axis else n for d, n in enumerate(y.dims)]
        return b.slice(y, starts, limits)

    step, extent = w.window_dilation, x.dims[axis]
    length = extent - (w.size - 1) * step
    total: Instruction | None = None
    size, done = 1, 0
    while True:
        if w.size & size:
            piece = part(x, done * step, length)
            total = piece if total is None else b.emit(kind, (total, piece))
            done += size
        if done == w.size:
            assert total is not None
            return total
        rest = extent - (2 * size - 1) * step
        x = b.emit(kind, (part(x, 0, rest), part(x, size * step, rest)))
        # In memory: otherwise each of its elements would be computed again for every window that it is in.
        x = b.get_tuple_element(b.emit("opt-barrier", (b.tuple(x),)), 0)
        size *= 2


def _chooser(select: Computation, dtype: str) -> Computation:
    """(value, number) of the element that select-and-scatter chooses, -1 standing for none."""
    b = Builder(f"{select.name}_first")
    old, place, new, number = (b.parameter(Shape(d)) for d in (dtype, "s64", dtype, "s64"))
    none = b.constant(0, "s64")
    stays = b.and_(b.compare(place, none, "GE"), inline(b, select, (old, new)))
    better = b.and_(b.compare(number, none, "GE"), b.not_(stays))
    return b.build_computation((b.select(better, new, old), b.select(better, number, place)))


def _select_and_scatter(b: Builder, i: Instruction) -> Instruction:
    """The number of the element chosen in each window, and a scatter to there."""
    x, source, init = i.operands
    size = x.array_shape.size
    filled = b.broadcast(init, (size,))
    if not size or not source.array_shape.size:
        return b.reshape(filled, x.dims)
    window = i.attrs["window"]
    places = window.positions(x.dims)
    numbers = b.reshape(b.iota(Shape("s64", (size,))), x.dims)
    none = b.constant(-1, "s64")
    padding = _padding(window)
    inputs = [b.pad(x, b.constant(0, x.dtype), padding), b.pad(numbers, none, padding)]
    pairs = [_all_windows(b, y, window, places) for y in inputs]
    chosen = b.reduce(
        [y for y, _ in pairs], [b.constant(0, x.dtype), none], pairs[0][1], _chooser(i.attrs["select"], x.dtype)
    )
    count = prod(places)
    target = b.reshape(b.get_tuple_element(chosen, 1), (count, 1))
    flat = b.scatter(
        filled, target, b.reshape(source, (count,)), update_window_dims=(), inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,), index_vector_dim=1, kind=i.attrs["scatter"],
    )  # fmt: skip
    return b.reshape(flat, x.dims)


# A matrix of windows is not made, where the eager kernel does without, if it has more elements than this, or shows
# those of the image more often: the kernel takes as little as a fifth of the time. Otherwise a product reads the image
# in any order of dimensions.
LARGE: Final = 1 << 22
OFTEN: Final = 2


def _eager_takes(window: Window, dtype: str, batches: int) -> bool:
    plain = all(w.low == w.high >= 0 and w.base_dilation == 1 and not w.reversal for w in window.dims)
    if not plain or batches != 1 or dtype not in ("f32", "f64") or not 1 <= len(window.dims) <= 3:
        return False
    return library().has_kernel(f"{KERNEL_PREFIX}convolution")


def _convolution(b: Builder, i: Instruction) -> Instruction:
    """A call of the eager kernel, unless the matrix of windows is about the image itself: then a product.

    Which of its ways the kernel takes is its own decision, the same for eager calls.
    """
    lhs, rhs = i.operands
    window: Window = i.attrs.get("window", Window())
    features, batches = i.attrs.get("feature_group_count", 1), i.attrs.get("batch_group_count", 1)
    places = window.positions(lhs.dims[2:])
    elements = lhs.dims[0] * prod(places) * prod(rhs.dims[1:]) * features
    repeated = elements > min(LARGE, OFTEN * lhs.array_shape.size)
    # Products of vectors, and convolutions of single channels, add up in another order.
    ordered = 1 in (rhs.dims[0] // features, lhs.dims[0] * prod(places)) or (features > 1 and rhs.dims[1] == 1)
    if (repeated or ordered) and _eager_takes(window, lhs.dtype, batches):
        shape = lhs.array_shape.with_dims((lhs.dims[0], rhs.dims[0], *places))
        params = tuple(tuple(getattr(w, name) for w in window.dims) for name in ("stride", "low", "window_dilation"))
        (made,) = b.kernel_call("convolution", (lhs, rhs), [shape], kinds="ttn", params=(*params, features))
        return made
    return convolution_as_product(b, i)


def convolution_as_product(b: Builder, i: Instruction) -> Instruction:
    """The product of a matrix of all windows and the kernel, a batch of them for groups. `bf01_oi01->bf01` only."""
    labels: ConvolutionDims = i.attrs["dim_labels"]
    lhs, rhs = i.operands
    window: Window = i.attrs.get("window", Window())
    features, batches = i.attrs.get("feature_group_count", 1), i.attrs.get("batch_group_count", 1)
    groups, rank = features * batches, labels.rank
    if 0 in i.dims or 0 in lhs.dims or 0 in rhs.dims:
        return b.full(i.array_shape, 0)
    places = window.positions(lhs.dims[2:])
    if any(any(p) for p in _padding(window)):
        lhs = b.pad(lhs, b.constant(0, lhs.dtype), [(0, 0, 0), (0, 0, 0), *_padding(window)])
    for d, (w, count) in enumerate(zip(window.dims, places, strict=True)):
        lhs = slide(b, lhs, 2 + 2 * d, w, count)
    # [batch, feature, (offset, place)...] as [group, feature of the group, offset..., batch, place...]: rows of places
    # lie in the image as they do here.
    batch, channels = lhs.dims[:2]
    spatial = lhs.dims[2:]
    offsets, after = [4 + 2 * d for d in range(rank)], [5 + 2 * d for d in range(rank)]
    # [batch groups, batch, feature groups, feature, ...]; one of the numbers of groups is 1.
    lhs = b.reshape(lhs, (batches, batch // batches, features, channels // features, *spatial))
    lhs = b.transpose(lhs, (0, 2, 3, *offsets, 1, *after))
    taps = prod(rhs.dims[1:])
    per_group = batch // batches * prod(places)
    left = b.reshape(lhs, (groups, taps, per_group))
    right = b.reshape(rhs, (groups, rhs.dims[0] // groups, taps))
    product = b.dot(
        left, right, lhs_contracting_dims=(1,), rhs_contracting_dims=(2,), lhs_batch_dims=(0,), rhs_batch_dims=(0,)
    )
    # [group, batch, place..., output feature of the group] to [batch, output feature, place...]
    full = b.reshape(product, (groups, batch // batches, *places, rhs.dims[0] // groups))
    full = b.transpose(full, (1, 0, 2 + rank, *range(2, 2 + rank)))
    return b.reshape(full, (batch // batches, rhs.dims[0], *places))


WINDOW_RULES: Final[dict[str, Rule]] = {
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "convolution": _convolution,
}
