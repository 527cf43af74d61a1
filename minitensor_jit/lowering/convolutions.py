"""Convolutions and their gradients as HLO for GPUs, in the orders of csrc/kernels/cpu/conv/{conv_*,depthwise}.cpp.

How the CPU cuts its work into blocks shows in the order of the gradients' sums, so it is here too. Matrices of patches
are made of broadcasts, reshapes and slices (`slide`): a product finds their elements where it reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.semantics.window import Window, WindowDim
from minitensor_jit.ir.shape import DTYPES, Shape
from minitensor_jit.lowering.call import RecordedCall
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.kernel_ordered_sums import lane_sum, matrix_product, ordered_sum
from minitensor_jit.passes.convolution_canonicalization import canonical
from minitensor_jit.passes.expand.windows import slide

__all__ = [
    "backward_input",
    "backward_input_fits",
    "backward_weight",
    "backward_weight_fits",
    "col2im",
    "convolution",
    "convolution_fits",
    "im2col",
    "patches_fit",
]

_BLOCK_BYTES = 512 << 10
_PANEL = 64
_TASKS = 16
_RUN = 512
_MOST_TAPS = 128
"""Of a kernel: each is a step of the program."""


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _part_of(n: int, wanted: int, unit: int) -> int:
    parts = _ceil_div(n, max(wanted, unit))
    return max(_ceil_div(_ceil_div(n, parts), unit) * unit, 1)


@dataclass(frozen=True, slots=True)
class _Geometry:
    """What is computed; `channels` and `filters` are those of a group."""

    batch: int
    groups: int
    channels: int
    filters: int
    image: tuple[int, ...]
    places: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @staticmethod
    def of(
        image: Sequence[int], weight: Sequence[int], result: Sequence[int], stride: Sequence[int],
        padding: Sequence[int], dilation: Sequence[int], groups: int,
    ) -> _Geometry:  # fmt: skip
        return _Geometry(
            image[0], groups, weight[1], weight[0] // groups, tuple(image[2:]), tuple(result[2:]), tuple(weight[2:]),
            tuple(stride), tuple(padding), tuple(dilation),
        )  # fmt: skip

    @property
    def rank(self) -> int:
        return len(self.image)

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    @property
    def pixels(self) -> int:
        return prod(self.places)

    @property
    def depthwise(self) -> bool:
        return self.channels == 1 and self.groups > 1

    @property
    def pointwise(self) -> bool:
        return all(k == 1 and s == 1 and p == 0 for k, s, p in zip(self.kernel, self.stride, self.padding, strict=True))

    @property
    def flat(self) -> bool:
        """Whether planes of the depthwise kernel are rows of the padded width, one after the other."""
        deep = self.rank == 3 and (self.image[0] != 1 or self.kernel[0] != 1 or self.padding[0] != 0)
        return not deep and all(s == 1 for s in self.stride)

    def ends(self) -> list[tuple[int, int, int]]:
        """The padding before and after the image with which every tap of every place is in it."""
        around = []
        for size, n, k, s, p, d in zip(
            self.image, self.places, self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            around.append((p, (n - 1) * s + (k - 1) * d + 1 - p - size, 0))
        return around

    def to_image(self, tap: Sequence[int]) -> list[tuple[int, int, int]]:
        """The padding that puts what belongs to the places where a tap reads the image."""
        around = []
        for size, n, t, s, p, d in zip(
            self.image, self.places, tap, self.stride, self.padding, self.dilation, strict=True
        ):
            low = t * d - p
            around.append((low, size - low - (n - 1) * s - 1, s - 1))
        return around

    def each_tap(self) -> Iterator[tuple[int, ...]]:
        return product(*map(range, self.kernel))

    def at_tap(self, b: Lowering, padded: Instruction, tap: Sequence[int]) -> Instruction:
        """What a tap reads of an image padded by `ends`, for every place."""
        lead = padded.dims[: len(padded.dims) - self.rank]
        starts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
        limits = [at + (n - 1) * s + 1 for at, n, s in zip(starts, self.places, self.stride, strict=True)]
        return b.slice(padded, (*[0] * len(lead), *starts), (*lead, *limits), (*[1] * len(lead), *self.stride))


# ---- forward


def convolution_fits(call: RecordedCall) -> bool:
    """Whether the convolution is lowered: a kernel of one channel has few taps."""
    image, weight = call.shapes[0], call.shapes[1]
    assert image is not None
    assert weight is not None
    g = _Geometry.of(image, weight, call.results[0][1], *call.params)
    return not g.depthwise or g.taps <= _MOST_TAPS


def convolution(
    b: Lowering,
    x: Instruction,
    w: Instruction,
    bias: Instruction | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Instruction:
    """Images convolved with filters."""
    window = Window(
        tuple(
            WindowDim(size, stride=s, low=p, high=p, window_dilation=d)
            for size, s, p, d in zip(w.dims[2:], stride, padding, dilation, strict=True)
        )
    )
    places = window.positions(x.dims[2:])
    result = (x.dims[0], w.dims[0], *places)
    g = _Geometry.of(x.dims, w.dims, result, stride, padding, dilation, groups)
    if g.depthwise:
        return _depthwise(b, g, x, w, bias)
    if g.filters > 1 and g.batch * g.pixels > 1:
        y = b.convolution(x, w, dim_labels=canonical(g.rank), window=window, feature_group_count=groups)
    else:
        # What would be the product of a vector, which has an order of its own.
        patches = b.reshape(_patches(b, g, x), (g.batch, groups, g.channels * g.taps, g.pixels))
        filters = b.reshape(w, (groups, g.filters, g.channels * g.taps))
        filters = b.broadcast(filters, (g.batch, *filters.dims), (1, 2, 3))
        y = b.reshape(matrix_product(b, filters, patches, exact=True), result)
    return y if bias is None else b.add(y, b.broadcast(bias, y.dims, (1,)))


def _patches(b: Lowering, g: _Geometry, x: Instruction) -> Instruction:
    """[N, C, taps..., places...] of images [N, C, ...]."""
    x = b.pad(x, b.constant(0, x.dtype), [(0, 0, 0), (0, 0, 0), *g.ends()])
    for d in range(g.rank):
        x = slide(
            b, x, 2 + 2 * d, WindowDim(g.kernel[d], stride=g.stride[d], window_dilation=g.dilation[d]), g.places[d]
        )
    offsets, places = range(2, 2 + 2 * g.rank, 2), range(3, 3 + 2 * g.rank, 2)
    return b.transpose(x, (0, 1, *offsets, *places))


def _weight_of(b: Lowering, w: Instruction, tap: Sequence[int], dims: Sequence[int]) -> Instruction:
    """The weights [O] of a tap of filters [O, 1, ...], along dimension 1 of an array."""
    one = b.slice(w, (0, 0, *tap), (w.dims[0], 1, *(t + 1 for t in tap)))
    return b.broadcast(b.reshape(one, (w.dims[0],)), dims, (1,))


def _per_filter(b: Lowering, g: _Geometry, x: Instruction) -> Instruction:
    """[N, groups, ...] with each plane once a filter."""
    if g.filters == 1:
        return x
    dims = (x.dims[0], g.groups, g.filters, *x.dims[2:])
    wide = b.broadcast(x, dims, (0, 1, *range(3, len(dims))))
    return b.reshape(wide, (x.dims[0], g.groups * g.filters, *x.dims[2:]))


def _inside(b: Lowering, g: _Geometry) -> Instruction:
    """Whether an element of an image that is padded by `ends` is one of the image."""
    return b.pad(b.full(Shape("pred", g.image), True), b.constant(False), g.ends())


def _depthwise(b: Lowering, g: _Geometry, x: Instruction, w: Instruction, bias: Instruction | None) -> Instruction:
    dims = (g.batch, g.groups * g.filters, *g.places)
    padded = b.pad(_per_filter(b, g, x), b.constant(0, x.dtype), [(0, 0, 0), (0, 0, 0), *g.ends()])
    y = b.full(Shape(x.dtype, dims), 0) if bias is None else b.broadcast(bias, dims, (1,))
    inside = None if g.flat else _inside(b, g)
    for tap in g.each_tap():
        added = b.add(y, b.multiply(_weight_of(b, w, tap, dims), g.at_tap(b, padded, tap)))
        if inside is None:  # the padding is multiplied too
            y = added
        else:
            y = b.select(b.broadcast(g.at_tap(b, inside, tap), dims, range(2, len(dims))), added, y)
    return y


# ---- the gradient of the images


def backward_input_fits(call: RecordedCall) -> bool:
    """Whether the gradient is lowered: each tap is a step."""
    weight = call.shapes[1]
    assert weight is not None
    return prod(weight[2:]) <= _MOST_TAPS and call.result_floating


def backward_input(
    b: Lowering,
    grad: Instruction,
    w: Instruction,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Instruction:
    """The gradient of a convolution's images: a product for each tap, added up where the tap reads the image."""
    g = _Geometry.of(size, w.dims, grad.dims, stride, padding, dilation, groups)
    if g.depthwise:
        return _depthwise_backward_input(b, g, grad, w)
    k = g.channels * g.taps
    turned = b.transpose(b.reshape(w, (groups, g.filters, k)), (0, 2, 1))
    turned = b.broadcast(turned, (g.batch, *turned.dims), (1, 2, 3))
    columns = matrix_product(b, turned, b.reshape(grad, (g.batch, groups, g.filters, g.pixels)), exact=True)
    if g.pointwise:
        return b.reshape(columns, tuple(size))
    # In memory: each of its elements is a product, and is read where it is added.
    columns = b.get_tuple_element(b.emit("opt-barrier", (b.tuple(columns),)), 0)
    columns = b.reshape(columns, (g.batch, groups * g.channels, g.taps, *g.places))
    zero = b.constant(0, grad.dtype)
    parts = []
    for number, tap in enumerate(g.each_tap()):
        limits = (*columns.dims[:2], number + 1, *g.places)
        part = b.slice(columns, (0, 0, number, *[0] * g.rank), limits)
        part = b.reshape(part, (*columns.dims[:2], *g.places))
        parts.append(b.pad(part, zero, [(0, 0, 0), (0, 0, 0), *g.to_image(tap)]))
    return _in_blocks(b, g, parts)


