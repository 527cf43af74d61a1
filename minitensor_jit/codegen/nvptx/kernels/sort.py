"""Sort and topk: a bitonic network over the elements' numbers, whatever the operands and the comparator.

Elements that the comparator does not tell apart are ordered by their numbers, so the sort is stable. Pieces of a lane
are sorted in shared memory; longer lanes are merged by steps over all of memory, each one a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ....ir.module import Instruction
from ....runtime.cuda.program import Scalar
from ...emitter.loops import counted_loop, while_loop
from ...emitter.scalar_computation import apply_scalar, before, check_scalar
from ...indexing.indexing_map import Space
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import I32, Value, constant
from ..unit import GpuUnit, Kernel, Symbol
from .loop_kernel import BLOCK, largest_index

__all__ = ["PIECE", "Sort"]

PIECE = 2048
"""Elements that are sorted in shared memory."""


class Sort:
    """The kernels of a sort of any number of operands. A topk keeps the first ones, and their numbers."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: GpuUnit, spec: KernelSpec, sort: Instruction) -> None:
        self.top = sort.opcode == "topk"
        x = sort.operands[0]
        self.comparator = before(x.dtype, largest=sort.attrs["largest"]) if self.top else sort.attrs["to_apply"]
        check_scalar(sort.opcode, self.comparator)
        self.unit, self.spec, self.sort = unit, spec, sort
        dims = x.dims
        axis = len(dims) - 1 if self.top else sort.attrs["dimensions"][0]
        self.length = dims[axis]
        self.kept = sort.attrs["k"] if self.top else self.length
        self.inner = prod(dims[axis + 1 :])
        self.lanes = prod(dims[:axis]) * self.inner
        self.padded = 1 << max(1, (self.length - 1).bit_length())  # with numbers of elements that go last
        self.piece = min(PIECE, self.padded)
        numbers = [r.attrs["index"] if r.opcode == "get-tuple-element" else 0 for r, _ in spec.roots]
        self.results: list[Symbol] = [("result", numbers.index(k)) for k in range(len(sort.operands) + self.top)]

    def emit(self) -> None:
        """Emits and launches them."""
        if 0 in self.sort.operands[0].dims or not self.kept:
            return
        if self.padded == self.piece:
            self._emit_pieces(None)
            return
        order = self.unit.temporary(4 * self.lanes * self.padded)
        self._emit_pieces(order)
        step, merge = self._emit_step(order), self._emit_merge(order)
        size = 2 * self.piece
        while size <= self.padded:
            distance = size // 2
            while distance >= self.piece:
                step(size, distance)
                distance //= 2
            merge(size)
            size *= 2
        self._emit_gather(order)

    # ---- what all kernels have

    def _begin(self, threads: int, suffix: str) -> None:
        largest = max(largest_index(self.sort.operands), 2 * self.lanes * self.padded)
        self.kernel = Kernel(self.unit, self.spec, Space(), threads, largest, suffix)
        self.e = self.kernel.e
        self.sources = [self.kernel.argument(self.unit.symbol(self.spec, o)) for o in self.sort.operands]

    def _launch(self, blocks: int, kind: str, numbers: tuple[Scalar, ...] = ()) -> None:
        nbytes = sum(o.array_shape.nbytes for o in self.sort.operands) + 8 * self.lanes * self.padded
        self.kernel.launch(blocks, kind, nbytes, self.lanes * self.padded, numbers=numbers)

    def _corner(self, lane: Value) -> Value:
        """The first element of a lane."""
        b = self.e.inner
        if self.inner == 1:
            return b.mul(lane, self.e.index(self.length))
        outer, within = b.udiv(lane, self.e.index(self.inner)), b.urem(lane, self.e.index(self.inner))
        return b.add(b.mul(outer, self.e.index(self.length * self.inner)), within)

    def _element(self, corner: Value, number: Value) -> Value:
        b = self.e.inner
        number = self.e.wide(number)
        return b.add(corner, number if self.inner == 1 else b.mul(number, self.e.index(self.inner)))

    def _goes_before(self, corner: Value, i: Value, j: Value) -> Value:
        """Whether element number i stands before number j in the sorted lane; the two are not equal."""
        e = self.e
        b = e.inner
        exists = [b.icmp_unsigned("<", x, constant(I32, self.length)) for x in (i, j)]
        safe = [b.select(ok, x, constant(I32, 0)) for ok, x in zip(exists, (i, j), strict=True)]
        places = [self._element(corner, x) for x in safe]
        forth: list[Value] = []
        back: list[Value] = []
        for source, o in zip(self.sources, self.sort.operands, strict=True):
            x, y = (e.load_at(source, o.dtype, at) for at in places)
            forth += [x, y]
            back += [y, x]
        (first,) = apply_scalar(e, self.comparator, forth)
        (second,) = apply_scalar(e, self.comparator, back)
        b = e.inner
        same = b.and_(b.not_(second), b.icmp_unsigned("<", i, j))
        both = b.and_(exists[1], b.or_(first, same))
        return b.and_(exists[0], b.or_(b.not_(exists[1]), both))

    def _exchange(self, order: Value, start: Value, corner: Value, at: Value, size: Value, distance: Value) -> None:
        """Puts the numbers at places `at` and `at + distance` of a lane in order; `order` begins at place `start`."""
        e = self.e
        b = e.inner
        left = b.gep(order, b.sub(at, start), I32)
        right = b.gep(left, distance, I32)
        i, j = b.load(left, I32, 4), b.load(right, I32, 4)
        ascending = b.icmp_unsigned("==", b.and_(at, size), constant(I32, 0))
        right_first = self._goes_before(corner, j, i)
        b = e.inner
        swap = b.icmp_unsigned("==", right_first, ascending)
        b.store(b.select(swap, j, i), left, 4)
        b.store(b.select(swap, i, j), right, 4)

    def _pair(self, number: Value, distance: Value) -> Value:
        """The first place of pair number `number` of places that are `distance` apart."""
        b = self.e.inner
        below = b.sub(distance, constant(I32, 1))
        low = b.and_(number, below)
        return b.add(b.mul(b.sub(number, low), constant(I32, 2)), low)

    def _merge_in(self, order: Value, start: Value, corner: Value, size: Value, distance: Value) -> None:
        """The steps of distance `distance`, half of it, ... 1 of a piece in shared memory, for runs of `size`."""
        e = self.e

        def step(values: list[Value]) -> list[Value]:
            distance = values[0]
            e.barrier()

            def one(number: Value) -> None:
                at = e.inner.add(start, self._pair(number, distance))
                self._exchange(order, start, corner, at, size, distance)

            self._each(self.piece // 2, one)
            return [e.inner.lshr(distance, constant(I32, 1))]

        while_loop(e, [distance], lambda v: e.inner.icmp_unsigned("!=", v[0], constant(I32, 0)), step)

    def _place(self) -> tuple[Value, Value, Value]:
        """Of this block of threads: its lane, the lane's first element, and the first place of its piece."""
        e = self.e
        b = e.builders[0]
        pieces = self.padded // self.piece
        block = e.register("ctaid.x")
        lane = e.wide(b.udiv(block, constant(I32, pieces)))
        start = b.mul(b.urem(block, constant(I32, pieces)), constant(I32, self.piece))
        return lane, self._corner(lane), start

    def _each(self, count: int, body: Callable[[Value], None]) -> None:
        """Calls the body for the numbers below `count` that are this thread's."""

        def one(k: Value, _: Sequence[Value]) -> list[Value]:
            body(k)
            return []

        counted_loop(self.e, self.e.register("tid.x"), constant(I32, count), self.kernel.threads, one)

    # ---- the kernels

    def _threads(self) -> int:
        return min(1024, max(32, self.piece // 2))

    def _emit_pieces(self, order: Symbol | None) -> None:
        """Sorts pieces; up and down in turns, where there are several. A single one gives the results."""
        self._begin(self._threads(), "_pieces")
        e = self.e
        lane, corner, start = self._place()
        held = e.shared("order", I32, self.piece)

        def begin(k: Value) -> None:
            b = e.inner
            b.store(b.add(start, k), b.gep(held, k, I32), 4)

        self._each(self.piece, begin)

        def run(values: list[Value]) -> list[Value]:
            size = values[0]
            self._merge_in(held, start, corner, size, e.inner.lshr(size, constant(I32, 1)))
            return [e.inner.shl(size, constant(I32, 1))]

        last = constant(I32, self.piece)
        while_loop(e, [constant(I32, 2)], lambda v: e.inner.icmp_unsigned("<=", v[0], last), run)
        e.barrier()
        if order is None:
            write = self._write_results(lane, corner, held)
            self._each(self.kept, write)
        else:
            self._write_order(self.kernel.argument(order), lane, start, held)
        self._launch(self.lanes * (self.padded // self.piece), "sort")

    def _write_order(self, order: Value, lane: Value, start: Value, held: Value) -> None:
        e = self.e
        target = self._order_of(order, lane)

        def one(k: Value) -> None:
            b = e.inner
            b.store(b.load(b.gep(held, k, I32), I32, 4), b.gep(target, b.add(start, k), I32), 4)

        self._each(self.piece, one)

    def _order_of(self, order: Value, lane: Value) -> Value:
        b = self.e.inner
        return b.gep(order, b.mul(lane, self.e.index(self.padded)), I32)

    def _emit_step(self, order: Symbol) -> Callable[[int, int], None]:
        """A step over all of memory; returns what launches it for (size of the sorted runs, distance)."""
        self._begin(BLOCK, "_step")
        kernel, e = self.kernel, self.e
        base = kernel.argument(order)
        size, distance = kernel.number(0), kernel.number(1)
        at = kernel.thread()
        pairs = self.padded // 2
        b = e.builders[0]
        lane, number = b.udiv(at, e.index(pairs)), b.urem(at, e.index(pairs))
        with e.when(b.icmp_unsigned("<", lane, e.index(self.lanes))):
            place = self._pair(e.inner.trunc(number, I32), distance)
            self._exchange(self._order_of(base, lane), constant(I32, 0), self._corner(lane), place, size, distance)
        kernel.end()
        blocks = -(-self.lanes * pairs // BLOCK)

        def launch(size: int, distance: int) -> None:
            self.kernel = kernel
            self._launch(blocks, "sort-step", (Scalar(size, 4), Scalar(distance, 4)))

        return launch

    def _emit_merge(self, order: Symbol) -> Callable[[int], None]:
        """The steps within pieces; returns what launches them for runs of a size."""
        self._begin(self._threads(), "_merge")
        kernel, e = self.kernel, self.e
        base, size = kernel.argument(order), kernel.number(0)
        lane, corner, start = self._place()
        held = e.shared("order", I32, self.piece)
        source = e.inner.gep(self._order_of(base, lane), start, I32)

        def fetch(k: Value) -> None:
            b = e.inner
            b.store(b.load(b.gep(source, k, I32), I32, 4), b.gep(held, k, I32), 4)

        self._each(self.piece, fetch)
        self._merge_in(held, start, corner, size, constant(I32, self.piece // 2))
        e.barrier()
        self._write_order(base, lane, start, held)
        kernel.end()

        def launch(size: int) -> None:
            self.kernel = kernel
            self._launch(self.lanes * (self.padded // self.piece), "sort-merge", (Scalar(size, 4),))

        return launch

    def _write_results(self, lane: Value, corner: Value, order: Value) -> Callable[[Value], None]:
        """A function that writes the element at a place, from the numbers of the lane's elements in order."""
        e = self.e
        b = e.inner
        first = b.mul(lane, e.index(self.kept))
        if self.inner > 1:
            outer, within = b.udiv(lane, e.index(self.inner)), b.urem(lane, e.index(self.inner))
            first = b.add(b.mul(outer, e.index(self.kept * self.inner)), within)

        def write(place: Value) -> None:
            number = e.inner.load(e.inner.gep(order, place, I32), I32, 4)
            source, target = self._element(corner, number), self._element(first, place)
            for n, (base, o) in enumerate(zip(self.sources, self.sort.operands, strict=True)):
                value = e.load_at(base, o.dtype, source)
                e.store_at(self.kernel.argument(self.results[n]), o.dtype, target, value)
            if self.top:
                e.store_at(self.kernel.argument(self.results[-1]), "s32", target, number)

        return write

    def _emit_gather(self, order: Symbol) -> None:
        self._begin(BLOCK, "_gather")
        e = self.e
        base = self.kernel.argument(order)
        blocks_each = -(-self.kept // BLOCK)
        block = e.register("ctaid.x")
        b = e.builders[0]
        lane = e.wide(b.udiv(block, constant(I32, blocks_each)))
        place = b.add(b.mul(b.urem(block, constant(I32, blocks_each)), constant(I32, BLOCK)), e.register("tid.x"))
        write = self._write_results(lane, self._corner(lane), self._order_of(base, lane))
        with e.when(b.icmp_unsigned("<", place, constant(I32, self.kept))):
            write(place)
        self._launch(self.lanes * blocks_each, "sort-gather")
