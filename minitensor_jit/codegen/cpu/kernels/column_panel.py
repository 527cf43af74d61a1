"""The column step for wide inputs: a panel of columns whose accumulators stay in the first-level cache.

Rows are read from end to end, a few at a time, as memory likes it best. The order of summation is that of the
column kernel: each accumulator takes the elements of its column one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from minitensor_jit.ir.size import Size

from ...emitter.elemental import Emitter
from ...emitter.loops import counted_loop, i64
from ...emitter.types import MEMORY
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.space import delinearize_rows
from ...llvm.ir_types import Value
from ...reduction import Reduction
from .vector_loops import vector_loop

if TYPE_CHECKING:
    from .column_kernel import ColumnKernel

__all__ = ["ColumnPanel"]

# Columns of a panel: with two reductions of float64 their accumulators are half of a small first-level cache.
PANEL = 1024


class ColumnPanel:
    """The main pass of a column kernel, panel by panel."""

    def __init__(self, kernel: ColumnKernel) -> None:
        self.kernel = kernel
        width = kernel.nest.inner
        self.panel = PANEL
        self.panels = -(-width // PANEL)
        if not isinstance(width, Size):  # the accumulators' memory is of a size that is known
            self.panel = -(-width // (self.panels * kernel.lanes)) * kernel.lanes
            self.panels = -(-width // self.panel)
        self.units = kernel.kept // width * self.panels
        # Rows that are taken in together, for each load and store of the accumulators.
        self.rows = 4 if kernel.cost <= 6 else 2 if kernel.cost <= 16 else 1

    def emit(self, work: int, parts: list[Value] | None, e: Emitter, space: Space) -> None:
        """Emits the kernel into `e` and launches it; with `parts`, one unit for each block, which is stored there."""
        self.e, self.space = e, space
        kernel = self.kernel
        self.outer_variables = kernel.nest.variables(space, "o")[:-1]
        self.targets = [] if parts is not None else [kernel.unit.result_pointer(e, at) for at in kernel.spec.results]
        self.buffers = [e.function.alloca(MEMORY[r.dtype], self.panel) for r in kernel.reductions]
        several = kernel.blocks != 1 and parts is None
        self.totals = [e.function.alloca(MEMORY[r.dtype], self.panel) for r in kernel.reductions] if several else []

        def one(p: Value, _: Sequence[Value]) -> list[Value]:
            b = e.at(p)
            block: Value | None = None
            if parts is not None:
                block, p = b.urem(p, i64(kernel.blocks)), b.udiv(p, i64(kernel.blocks))
            row = p
            if self.panels > 1:
                row, p = b.udiv(p, i64(self.panels)), b.urem(p, i64(self.panels))
            delinearize_rows(e, row, self.outer_variables, kernel.nest.extents[:-1])
            width = i64(kernel.nest.inner)
            self.begin, self.end = i64(0), width
            if self.panels > 1:
                self.begin = b.mul(p, i64(self.panel))
                self.end = b.intrinsic("llvm.smin", b.add(self.begin, i64(self.panel)), width)
            self._panel(block, parts)
            return []

        units = self.units * (kernel.blocks if parts is not None else 1)
        counted_loop(e, e.function.arguments[1], e.function.arguments[2], 1, one)
        e.inner.ret()
        kernel.unit.launch(e.function, units, work)

    def _panel(self, block: Value | None, parts: list[Value] | None) -> None:
        e, kernel = self.e, self.kernel
        if block is not None and parts is not None:
            self._block(*kernel.bounds(e, block))
            offset = e.at(block).mul(block, i64(kernel.kept))
            self._columns(lambda v: self._store_part(v, parts, offset))
        elif self.totals:
            self._fill(self.totals)

            def add(j: Value, _: Sequence[Value]) -> list[Value]:
                self._block(*kernel.bounds(e, j))
                self._columns(self._add_to_totals)
                return []

            counted_loop(e, i64(0), i64(kernel.blocks), 1, add)
            self._columns(lambda v: self._finish(v, self.totals))
        else:
            self._block(i64(0), i64(kernel.length))
            self._columns(lambda v: self._finish(v, self.buffers))

    # ---- one block

    def _fill(self, buffers: list[Value]) -> None:
        """Sets accumulators to the identity."""
        e, lanes = self.e, self.kernel.lanes

        def fill(at: Value, _: Sequence[Value]) -> list[Value]:
            for r, base in zip(self.kernel.reductions, buffers, strict=True):
                e.inner.store(r.memory_identity(e.inner, lanes), e.inner.gep(base, at, MEMORY[r.dtype]), 1)
            return []

        counted_loop(e, i64(0), i64(self.panel), lanes, fill)

    def _block(self, begin: Value, end: Value) -> None:
        """Takes the rows `begin <= r < end` into fresh accumulators."""
        e, kernel = self.e, self.kernel
        self._fill(self.buffers)
        b = e.at(begin, end)
        count = b.sub(end, begin) if end.ref[0] == "%" else i64(kernel.length)
        whole = (
            b.add(begin, b.and_(count, i64(-self.rows)))
            if end.ref[0] == "%"
            else i64(kernel.length // self.rows * self.rows)
        )
        self._rows(begin, whole, self.rows)
        if self.rows > 1 and kernel.length % self.rows:
            self._rows(whole, end, 1)

    def _rows(self, begin: Value, end: Value, rows: int) -> None:
        e, kernel = self.e, self.kernel
        variables = [self.space.var(f"r{k}", kernel.length) for k in range(rows)]

        def some(r: Value, _: Sequence[Value]) -> list[Value]:
            for k, variable in enumerate(variables):
                constant = r.ref[0] != "%"
                e.set_variable(variable, i64(int(r.ref) + k) if constant else e.at(r).add(r, i64(k)) if k else r)
            self._columns(lambda v: self._take(v, variables))
            return []

        counted_loop(e, begin, end, rows, some)

    # ---- one vector of columns

    def _columns(self, body: Callable[[AffineExpr], None]) -> None:
        vector_loop(self.e, self.kernel.nest.inner, 1, self.begin, self.end, lambda v, _: body(v))

    def _kept(self, v: AffineExpr) -> AffineExpr:
        return self.kernel.nest.flat([*self.outer_variables, v])

    def _base(self, buffer: Value, r: Reduction) -> Value:
        """An address from which a buffer's elements are numbered like the columns."""
        if self.begin.ref == "0":
            return buffer
        b = self.e.at(self.begin)
        return b.gep(buffer, b.sub(i64(0), self.begin), MEMORY[r.dtype])

    def _take(self, v: AffineExpr, rows: list[AffineExpr]) -> None:
        e, kernel, space = self.e, self.kernel, self.space
        kept = self._kept(v)
        inputs = [
            [e.splat(e.value(r.input, r.input_index(space, kept, row)), kernel.lanes) for row in rows]
            for r in kernel.reductions
        ]
        for row in rows:
            kernel.store_elements(e, space, kernel.element(space, kept, row), self.targets)
        for r, values, buffer in zip(kernel.reductions, inputs, self.buffers, strict=True):
            base = self._base(buffer, r)
            total = e.load(base, r.dtype, v, mutable=True)
            for value in values:
                total = r.combine(e.at(total, value), total, value)
            e.store(base, r.dtype, v, total, in_place=True)

    def _add_to_totals(self, v: AffineExpr) -> None:
        e = self.e
        for r, total, part in zip(self.kernel.reductions, self.totals, self.buffers, strict=True):
            base = self._base(total, r)
            a, x = e.load(base, r.dtype, v, mutable=True), e.load(self._base(part, r), r.dtype, v, mutable=True)
            e.store(base, r.dtype, v, r.combine(e.at(a, x), a, x), in_place=True)

    def _store_part(self, v: AffineExpr, parts: list[Value], offset: Value) -> None:
        e = self.e
        for r, part, buffer in zip(self.kernel.reductions, parts, self.buffers, strict=True):
            base = e.at(offset).gep(part, offset, MEMORY[r.dtype])
            e.store(base, r.dtype, self._kept(v), e.load(self._base(buffer, r), r.dtype, v, mutable=True))

    def _finish(self, v: AffineExpr, totals: list[Value]) -> None:
        e = self.e
        loaded = [
            e.load(self._base(t, r), r.dtype, v, mutable=True)
            for t, r in zip(totals, self.kernel.reductions, strict=True)
        ]
        self.kernel.store_kept(e, self.space, self._kept(v), loaded, self.targets)