def _in_blocks(b: Lowering, g: _Geometry, parts: Sequence[Instruction]) -> Instruction:
    """The sums of what taps add to the image: block after block of places, and in a block tap after tap."""
    itemsize = DTYPES[parts[0].dtype].itemsize
    across = _part_of(g.channels, g.channels * g.batch * g.groups // _TASKS, 1)
    rows = across * g.taps
    block = _part_of(g.pixels, max(_BLOCK_BYTES // itemsize // rows // _PANEL * _PANEL, 2 * _PANEL), _PANEL)
    total = b.full(parts[0].array_shape, 0)
    if block >= g.pixels:
        for part in parts:
            total = b.add(total, part)
        return total
    # The taps that read an element are those of places in ever earlier blocks. In front of others is what is in none.
    flat = b.iota(Shape("s32", (g.pixels,)), 0)
    number = b.reshape(b.divide(flat, b.full(flat.array_shape, block)), g.places)
    none = b.constant(-1, "s32")
    blocks = [b.pad(number, none, g.to_image(tap)) for tap in g.each_tap()]
    first = b.full(blocks[0].array_shape, _ceil_div(g.pixels, block))
    for one in blocks:
        first = b.select(b.compare(one, b.full(one.array_shape, 0), "GE"), one, first)
    spans = [(k - 1) * d // s for k, d, s in zip(g.kernel, g.dilation, g.stride, strict=True)]
    span = sum(n * prod(g.places[d + 1 :]) for d, n in enumerate(spans))
    dims, along = total.dims, tuple(range(2, 2 + g.rank))
    zero = b.full(total.array_shape, 0)
    for turn in range(min(_ceil_div(span, block) + 1, _ceil_div(g.pixels, block))):
        now = b.add(first, b.full(first.array_shape, turn))
        for part, one in zip(parts, blocks, strict=True):
            here = b.broadcast(b.compare(one, now, "EQ"), dims, along)
            total = b.add(total, b.select(here, part, zero))
    return total


def _depthwise_backward_input(b: Lowering, g: _Geometry, grad: Instruction, w: Instruction) -> Instruction:
    dims = (g.batch, g.groups, *g.image)
    gx = b.full(Shape(grad.dtype, dims), 0)
    zero = b.constant(0, grad.dtype)
    lasting = all(p <= (k - 1) * d for p, k, d in zip(g.padding, g.kernel, g.dilation, strict=True))
    taps = list(g.each_tap())
    # The kernel for planes multiplies the padding of the gradient too, and turns the filters around.
    padded = g.flat and g.filters == 1 and lasting
    everywhere = b.full(Shape("pred", g.places), True)
    for filter_ in range(g.filters):
        plane = b.reshape(grad, (g.batch, g.groups, g.filters, *g.places))
        plane = b.slice(plane, (0, 0, filter_, *[0] * g.rank), (g.batch, g.groups, filter_ + 1, *g.places))
        plane = b.reshape(plane, (g.batch, g.groups, *g.places))
        weights = b.reshape(w, (g.groups, g.filters, *g.kernel))
        weights = b.slice(weights, (0, filter_, *[0] * g.rank), (g.groups, filter_ + 1, *g.kernel))
        for tap in reversed(taps) if padded else taps:
            around = [(0, 0, 0), (0, 0, 0), *g.to_image(tap)]
            there = b.pad(plane, zero, around)
            added = b.add(gx, b.multiply(_weight_of(b, weights, tap, dims), there))
            if padded:
                gx = added
            else:
                inside = b.pad(everywhere, b.constant(False), around[2:])
                gx = b.select(b.broadcast(inside, dims, range(2, len(dims))), added, gx)
    return gx


# ---- the gradient of the filters


@dataclass(frozen=True, slots=True)
class _Runs:
    """How the places of all images are cut: a run is a block of an image, or some small images; chunks have runs."""

    images: int
    block: int
    blocks: int
    runs: int
    chunks: int

    @staticmethod
    def of(g: _Geometry, itemsize: int) -> _Runs:
        images = min(max(_RUN // g.pixels, 1), g.batch)
        block = g.pixels if images > 1 else _part_of(g.pixels, _RUN, 1)
        blocks = _ceil_div(g.pixels, block)
        runs = _ceil_div(g.batch, images) * blocks
        across = _part_of(g.channels, max(_BLOCK_BYTES // itemsize // (images * block) // g.taps, 1), 1)
        parts = _ceil_div(g.channels, across)
        return _Runs(images, block, blocks, runs, min(max(_TASKS // (g.groups * parts), 1), runs))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The runs of each chunk."""
        return [(self.runs * c // self.chunks, self.runs * (c + 1) // self.chunks) for c in range(self.chunks)]

    @property
    def longest(self) -> int:
        return max(last - first for first, last in self.bounds)


def backward_weight_fits(call: RecordedCall) -> bool:
    """Whether the gradient is lowered: each tap of a kernel of one channel is a step."""
    weight = call.results[0][1]
    return weight[1] > 1 or call.params[4] == 1 or prod(weight[2:]) <= _MOST_TAPS


def backward_weight(
    b: Lowering,
    grad: Instruction,
    x: Instruction,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Instruction:
    """The gradient of a convolution's filters: products of runs of places, added up by chunks."""
    g = _Geometry.of(x.dims, size, grad.dims, stride, padding, dilation, groups)
    if g.depthwise:
        gradient = _planes_backward_weight if g.flat else _rows_backward_weight
        return b.reshape(gradient(b, g, grad, x), tuple(size))
    runs = _Runs.of(g, grad.array_shape.itemsize)
    k = g.channels * g.taps
    left = _by_runs(b, g, runs, b.reshape(grad, (g.batch, groups, g.filters, g.pixels)))
    right = _by_runs(b, g, runs, b.reshape(_patches(b, g, x), (g.batch, groups, k, g.pixels)))
    products = matrix_product(b, left, b.transpose(right, (0, 2, 1)), exact=True)
    products = b.reshape(products, (groups, runs.runs, g.filters * k))
    if runs.chunks > 1 and runs.runs % runs.chunks:
        which = np.zeros((runs.chunks, runs.longest), np.int64)
        there = np.zeros((runs.chunks, runs.longest), np.bool_)
        for chunk, (first, last) in enumerate(runs.bounds):
            which[chunk, : last - first] = range(first, last)
            there[chunk, : last - first] = True
        products = b.take(products, b.constant(which.ravel(), "s64"), 1, checked=True)
        mask = b.broadcast(b.constant(there.ravel(), "pred"), products.dims, (1,))
        products = b.select(mask, products, b.full(products.array_shape, 0))
    products = b.reshape(products, (groups, runs.chunks, runs.longest, g.filters * k))
    chunks = ordered_sum(b, b.transpose(products, (2, 1, 0, 3)))
    total = ordered_sum(b, chunks) if runs.chunks > 1 else chunks
    return b.reshape(total, tuple(size))


def _by_runs(b: Lowering, g: _Geometry, runs: _Runs, x: Instruction) -> Instruction:
    """[N, groups, rows, places] as [groups * runs, rows, places of a run], zero where a run is shorter."""
    batch, groups, rows, pixels = x.dims
    zero = b.constant(0, x.dtype)
    if runs.images == 1:
        if runs.blocks * runs.block != pixels:
            x = b.pad(x, zero, [(0, 0, 0)] * 3 + [(0, runs.blocks * runs.block - pixels, 0)])
        x = b.reshape(x, (batch, groups, rows, runs.blocks, runs.block))
        x = b.transpose(x, (1, 0, 3, 2, 4))
        return b.reshape(x, (groups * batch * runs.blocks, rows, runs.block))
    if runs.runs * runs.images != batch:
        x = b.pad(x, zero, [(0, runs.runs * runs.images - batch, 0), *[(0, 0, 0)] * 3])
    x = b.reshape(x, (runs.runs, runs.images, groups, rows, pixels))
    x = b.transpose(x, (2, 0, 3, 1, 4))
    return b.reshape(x, (groups * runs.runs, rows, runs.images * pixels))


def _planes_backward_weight(b: Lowering, g: _Geometry, grad: Instruction, x: Instruction) -> Instruction:
    """[O, taps]: of rows of the padded width the products with the image from the tap's place on, image after image."""
    filters = g.groups * g.filters
    height, width = (g.places[-2] if g.rank > 1 else 1), g.image[-1] + 2 * g.padding[-1]
    run = height * width
    zero = b.constant(0, x.dtype)
    wide = b.reshape(grad, (g.batch, filters, height, g.places[-1]))
    wide = b.pad(wide, zero, [(0, 0, 0)] * 3 + [(0, width - g.places[-1], 0)])
    wide = b.reshape(wide, (g.batch, filters, run))
    tall = (g.image[-2] + 2 * g.padding[-2]) if g.rank > 1 else 1
    image = b.reshape(x, (g.batch, g.groups, *(g.image[-2:] if g.rank > 1 else (1, *g.image))))
    top = g.padding[-2] if g.rank > 1 else 0
    image = b.pad(image, zero, [(0, 0, 0), (0, 0, 0), (top, top, 0), (g.padding[-1], g.padding[-1], 0)])
    image = b.reshape(image, (g.batch, g.groups, tall * width))
    tail = (g.kernel[-1] - 1) * g.dilation[-1]
    image = _per_filter(b, g, b.pad(image, zero, [(0, 0, 0), (0, 0, 0), (0, tail, 0)]))
    sums = []
    for tap in g.each_tap():
        down = tap[-2] * g.dilation[-2] if g.rank > 1 else 0
        at = down * width + tap[-1] * g.dilation[-1]
        seen = b.slice(image, (0, 0, at), (g.batch, filters, at + run))
        sums.append(b.reshape(lane_sum(b, b.multiply(wide, seen)), (g.batch, filters, 1)))
    together = sums[0] if len(sums) == 1 else b.concatenate(sums, 2)
    return ordered_sum(b, together)


def _rows_backward_weight(b: Lowering, g: _Geometry, grad: Instruction, x: Instruction) -> Instruction:
    """[O, taps]: of each row of places whose tap is in the image the product with what it reads, row after row."""
    filters = g.groups * g.filters
    image = _per_filter(b, g, x)
    sums = []
    for tap in g.each_tap():
        low, high, starts, limits = [], [], [], []
        for size, n, t, s, p, d in zip(g.image, g.places, tap, g.stride, g.padding, g.dilation, strict=True):
            first = max(0, -((t * d - p) // s))
            last = max(first, min((size - 1 + p - t * d) // s + 1, n))
            low.append(first)
            high.append(last)
            starts.append(first * s - p + t * d)
            limits.append((last - 1) * s - p + t * d + 1)
        if any(first == last for first, last in zip(low, high, strict=True)):
            sums.append(b.full(Shape(x.dtype, (filters, 1)), 0))
            continue
        rows = b.slice(grad, (0, 0, *low), (g.batch, filters, *high))
        seen = b.slice(image, (0, 0, *starts), (g.batch, filters, *limits), (1, 1, *g.stride))
        made = lane_sum(b, b.multiply(rows, seen))
        made = b.transpose(made, (0, *range(2, len(made.dims)), 1))
        made = ordered_sum(b, b.reshape(made, (prod(made.dims[:-1]), filters)))
        sums.append(b.reshape(made, (filters, 1)))
    return sums[0] if len(sums) == 1 else b.concatenate(sums, 1)


# ---- images and their patches


def patches_fit(call: RecordedCall) -> bool:
    """Whether the moves between images and patches are lowered: each tap is a step."""
    return prod(call.params[-4]) <= _MOST_TAPS


def im2col(
    b: Lowering,
    x: Instruction,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Instruction:
    """The patches of images as columns."""
    return b.reshape(_patches(b, _unfolding(x.dims, kernel, dilation, padding, stride), x), b.result.dims)


def col2im(
    b: Lowering,
    x: Instruction,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Instruction:
    """Images in which patches are added up, tap after tap."""
    batch, channels = x.dims[0], x.dims[1] // prod(kernel)
    x = b.widened(x)
    image = (batch, channels, *size)
    g = _unfolding(image, kernel, dilation, padding, stride)
    columns = b.reshape(x, (batch, channels, g.taps, *g.places))
    total = b.full(Shape(x.dtype, image), 0)
    for number, tap in enumerate(g.each_tap()):
        part = b.slice(columns, (0, 0, number, 0, 0), (batch, channels, number + 1, *g.places))
        part = b.reshape(part, (batch, channels, *g.places))
        total = b.add(total, b.pad(part, b.constant(0, x.dtype), [(0, 0, 0), (0, 0, 0), *g.to_image(tap)]))
    return total


def _unfolding(
    image: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> _Geometry:
    places = [
        (n + 2 * p - (k - 1) * d - 1) // s + 1
        for n, k, d, p, s in zip(image[2:], kernel, dilation, padding, stride, strict=True)
    ]
    return _Geometry.of(image, (1, image[1], *kernel), (image[0], 1, *places), stride, padding, dilation, 1)
