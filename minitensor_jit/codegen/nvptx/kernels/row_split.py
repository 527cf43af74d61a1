"""Few long rows: a block of threads for each block of the order, and a second kernel that adds up their results.

The order has 64 chains of additions a block, too few to keep the memory busy. So all threads load and compute a chunk
of elements, which goes through shared memory, and the first warp adds it up, two lanes a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...emitter.loops import counted_loop
from ...emitter.types import MEMORY
from ...indexing.indexing_map import AffineExpr
from ...llvm.ir_types import I32, Value, constant
from ...reduction import LANES, Reduction
from .row_held import STAGING_BYTES, is_ordered
from .row_long import SplitRows
from .row_reduction import RowForm, row_width, warp_total

__all__ = ["StagedRows", "fits_staging"]

THREADS = 256
CHUNK = 4096
"""Elements that are in shared memory at a time: a divisor of every block of the order."""
# Elements of a lane that are loaded at a time.
IN_FLIGHT = 8


def fits_staging(rows: RowForm) -> bool:
    """Whether all reductions depend on their order, and a chunk of what they add up fits."""
    nbytes = sum(CHUNK * r.instruction.array_shape.itemsize for r in rows.reductions)
    return nbytes <= STAGING_BYTES and all(is_ordered(r) for r in rows.reductions)


class StagedRows(SplitRows):
    """The kernels."""

    def emit(self) -> None:
        """Emits and launches both."""
        total = self.outer * self.blocks
        e = self.begin(THREADS, "_blocks")
        temporaries = [self.unit.temporary(total * r.instruction.array_shape.itemsize) for r in self.reductions]
        parts = [self.kernel.argument(symbol) for symbol in temporaries]
        b = e.builders[0]
        self.thread = e.register("tid.x")
        self.lane = b.and_(self.thread, constant(I32, 31))
        at = e.wide(e.register("ctaid.x"))
        self.set_row(b.udiv(at, e.index(self.blocks)) if self.outer > 1 else e.index(0))
        j = b.urem(at, e.index(self.blocks)) if self.outer > 1 else at
        self.staging = [e.shared(f"x{k}", MEMORY[r.dtype], CHUNK) for k, r in enumerate(self.reductions)]
        self.sums = [e.shared(f"s{k}", MEMORY[r.dtype], LANES) for k, r in enumerate(self.reductions)]
        self.width = row_width(self)
        with e.when(b.icmp_unsigned("<", self.thread, constant(I32, LANES))):
            for r, sums in zip(self.reductions, self.sums, strict=True):
                self.put_part(r, sums, e.wide(self.thread), r.identity())
        chunks, rest = divmod(self.length, CHUNK)
        chunk = self.space.var("q", chunks)
        per_block = self.block // CHUNK
        first = b.mul(j, e.index(per_block))
        last = b.intrinsic("llvm.smin", b.add(first, e.index(per_block)), e.index(chunks))

        def one(c: Value, _: Sequence[Value]) -> list[Value]:
            e.set_variable(chunk, c)
            self._chunk(chunk * CHUNK, CHUNK)
            return []

        counted_loop(e, first, last, 1, one)
        if rest:
            with e.when(e.inner.icmp_unsigned("==", j, e.index(self.blocks - 1))):
                self._chunk(AffineExpr(chunks * CHUNK), rest)
        e.barrier()
        with e.when(e.inner.icmp_unsigned("<", self.thread, constant(I32, 32))):
            for r, sums, base in zip(self.reductions, self.sums, parts, strict=True):
                value = warp_total(e, r, *self._lanes(r, sums), paired=False)
                with e.when(e.inner.icmp_unsigned("==", self.lane, constant(I32, 0))):
                    self.put_part(r, base, at, value)
        self.finish("row-reduce", total)
        self._combine(temporaries)

    def _lanes(self, r: Reduction, sums: Value) -> list[Value]:
        """The two lanes of this thread."""
        lane = self.e.wide(self.lane)
        return [self.get_part(r, sums, self.e.inner.add(lane, self.e.index(32 * p))) for p in range(2)]

    def _chunk(self, start: AffineExpr, count: int) -> None:
        """Adds up the `count` elements from `start` on. What is missing to a chunk changes no lane."""
        e, width = self.e, self.width
        steps: list[tuple[int, Value | None, list[list[Value]]]] = []
        for at in range(0, CHUNK, THREADS * width):
            there = max(0, min(THREADS, (count - at) // width))
            variable = self.space.var(f"u{at}", there)
            e.set_variable(variable, e.here(e.wide(self.thread)))
            guard = None
            if there < THREADS:
                guard = e.builders[0].icmp_unsigned("<", self.thread, constant(I32, there))
            values: list[list[Value]] = [[] for _ in self.reductions]
            for k in range(width):
                for r, some in zip(self.reductions, values, strict=True):
                    if not there:
                        some.append(r.identity())
                        continue
                    with e.unit(variable, width, k), e.guarded_unit(guard):
                        place = start + variable * width + (at + k)
                        some.append(e.value(r.input, r.input_index(self.space, self.row, place)))
            steps.append((at, guard if there else None, values))
        # The chunk before has been added up.
        e.barrier()
        thread = self.space.var("t", THREADS)
        e.set_variable(thread, e.wide(self.thread))
        for at, guard, values in steps:
            for r, memory, some in zip(self.reductions, self.staging, values, strict=True):
                if guard is not None:
                    some = [e.inner.select(guard, x, r.identity()) for x in some]
                e.store_unit(memory, r.dtype, thread * width + at, some)
        e.barrier()
        with e.when(e.inner.icmp_unsigned("<", self.thread, constant(I32, 32))):
            for r, memory, sums in zip(self.reductions, self.staging, self.sums, strict=True):
                self._add(r, memory, sums)

    def _add(self, r: Reduction, memory: Value, sums: Value) -> None:
        """Adds the chunk in memory to the lanes of this thread."""
        e = self.e
        lane = e.wide(self.lane)

        def round_(q: Value, totals: Sequence[Value]) -> list[Value]:
            b = e.inner
            at = b.add(b.mul(q, e.index(LANES * IN_FLIGHT)), lane)
            places = [b.add(at, e.index(LANES * k + 32 * p)) for k in range(IN_FLIGHT) for p in range(2)]
            both = list(totals)
            for k, x in enumerate([self.get_part(r, memory, place) for place in places]):
                both[k % 2] = r.combine(b, both[k % 2], x)
            return both

        rounds = e.index(CHUNK // LANES // IN_FLIGHT)
        ends = counted_loop(e, e.index(0), rounds, 1, round_, self._lanes(r, sums))
        for p, value in enumerate(ends):
            self.put_part(r, sums, e.inner.add(lane, e.index(32 * p)), value)
