"""Forms of row kernels for rows of any length: each pass reads the row again."""

from __future__ import annotations

from collections.abc import Sequence

from ...emitter.loops import counted_loop
from ...indexing.indexing_map import AffineExpr
from ...kernel_spec import Root
from ...llvm.ir_types import I32, Value, constant
from ...reduction import LANES, Reduction
from ..unit import Symbol
from .row_reduction import RowForm, warp_total

__all__ = ["WARPS", "LongRows", "SplitRows"]

# Rounds of 64 lanes that are in flight at a time.
ROUNDS = 8
CHUNK = LANES * ROUNDS
# The most warps that share a row, and warps of a block of a kernel that writes block results.
WARPS = 16
WARPS_OF_BLOCKS = 4


class LongRows(RowForm):
    """A block of threads for each row, whose warps take the blocks of the order in turn; each pass reads the row."""

    def has_guards(self) -> bool:
        """Whether there are threads without elements."""
        return bool(self.length % CHUNK)

    def emit(self) -> None:
        """Emits and launches it."""
        self.warps = min(self.blocks, WARPS)
        e = self.begin(32 * self.warps)
        self.set_row(e.wide(e.register("ctaid.x")))
        b = e.builders[0]
        thread = e.register("tid.x")
        self.warp = e.wide(b.lshr(thread, constant(I32, 5)))
        self.lane = b.and_(thread, constant(I32, 31))
        for stage in range(self.stages):
            group = [r for r in self.reductions if self.stage_of[r.input] == stage]
            roots = [(r, n) for r, n in self.element_roots if self.stage_of[r] == stage]
            if group or roots:
                self._pass(group, roots, stage)
        with e.when(e.inner.icmp_unsigned("==", thread, constant(I32, 0))):
            self.store_rows()
        self.finish("row-reduce", self.outer)

    def _pass(self, group: list[Reduction], roots: list[Root], stage: int) -> None:
        e = self.e
        parts = [self.shared_parts(f"s{stage}_{k}", r, self.blocks) for k, r in enumerate(group)]

        def block(j: Value, _: Sequence[Value]) -> list[Value]:
            totals = self.reduce_block(group, j, self.lane, roots)
            if group:
                with e.when(e.inner.icmp_unsigned("==", self.lane, constant(I32, 0))):
                    for r, base, total in zip(group, parts, totals, strict=True):
                        self.put_part(r, base, j, total)
            return []

        counted_loop(e, self.warp, e.index(self.blocks), self.warps, block)
        if not group:
            return
        e.barrier()

        def following(j: Value, totals: Sequence[Value]) -> list[Value]:
            values = [self.get_part(r, base, j) for r, base in zip(group, parts, strict=True)]
            return [r.combine(e.inner, t, v) for r, t, v in zip(group, totals, values, strict=True)]

        start = [r.identity() for r in group]
        self.bind_totals(group, counted_loop(e, e.index(0), e.index(self.blocks), 1, following, start))

    def reduce_block(self, group: list[Reduction], j: Value, lane: Value, roots: list[Root]) -> list[Value]:
        """Block j of the row by one warp: the totals, which are right in its lane 0."""
        e, space = self.e, self.space
        paired = self.length % 2 == 0
        chunks, per_block = self.length // CHUNK, self.block // CHUNK
        accumulators = [r.identity() for r in group for _ in range(2)]
        if chunks:
            chunk = space.var("c", chunks)
            units = self.lane_variables(lane, [32] if paired else [32, 32])
            b = e.at(j)
            first = b.mul(j, e.index(per_block))
            last = b.intrinsic("llvm.smin", b.add(first, e.index(per_block)), e.index(chunks))

            def round_(c: Value, carried: Sequence[Value]) -> list[Value]:
                e.set_variable(chunk, c)
                places = [chunk * CHUNK + k * LANES for k in range(ROUNDS)]
                steps = [(at, units, None) for at in places]
                return self.take(group, steps, list(carried), roots)

            accumulators = counted_loop(e, first, last, 1, round_, accumulators)
        rest = self.length - chunks * CHUNK
        if rest:
            # They belong to the last block.
            mine = e.at(j).icmp_unsigned("==", j, e.index(self.blocks - 1)) if self.blocks > 1 else None
            steps = []
            for at in range(chunks * CHUNK, self.length, LANES):
                count = min(LANES, self.length - at)
                counts = [-(-count // 2)] if paired else [min(32, count), max(0, count - 32)]
                steps.append((AffineExpr(at), self.lane_variables(lane, counts), mine))
            accumulators = self.take(group, steps, accumulators, roots)
        return [
            warp_total(e, r, accumulators[2 * k], accumulators[2 * k + 1], paired=paired) for k, r in enumerate(group)
        ]


class SplitRows(LongRows):
    """Few long rows: a kernel in which each warp takes one block of the order, and one that combines the results."""

    def emit(self) -> None:
        """Emits and launches both."""
        group = self.reductions
        total = self.outer * self.blocks
        e = self.begin(32 * WARPS_OF_BLOCKS, "_blocks")
        temporaries = [self.unit.temporary(total * r.instruction.array_shape.itemsize) for r in group]
        parts = [self.kernel.argument(symbol) for symbol in temporaries]
        b = e.builders[0]
        thread = e.register("tid.x")
        self.lane = b.and_(thread, constant(I32, 31))
        at = b.add(
            b.mul(e.wide(e.register("ctaid.x")), e.index(WARPS_OF_BLOCKS)), e.wide(b.lshr(thread, constant(I32, 5)))
        )
        with e.when(b.icmp_signed("<", at, e.index(total))):
            at, b = e.here(at), e.inner
            self.set_row(b.udiv(at, e.index(self.blocks)) if self.outer > 1 else e.index(0))
            j = b.urem(at, e.index(self.blocks)) if self.outer > 1 else at
            totals = self.reduce_block(group, j, self.lane, [])
            with e.when(e.inner.icmp_unsigned("==", self.lane, constant(I32, 0))):
                for r, base, value in zip(group, parts, totals, strict=True):
                    self.put_part(r, base, at, value)
        self.finish("row-reduce", -(-total // WARPS_OF_BLOCKS))
        self._combine(temporaries)

    def _combine(self, temporaries: list[Symbol]) -> None:
        threads = 128
        e = self.begin(threads, "_combine")
        sources = [self.kernel.argument(symbol) for symbol in temporaries]
        row = e.wide(e.register("ctaid.x"))
        self.set_row(row)
        thread = e.wide(e.register("tid.x"))
        start = e.inner.mul(row, e.index(self.blocks))
        parts = [self.shared_parts(f"p{k}", r, self.blocks) for k, r in enumerate(self.reductions)]

        def fetch(j: Value, _: Sequence[Value]) -> list[Value]:
            for r, source, base in zip(self.reductions, sources, parts, strict=True):
                self.put_part(r, base, j, self.get_part(r, source, e.inner.add(start, j)))
            return []

        counted_loop(e, thread, e.index(self.blocks), threads, fetch)
        e.barrier()
        self.bind_totals(self.reductions, self.combine_parts(self.reductions, parts, self.blocks))
        with e.when(e.inner.icmp_unsigned("==", e.register("tid.x"), constant(I32, 0))):
            self.store_rows()
        self.finish("row-combine", self.outer)
