"""Kernels that reduce columns, in the order of the column step (`docs/numerics.md`).

The input is `[outer, length, inner]`, reduced over the middle. Neighbouring columns are the lanes of vectors, and a
few vectors of columns are accumulated at a time while the rows pass by.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.size import Size, hint
from ....runtime.buffer_assignment import Location
from ...columns import Columns
from ...emitter.elemental import Emitter
from ...emitter.loops import counted_loop, i64
from ...emitter.types import MEMORY
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.space import delinearize_rows, refine
from ...kernel_spec import KernelSpec, Root
from ...llvm.ir_types import Value
from ...reduction import Reduction
from ..unit import Unit
from .column_panel import ColumnPanel
from .loop_kernel import copies_for, fewer_lanes
from .vector_loops import lane_mask, tail_mask, vector_variables

__all__ = ["ColumnKernel"]

# Columns of fewer rows than this are not worth a panel.
LONG = 16
# With fewer units of parallel work than this for each thread, the blocks of the columns run in parallel too.
FEW_UNITS = 8


class ColumnKernel(Columns):
    """The kernel of a fusion whose reductions are column steps of one shape.

    The constructor raises `CompileError` if the fusion has another form.
    """

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, spec: KernelSpec, found: list[Reduction]) -> None:
        super().__init__(spec, found)
        self.unit = unit
        instructions = list(self.instructions)
        self.nest = refine(self.kept, self.forms, max(1, unit.lanes(instructions) // 4), {self.inner})
        self.lanes = fewer_lanes(unit.free_lanes(instructions, self.nest.inner), self.nest.inner)

    # ---- the kernel

    def emit(self) -> None:
        """Emits and launches it."""
        width = self.nest.inner
        # For more columns there are more tiles, and copies beyond fewer are masked.
        self.copies = min(copies_for(self.cost * len(self.reductions)), hint(-(-width // self.lanes)))
        self.tile = self.lanes * self.copies
        self.tiles = -(-width // self.tile)
        # Of so many columns that it isn't known, there may be several.
        self.tiled = isinstance(self.tiles, Size) or self.tiles > 1
        units = self.kept // width * self.tiles
        work = self.kept * self.length * self.cost
        threshold = self.unit.options.parallel_threshold
        # A tile reads short pieces of rows. Where there are several tiles a row, longer pieces are read faster.
        panel = ColumnPanel(self) if hint(self.length) >= LONG and self.tiles > 1 else None
        main_units = panel.units if panel is not None else units
        few = hint(main_units) < FEW_UNITS * self.unit.options.threads
        if hint(self.blocks) > 1 and few and not self.element_roots and hint(work) > 4 * threshold:
            parts = [
                self.unit.temporary(self.blocks * self.kept * r.instruction.array_shape.itemsize)
                for r in self.reductions
            ]
            if panel is None:
                self._emit(units * self.blocks, work, parts, writes_parts=True)
            else:
                e = self._kernel(".blocks")
                panel.emit(work, [self.unit.result_pointer(e, p) for p in parts], e, self.space)
            self._emit(units, self.kept * self.blocks, parts, writes_parts=False)
        elif panel is None:
            self._emit(units, work, None, writes_parts=False)
        else:
            panel.emit(work, None, self._kernel(""), self.space)

    def _kernel(self, suffix: str) -> Emitter:
        self.space = Space()
        return self.unit.kernel(self.spec, self.lanes, self.space, suffix=suffix)

    def _emit(self, units: int, work: int, parts: list[Location] | None, *, writes_parts: bool) -> None:
        e = self.e = self._kernel("" if parts is None else ".blocks" if writes_parts else ".combine")
        space = self.space
        self.outer_variables = self.nest.variables(space, "o")[:-1]
        self.variables = vector_variables(space, self.nest.inner, self.lanes, self.copies)
        self.r = space.var("r", self.length)
        self.targets = [self.unit.result_pointer(e, at) for at in self.spec.results]
        self.parts = None if parts is None else [self.unit.result_pointer(e, p) for p in parts]

        def one(p: Value, _: Sequence[Value]) -> list[Value]:
            b = e.at(p)
            block: Value | None = None
            if writes_parts:
                block, p = b.urem(p, i64(self.blocks)), b.udiv(p, i64(self.blocks))
            row = p
            if self.tiled:
                row, p = b.udiv(p, i64(self.tiles)), b.urem(p, i64(self.tiles))
            delinearize_rows(e, row, self.outer_variables, self.nest.extents[:-1])
            at = b.mul(p, i64(self.tile)) if self.tiled else i64(0)
            masks = self._place(at)
            if block is not None:
                self._write_part(masks, block)
            elif parts is not None:
                self._finish(masks, self._combine_parts(masks))
            else:
                self._finish(masks, self._reduce(masks))
            return []

        if units == 1:
            one(i64(0), [])
        else:
            counted_loop(e, e.function.arguments[1], e.function.arguments[2], 1, one)
        e.inner.ret()
        self.unit.launch(e.function, units, work)

    def _place(self, at: Value) -> list[Value | None]:
        """Sets the variables of the vectors of one tile; their masks."""
        e, width = self.e, self.nest.inner
        masks: list[Value | None] = []
        for k in range(self.copies):
            offset = k * self.lanes
            if at.ref[0] != "%":
                first = int(at.ref) + offset
                e.set_variable(self.variables[k], i64(first))
                masks.append(None if first + self.lanes <= width else lane_mask(self.lanes, width - first))
            else:
                b = e.at(at)
                start = b.add(at, i64(offset)) if offset else at
                e.set_variable(self.variables[k], start)
                whole = width % self.tile == 0
                masks.append(None if whole else tail_mask(b, self.lanes, b.sub(i64(width), start)))
        return masks

    def kept_at(self, k: int) -> AffineExpr:
        """The flat number of the kept elements in vector k."""
        return self.nest.flat([*self.outer_variables, self.variables[k]])

    def _reduce(self, masks: list[Value | None]) -> list[Value]:
        """The totals of all blocks: for each reduction, one vector a copy."""
        e = self.e
        if self.blocks == 1:
            return self._reduce_block(masks, i64(0), i64(self.length))

        def block(j: Value, totals: Sequence[Value]) -> list[Value]:
            parts = self._reduce_block(masks, *self.bounds(self.e, j))
            return self._combine(totals, parts)

        return counted_loop(e, i64(0), i64(self.blocks), 1, block, self._identities(masks))

    def bounds(self, e: Emitter, j: Value) -> tuple[Value, Value]:
        """The rows of block j."""
        b = e.at(j)
        begin = b.mul(j, i64(self.block))
        return begin, b.intrinsic("llvm.smin", b.add(begin, i64(self.block)), i64(self.length))

    def _identities(self, masks: list[Value | None]) -> list[Value]:
        return [r.identity(self.lanes) for r in self.reductions for _ in masks]

    def _combine(self, totals: Sequence[Value], parts: Sequence[Value]) -> list[Value]:
        each = [r for r in self.reductions for _ in range(self.copies)]
        return [r.combine(self.e.at(t, p), t, p) for r, t, p in zip(each, totals, parts, strict=True)]

    def _reduce_block(self, masks: list[Value | None], begin: Value, end: Value) -> list[Value]:
        e = self.e

        def row(r: Value, totals: Sequence[Value]) -> list[Value]:
            e.set_variable(self.r, r)
            values: list[list[Value]] = [[] for _ in self.reductions]
            for k, mask in enumerate(masks):
                with e.vectorized(self.variables[k]), e.masked(mask):
                    kept = self.kept_at(k)
                    for n, reduction in enumerate(self.reductions):
                        x = e.value(reduction.input, reduction.input_index(self.space, kept, self.r))
                        values[n].append(e.splat(x, self.lanes))
                    self.store_elements(e, self.space, self.element(self.space, kept, self.r), self.targets)
            return self._combine(totals, [v for some in values for v in some])

        return counted_loop(e, begin, end, 1, row, self._identities(masks))

    def store_elements(self, e: Emitter, space: Space, at: AffineExpr, targets: list[Value]) -> None:
        """Stores what has the input's shape, at element `at`."""
        self._store(e, space, self.element_roots, at, targets)

    def store_kept(
        self, e: Emitter, space: Space, kept: AffineExpr, totals: Sequence[Value], targets: list[Value]
    ) -> None:
        """Combines one vector of totals with the initial values, and stores what has one element a column."""
        for reduction, total in zip(self.reductions, totals, strict=True):
            initial = e.splat(e.value(reduction.instruction.operands[1], ()), self.lanes)
            value = reduction.combine(e.at(initial, total), initial, total)
            e.results[reduction.instruction] = (kept, value)
        self._store(e, space, self.kept_roots, kept, targets)

    @staticmethod
    def _store(e: Emitter, space: Space, roots: list[Root], at: AffineExpr, targets: list[Value]) -> None:
        values = [e.value(i, space.delinearize(at, i.dims)) for i, _ in roots]
        for (i, n), value in zip(roots, values, strict=True):
            e.store(targets[n], i.dtype, at, value)

    def _finish(self, masks: list[Value | None], totals: Sequence[Value]) -> None:
        for k, mask in enumerate(masks):
            with self.e.vectorized(self.variables[k]), self.e.masked(mask):
                own = [totals[n * self.copies + k] for n in range(len(self.reductions))]
                self.store_kept(self.e, self.space, self.kept_at(k), own, self.targets)

    # ---- blocks in parallel: parts are [blocks, kept]

    def _write_part(self, masks: list[Value | None], block: Value) -> None:
        e = self.e
        assert self.parts is not None
        totals = self._reduce_block(masks, *self.bounds(e, block))
        offset = e.at(block).mul(block, i64(self.kept))
        for k, mask in enumerate(masks):
            with e.vectorized(self.variables[k]), e.masked(mask):
                for n, r in enumerate(self.reductions):
                    base = self._at_block(n, r, offset)
                    e.store(base, r.dtype, self.kept_at(k), totals[n * self.copies + k])

    def _at_block(self, n: int, r: Reduction, offset: Value) -> Value:
        assert self.parts is not None
        return self.e.at(offset).gep(self.parts[n], offset, MEMORY[r.dtype])

    def _combine_parts(self, masks: list[Value | None]) -> list[Value]:
        e = self.e

        def part(j: Value, totals: Sequence[Value]) -> list[Value]:
            offset = e.at(j).mul(j, i64(self.kept))
            values = []
            for n, r in enumerate(self.reductions):
                base = self._at_block(n, r, offset)
                for k, mask in enumerate(masks):
                    with e.vectorized(self.variables[k]), e.masked(mask):
                        values.append(e.load(base, r.dtype, self.kept_at(k)))
            return self._combine(totals, values)

        return counted_loop(e, i64(0), i64(self.blocks), 1, part, self._identities(masks))
