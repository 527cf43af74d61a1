"""Forms of row kernels that read each row once: its elements stay in registers from one pass to the next."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.shape import DTYPES
from ...emitter.loops import counted_loop
from ...indexing.indexing_map import AffineExpr
from ...kernel_spec import Root
from ...llvm.ir_types import I8, I32, Value, constant
from ...reduction import LANES, Reduction, fold_lanes
from .loop_kernel import BLOCK, threads_for
from .row_reduction import RowForm, StepOfLanes, row_width, warp_total

__all__ = ["HeldRows", "TinyRows", "WarpRows", "fits_block", "fits_warp"]

# The longest row of a warp, and of a block; and how long the code of a thread may be, in simple operations.
WARP_ROW = 1024
ELEMENTS = 16
LONGEST = 3000
# Shared memory for what is summed in order.
STAGING_BYTES = 40 << 10
# Elements of a lane that are in flight at a time.
IN_FLIGHT = 8


def is_ordered(reduction: Reduction) -> bool:
    """Whether its bits depend on the order: those of sums and products of floating-point numbers."""
    return reduction.kind in ("add", "multiply") and DTYPES[reduction.dtype].kind == "f"


def fits_warp(rows: RowForm) -> bool:
    """Whether a warp can hold a row."""
    return rows.length <= WARP_ROW and -(-rows.length // 32) * rows.cost <= LONGEST


def fits_block(rows: RowForm) -> bool:
    """Whether a block can hold a row, and shared memory what it sums."""
    staged = [0] * rows.stages
    for r in rows.reductions:
        if is_ordered(r):
            staged[rows.stage_of[r.input]] += rows.length * r.instruction.array_shape.itemsize
    return max(staged) <= STAGING_BYTES and rows.length <= 1024 * ELEMENTS and ELEMENTS * rows.cost <= LONGEST


class TinyRows(RowForm):
    """A thread for each row."""

    def has_guards(self) -> bool:
        """Whether there are threads without elements: whole rows only."""
        return False

    def emit(self) -> None:
        """Emits and launches it."""
        threads = threads_for(self.outer)
        e = self.begin(threads)
        row = self.kernel.thread()
        blocks = -(-self.outer // threads)
        exact = blocks * threads == self.outer
        with e.when(None if exact else e.inner.icmp_signed("<", row, e.index(self.outer))):
            self.set_row(e.here(row))
            for stage in range(self.stages):
                group = [r for r in self.reductions if self.stage_of[r.input] == stage]
                roots = [(r, n) for r, n in self.element_roots if self.stage_of[r] == stage]
                self._stage(group, roots)
            self.store_rows()
        self.finish("row-reduce", blocks)

    def _stage(self, group: list[Reduction], roots: list[Root]) -> None:
        e = self.e
        totals = []
        for r in group:
            lanes = []
            for at in range(self.length):
                x = e.value(r.input, r.input_index(self.space, self.row, AffineExpr(at)))
                lanes.append(r.combine(e.at(x), r.identity(), x))
            totals.append(fold_lanes(e.inner, r, lanes))
        self.bind_totals(group, totals)
        values = [
            [e.value(root, self.element_index(self.space, root, self.row, AffineExpr(at))) for at in range(self.length)]
            for root, _ in roots
        ]
        for (root, n), some in zip(roots, values, strict=True):
            for at, value in enumerate(some):
                e.store_unit(self.kernel.result(n), root.dtype, self.row * self.length + at, [value])


class WarpRows(RowForm):
    """A warp for each row, two lanes of the order for each thread."""

    def has_guards(self) -> bool:
        """Whether there are threads without elements."""
        return bool(self.length % LANES)

    def emit(self) -> None:
        """Emits and launches it."""
        warps = min(BLOCK // 32, self.outer)
        e = self.begin(32 * warps)
        b = e.builders[0]
        thread = e.register("tid.x")
        lane = b.and_(thread, constant(I32, 31))
        first = b.mul(e.wide(e.register("ctaid.x")), e.index(warps))
        row = b.add(first, e.wide(b.lshr(thread, constant(I32, 5))))
        exact = self.outer % warps == 0
        with e.when(None if exact else b.icmp_signed("<", row, e.index(self.outer))):
            self.set_row(e.here(row))
            self.paired = self.length % 2 == 0
            self.steps = [self._step(lane, at) for at in range(0, self.length, LANES)]
            for stage in range(self.stages):
                group = [r for r in self.reductions if self.stage_of[r.input] == stage]
                roots = [(r, n) for r, n in self.element_roots if self.stage_of[r] == stage]
                if group or roots:
                    self._stage(group, roots)
            with e.when(e.inner.icmp_unsigned("==", lane, constant(I32, 0))):
                self.store_rows()
        self.finish("row-reduce", -(-self.outer // warps))

    def _step(self, lane: Value, at: int) -> StepOfLanes:
        count = min(LANES, self.length - at)
        counts = [-(-count // 2)] if self.paired else [min(32, count), max(0, count - 32)]
        return AffineExpr(at), self.lane_variables(lane, counts), None

    def _stage(self, group: list[Reduction], roots: list[Root]) -> None:
        e = self.e
        start = [r.identity() for r in group for _ in range(2)]
        ends = self.take(group, self.steps, start, roots)
        totals = []
        for k, r in enumerate(group):
            total = warp_total(e, r, ends[2 * k], ends[2 * k + 1], paired=self.paired)
            totals.append(e.shuffle(total, 0, "idx"))
        self.bind_totals(group, totals)


class HeldRows(RowForm):
    """A block of threads for each row, a few vectors of elements for each thread.

    What is summed in order goes through shared memory, where the first warps add it up, two lanes a thread.
    """

    def has_guards(self) -> bool:
        """Whether there are threads without elements."""
        return bool(self.length % (self._threads() * row_width(self)))

    def _threads(self) -> int:
        return min(1024, max(64, 32 * -(-self.length // (32 * ELEMENTS))))

    def emit(self) -> None:
        """Emits and launches it."""
        width = row_width(self)
        self.threads = self._threads()
        e = self.begin(self.threads)
        self.set_row(e.wide(e.register("ctaid.x")))
        thread = e.register("tid.x")
        self.lane = e.inner.and_(thread, constant(I32, 31))
        self.warp = e.inner.lshr(thread, constant(I32, 5))
        self.steps: list[
            tuple[AffineExpr, AffineExpr, Value | None]
        ] = []  # of each round: its first element, variable and guard
        for at in range(0, self.length, self.threads * width):
            count = min(self.threads, (self.length - at) // width)
            variable = self.space.var("u", count)
            e.set_variable(variable, e.wide(thread))
            guard = None if count == self.threads else e.inner.icmp_unsigned("<", thread, constant(I32, count))
            self.steps.append((variable * width + at, variable, guard))
        self.width = width
        self.staging: list[Value] = []
        for stage in range(self.stages):
            group = [r for r in self.reductions if self.stage_of[r.input] == stage]
            roots = [(r, n) for r, n in self.element_roots if self.stage_of[r] == stage]
            if group or roots:
                self._stage(stage, group, roots)
        with e.when(e.inner.icmp_unsigned("==", thread, constant(I32, 0))):
            self.store_rows()
        self.finish("row-reduce", self.outer)

    def _stage(self, stage: int, group: list[Reduction], roots: list[Root]) -> None:
        e, width = self.e, self.width
        values: list[list[list[Value]]] = []  # of each round, of each reduction: its elements
        for first, variable, guard in self.steps:
            found: list[list[Value]] = [[] for _ in group]
            kept: list[list[Value]] = [[] for _ in roots]
            for k in range(width):
                with e.unit(variable, width, k), e.guarded_unit(guard):
                    for r, some in zip(group, found, strict=True):
                        some.append(e.value(r.input, r.input_index(self.space, self.row, first + k)))
                    for (root, _), some in zip(roots, kept, strict=True):
                        some.append(e.value(root, self.element_index(self.space, root, self.row, first + k)))
            values.append(found)
            if roots:
                with e.when(guard):
                    for (root, n), some in zip(roots, kept, strict=True):
                        target = self.row * self.length + first
                        e.store_unit(self.kernel.result(n), root.dtype, target, some)
        if group:
            self.bind_totals(group, self._totals(stage, group, values))

    def _totals(self, stage: int, group: list[Reduction], values: list[list[list[Value]]]) -> list[Value]:
        e = self.e
        parts = []
        ordered = [k for k, r in enumerate(group) if is_ordered(r)]
        for k, r in enumerate(group):
            columns = [some[k] for some in values]
            count = self.blocks if k in ordered else self.threads // 32
            parts.append(self.shared_parts(f"t{stage}_{k}", r, count))
            if k in ordered:
                self._stage_values(ordered.index(k), r, columns)
            else:
                self._combine_free(r, columns, parts[k])
        if ordered:
            e.barrier()
            with e.when(e.inner.icmp_unsigned("<", self.warp, constant(I32, self.blocks))):
                for slot, k in enumerate(ordered):
                    total = self._add_lanes(group[k], self.staging[slot])
                    with e.when(e.inner.icmp_unsigned("==", self.lane, constant(I32, 0))):
                        self.put_part(group[k], parts[k], e.wide(self.warp), total)
        e.barrier()
        return [
            self.combine_parts([r], [parts[k]], self.blocks if k in ordered else self.threads // 32)[0]
            for k, r in enumerate(group)
        ]

    def _stage_values(self, slot: int, r: Reduction, columns: list[list[Value]]) -> None:
        """Puts the elements where the threads that add them up find them."""
        e = self.e
        if slot == len(self.staging):
            # The same for all stages, as large as any needs.
            sizes = [x.instruction.array_shape.itemsize for x in self.reductions if is_ordered(x)]
            self.staging.append(e.shared(f"x{slot}", I8, self.length * max(sizes)))
        for (first, _, guard), column in zip(self.steps, columns, strict=True):
            with e.when(guard):
                e.store_unit(self.staging[slot], r.dtype, first, column)

    def _combine_free(self, r: Reduction, columns: Sequence[Sequence[Value]], parts: Value) -> None:
        """Combines in whatever order suits: the elements of a thread, of a warp."""
        e = self.e
        total = r.identity()
        for (_, _, guard), column in zip(self.steps, columns, strict=True):
            for x in column:
                if guard is not None:
                    x = e.inner.select(guard, x, r.identity())
                total = r.combine(e.inner, total, x)
        for width in (16, 8, 4, 2, 1):
            total = r.combine(e.inner, total, e.shuffle(total, width))
        with e.when(e.inner.icmp_unsigned("==", self.lane, constant(I32, 0))):
            self.put_part(r, parts, e.wide(self.warp), total)

    def _add_lanes(self, r: Reduction, staging: Value) -> Value:
        """The block of the order that is the warp's: lanes l and l + 32 for thread l, from shared memory."""
        e = self.e
        full = self.length // LANES
        rounds = full // IN_FLIGHT  # with as many elements of each lane
        per_block = self.block // LANES // IN_FLIGHT
        warp, lane = e.wide(self.warp), e.wide(self.lane)
        b = e.inner
        first = b.mul(warp, e.index(per_block))
        last = b.intrinsic("llvm.smin", b.add(first, e.index(per_block)), e.index(rounds))

        def take(at: Value, offsets: list[int], totals: Sequence[Value], guards: Sequence[Value | None]) -> list[Value]:
            b = e.inner
            xs = []
            for offset, guard in zip(offsets, guards, strict=True):
                place = b.add(at, e.index(offset))
                if guard is not None:
                    place = b.select(guard, place, e.index(0))
                xs.append(self.get_part(r, staging, place))
            both = list(totals)
            for k, (x, guard) in enumerate(zip(xs, guards, strict=True)):
                if guard is not None:
                    x = b.select(guard, x, r.identity())
                both[k % 2] = r.combine(b, both[k % 2], x)
            return both

        def round_(q: Value, totals: Sequence[Value]) -> list[Value]:
            at = e.inner.add(e.inner.mul(q, e.index(LANES * IN_FLIGHT)), lane)
            offsets = [LANES * k + 32 * p for k in range(IN_FLIGHT) for p in range(2)]
            return take(at, offsets, totals, [None] * len(offsets))

        totals: list[Value] = [r.identity(), r.identity()]
        if rounds:
            totals = counted_loop(e, first, last, 1, round_, totals)
        b = e.inner
        mine = b.icmp_unsigned("==", self.warp, constant(I32, self.blocks - 1))
        offsets, guards = [], []
        for at in range(rounds * IN_FLIGHT * LANES, self.length, 32):
            offsets.append(at)
            left = self.length - at
            within = b.icmp_unsigned("<", self.lane, constant(I32, left)) if left < 32 else None
            guards.append(mine if within is None else b.and_(mine, within))
        if offsets:
            totals = take(lane, offsets, totals, guards)
        return warp_total(e, r, *totals, paired=False)
