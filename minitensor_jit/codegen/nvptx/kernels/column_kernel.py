"""Kernels that reduce columns, in the order of the column step (`docs/numerics.md`).

A thread has a few neighbouring columns, with an accumulator for each. Where the columns are too few for the device,
the blocks of the order have threads of their own, and a second kernel combines their results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...columns import Columns
from ...emitter.loops import counted_loop
from ...emitter.types import MEMORY
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.space import delinearize_rows, refine
from ...kernel_spec import KernelSpec, Root
from ...llvm.ir_types import Value
from ...reduction import Reduction
from ..emitter import ACCESS_BYTES, GpuEmitter
from ..unit import GpuUnit, Kernel, Symbol
from .loop_kernel import largest_index, threads_for

__all__ = ["ColumnKernel"]

# Rows that are on their way at a time, and how long the code of a thread may be, in simple operations.
ROWS = 4
LONGEST = 512
# Block results that are combined at a time.
COMBINED = 8


class ColumnKernel(Columns):
    """The kernel of a fusion whose reductions are column steps of one shape."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: GpuUnit, spec: KernelSpec, found: list[Reduction]) -> None:
        super().__init__(spec, found)
        self.unit = unit
        self.nest = refine(self.kept, self.forms, 1, {self.inner})

    def emit(self) -> None:
        """Emits and launches it."""
        self.width = self._width()
        target = self.unit.target
        resident = target.multiprocessors * target.threads_per_multiprocessor
        if self.blocks == 1 or self.element_roots or self.kept // self.width >= resident:
            self._emit_whole()
            return
        parts = [
            self.unit.temporary(self.blocks * self.kept * r.instruction.array_shape.itemsize) for r in self.reductions
        ]
        self._emit_blocks(parts)
        self._emit_combine(parts)

    def _width(self) -> int:
        arrays = [i for i in self.instructions if i.parameter_number is not None and i.array_shape.size >= self.inner]
        sizes = [i.array_shape.itemsize for i in (*arrays, *(r for r, _ in self.element_roots))] or [4]
        width = min(4, ACCESS_BYTES // min(sizes), max(1, 2 * ACCESS_BYTES // max(sizes)))
        if self.kept < self.unit.options.least_vector_elements // 16:
            width = 1
        while width > 1 and (self.nest.inner % width or width * ROWS * self.cost > LONGEST):
            width //= 2
        return max(1, width)

    # ---- the kernels

    def _begin(self, suffix: str) -> GpuEmitter:
        self.space = Space()
        roots = [r for r, _ in self.spec.roots]
        largest = max(largest_index([*self.instructions, *roots]), 2 * self.blocks * self.kept)
        units = self.kept // self.width
        self.kernel = Kernel(self.unit, self.spec, self.space, threads_for(units), largest, suffix)
        self.e = self.kernel.e
        self.kernel.bind(roots, (), self.conditional)
        outer = self.nest.variables(self.space, "o")[:-1]
        self.column = self.space.var("t", self.nest.inner // self.width)
        self.variables = [*outer, self.column]
        self.kept_at = self.nest.flat([*outer, self.column * self.width])
        return self.e

    def _with_columns(self, body: Callable[[], None]) -> int:
        """The body for the columns of each thread; the number of blocks."""
        e, units = self.e, self.kept // self.width
        blocks = -(-units // self.kernel.threads)
        at = self.kernel.thread()
        exact = blocks * self.kernel.threads == units
        with e.when(None if exact else e.inner.icmp_signed("<", at, e.index(units))):
            extents = (*self.nest.extents[:-1], self.nest.inner // self.width)
            delinearize_rows(e, e.here(at), self.variables, extents)
            body()
        return blocks

    def _finish(self, kind: str, blocks: int, rows: int = 1) -> None:
        operations = self.kept * self.length * self.cost
        self.kernel.launch(blocks, kind, self.kernel.traffic(self.spec.roots), operations, rows)

    def _emit_whole(self) -> None:
        e = self._begin("")

        def body() -> None:
            if self.blocks == 1:
                totals = self._reduce_block(None)
            else:
                start = self._identities()
                totals = counted_loop(
                    e, e.index(0), e.index(self.blocks), 1, lambda j, t: self._combine(t, self._reduce_block(j)), start
                )
            self._store_kept(totals)

        self._finish("column-reduce", self._with_columns(body))

    def _emit_blocks(self, parts: Sequence[Symbol]) -> None:
        e = self._begin("_blocks")
        pointers = [self.kernel.argument(symbol) for symbol in parts]

        def body() -> None:
            j = e.wide(e.register("ctaid.y"))
            totals = self._reduce_block(j)
            offset = e.inner.mul(j, e.index(self.kept))
            for n, (r, pointer) in enumerate(zip(self.reductions, pointers, strict=True)):
                base = e.inner.gep(pointer, offset, MEMORY[r.dtype])
                e.store_unit(base, r.dtype, self.kept_at, totals[n * self.width : (n + 1) * self.width])

        self._finish("column-reduce", self._with_columns(body), self.blocks)

    def _emit_combine(self, parts: Sequence[Symbol]) -> None:
        e = self._begin("_combine")
        pointers = [self.kernel.argument(symbol) for symbol in parts]

        def some(first: Value, totals: Sequence[Value], count: int) -> list[Value]:
            rows: list[list[Value]] = []
            for k in range(count):
                offset = e.inner.mul(e.inner.add(first, e.index(k)), e.index(self.kept))
                row = []
                for r, pointer in zip(self.reductions, pointers, strict=True):
                    base = e.inner.gep(pointer, offset, MEMORY[r.dtype])
                    e.wide_bases.add(base.ref)
                    for v in range(self.width):
                        with e.unit(self.column, self.width, v):
                            row.append(e.load(base, r.dtype, self.kept_at + v))
                rows.append(row)
            for row in rows:
                totals = self._combine(totals, row)
            return list(totals)

        def body() -> None:
            whole = self.blocks // COMBINED * COMBINED
            totals = self._identities()
            if whole:
                totals = counted_loop(
                    e, e.index(0), e.index(whole), COMBINED, lambda j, t: some(j, t, COMBINED), totals
                )
            if whole < self.blocks:
                totals = some(e.index(whole), totals, self.blocks - whole)
            self._store_kept(totals)

        self._finish("column-combine", self._with_columns(body))

    # ---- the rows of a block

    def _identities(self) -> list[Value]:
        return [r.identity() for r in self.reductions for _ in range(self.width)]

    def _combine(self, totals: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        each = [r for r in self.reductions for _ in range(self.width)]
        return [r.combine(self.e.at(t, v), t, v) for r, t, v in zip(each, totals, values, strict=True)]

    def _reduce_block(self, j: Value | None) -> list[Value]:
        """Block j of the order, or all rows."""
        e = self.e
        rounds, rest = divmod(self.length, ROWS)
        totals = self._identities()
        if rounds:
            q = self.space.var("q", rounds)
            first, last = e.index(0), e.index(rounds)
            if j is not None:
                per_block = self.block // ROWS
                first = e.inner.mul(j, e.index(per_block))
                last = e.inner.intrinsic("llvm.smin", e.inner.add(first, e.index(per_block)), last)

            def round_(at: Value, carried: Sequence[Value]) -> list[Value]:
                e.set_variable(q, at)
                return self._take([q * ROWS + k for k in range(ROWS)], carried, None)

            totals = counted_loop(e, first, last, 1, round_, totals)
        if rest:
            mine = None if j is None else e.inner.icmp_unsigned("==", j, e.index(self.blocks - 1))
            totals = self._take([AffineExpr(rounds * ROWS + k) for k in range(rest)], totals, mine)
        return totals

    def _take(self, rows: Sequence[AffineExpr], totals: Sequence[Value], guard: Value | None) -> list[Value]:
        """Takes in rows one after the other, after all of their loads; stores what has their shape."""
        e, width = self.e, self.width
        seen: list[list[Value]] = []
        stored: list[tuple[Root, AffineExpr, list[Value]]] = []
        for r in rows:
            values: list[list[Value]] = [[] for _ in self.reductions]
            kept: list[list[Value]] = [[] for _ in self.element_roots]
            for v in range(width):
                at = self.kept_at + v
                with e.unit(self.column, width, v), e.guarded_unit(guard):
                    for red, some in zip(self.reductions, values, strict=True):
                        some.append(e.value(red.input, red.input_index(self.space, at, r)))
                    for (i, _), some in zip(self.element_roots, kept, strict=True):
                        some.append(e.value(i, self.space.delinearize(self.element(self.space, at, r), i.dims)))
            seen.append([x for some in values for x in some])
            first = self.element(self.space, self.kept_at, r)
            stored += [(root, first, some) for root, some in zip(self.element_roots, kept, strict=True)]
        for row in seen:
            if guard is not None:
                each = [red for red in self.reductions for _ in range(width)]
                row = [e.inner.select(guard, x, red.identity()) for red, x in zip(each, row, strict=True)]
            totals = self._combine(totals, row)
        with e.when(guard if stored else None):
            for (i, n), first, some in stored:
                e.store_unit(self.kernel.result(n), i.dtype, first, some)
        return list(totals)

    def _store_kept(self, totals: Sequence[Value]) -> None:
        """Combines the totals with the initial values, and stores what has one element a column."""
        e = self.e
        found: list[list[Value]] = [[] for _ in self.kept_roots]
        for v in range(self.width):
            at = self.kept_at + v
            for n, red in enumerate(self.reductions):
                initial, total = e.value(red.instruction.operands[1], ()), totals[n * self.width + v]
                e.results[red.instruction] = (at, red.combine(e.at(initial, total), initial, total))
            with e.unit(self.column, self.width, v):
                for (i, _), some in zip(self.kept_roots, found, strict=True):
                    some.append(e.value(i, self.space.delinearize(at, i.dims)))
        for (i, n), some in zip(self.kept_roots, found, strict=True):
            e.store_unit(self.kernel.result(n), i.dtype, self.kept_at, some)
