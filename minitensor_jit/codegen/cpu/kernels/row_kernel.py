"""Kernels that reduce rows, in the order of the row step (`docs/numerics.md`).

One kernel handles a whole fusion over rows of `length` elements: any number of reductions, whose inputs may depend on
earlier reductions of the same row (softmax), elementwise results of the row's shape, and results with one element a
row. The row is passed over once for each level of dependence; costly values are kept in a stack buffer from one pass
to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.module import Instruction
from ....ir.size import Size, hint
from ....runtime.buffer_assignment import Location
from ...emitter.elemental import Emitter
from ...emitter.loops import counted_loop, i64, is_constant
from ...emitter.types import MEMORY
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.space import delinearize_rows
from ...kernel_spec import KernelSpec, Root
from ...llvm.ir_types import I64, Value
from ...reduction import LANES, Reduction, fold_lanes
from ...rows import Rows
from ..unit import Unit
from .kept_values import kept_values
from .loop_kernel import copies_for, fewer_lanes
from .row_per_lane import emit_row_per_lane, fits_row_per_lane
from .vector_loops import static_masks, tail_mask, vector_loop, vector_variables

__all__ = ["RowKernel"]

# Work of one unrolled round of a row above which the loop is rolled up instead, to spare compile time.
UNROLLED_COST = 128
# Inputs of so many elements come from memory: there it helps to announce loads, also across pages.
LARGE = 1 << 21
PREFETCH_DISTANCE = 1024
# Fewer rows than this for each thread are divided into blocks that run in parallel.
FEW_ROWS = 16


class RowKernel(Rows):
    """The kernel of a fusion whose reductions are row steps of one shape.

    The constructor raises `CompileError` if the fusion has another form.
    """

    def __init__(self, unit: Unit, spec: KernelSpec, found: list[Reduction]) -> None:
        super().__init__(spec, found)
        self.unit = unit
        # All accumulators of a row as one vector: as many elements as a call of a loop had better have.
        wide = hint(self.length) >= LANES and unit.calls_loops(self.instructions)
        lanes = LANES if wide else unit.lanes(list(self.instructions))
        self.lanes = fewer_lanes(lanes, self.length)

    # ---- the kernel

    def emit(self) -> None:
        """Emits and launches it."""
        work = self.outer * self.length * self.cost
        options = self.unit.options
        single = self.stages == 1 and not self.element_roots
        few = hint(self.outer) < FEW_ROWS * options.threads
        if single and few and hint(self.blocks) > 1 and hint(work) > options.parallel_threshold:
            self._emit_blocks(work)
            return
        if fits_row_per_lane(self.unit, self):
            emit_row_per_lane(self.unit, self)
            return
        e = self._begin()

        def row(p: Value, _: Sequence[Value]) -> list[Value]:
            delinearize_rows(e, p, self.outer_variables, self.nest.extents)
            self._row()
            return []

        if self.outer == 1:
            self._row()
        else:
            counted_loop(e, e.function.arguments[1], e.function.arguments[2], 1, row)
        e.inner.ret()
        self.unit.launch(e.function, self.outer, work)

    def _begin(self, suffix: str = "") -> Emitter:
        space = Space()
        self.space = space
        e = self.e = self.unit.kernel(self.spec, self.lanes, space, suffix=suffix)
        self.outer_variables = self.nest.variables(space, "o")
        self.row = self.nest.flat(self.outer_variables)
        per_round = max(1, LANES // self.lanes)
        vectors = -(-self.length // self.lanes)
        # A short row is straight code: the values of one pass are still in registers in the next.
        self.straight = not isinstance(self.length, Size)
        self.straight &= hint(vectors) <= max(per_round, 8) and hint(vectors) * self.cost <= 2 * UNROLLED_COST
        # Lanes of pred have no place in memory of their own width, and their reductions are cheap.
        self.rolled = not self.straight and per_round * self.cost > UNROLLED_COST
        self.rolled &= all(r.dtype != "pred" for r in self.reductions)
        self.copies = vectors if self.straight else per_round
        # Short rows use the same variables in all passes, so that later passes find the values of earlier ones.
        self.variables = self._fresh() if self.straight else []
        self.targets = [self.unit.result_pointer(e, location) for location in self.spec.results]
        self.cached = self._plan_cached() if self.stages > 1 and not self.straight else {}
        return e

    def _fresh(self) -> list[AffineExpr]:
        return vector_variables(self.space, self.length, self.lanes, self.copies)

    def _row(self) -> None:
        """Everything of one row: the passes, then what has one element a row."""
        e = self.e
        e.results.clear()
        for i in self.cached:
            e.pointers.pop(i, None)
        for stage in range(self.stages):
            group = [r for r in self.reductions if self.stage_of[r.input] == stage]
            roots = [(r, at) for r, at in self.element_roots if self.stage_of[r] == stage]
            kept = [i for i in self.cached if self.cached[i][0] == stage]
            if group:
                self._bind(group, self._reduce_row(group, roots, kept))
            elif roots:
                self._map_row(roots)
            for i in kept:
                self._use_cached(i)
        self._store_rows()

    def _store_rows(self) -> None:
        e = self.e
        values = [e.value(root, self.space.delinearize(self.row, root.dims)) for root, _ in self.row_roots]
        for (root, n), value in zip(self.row_roots, values, strict=True):
            e.store(self.targets[n], root.dtype, self.row, value)

    def _bind(self, group: list[Reduction], totals: Sequence[Value]) -> None:
        """Totals combined with the initial values are the results of the reduces."""
        for reduction, total in zip(group, totals, strict=True):
            initial = self.e.value(reduction.instruction.operands[1], ())
            value = reduction.combine(self.e.at(initial, total), initial, total)
            self.e.results[reduction.instruction] = (self.row, value)

    # ---- passes

    def _visit(self, at: AffineExpr, roots: list[Root], kept: list[Instruction]) -> None:
        """Stores the elementwise results of one vector."""
        e = self.e
        values = [e.value(root, self.element_index(self.space, root, self.row, at)) for root, _ in roots]
        for (root, n), value in zip(roots, values, strict=True):
            e.store(self.targets[n], root.dtype, self.row * self.length + at, value)
        for i in kept:
            value = e.value(i, self.element_index(self.space, i, self.row, at))
            e.store(self.cached[i][1], i.dtype, at, value)

    def _map_row(self, roots: list[Root]) -> None:
        if self.straight:
            self._accumulate([], i64(0), static_masks(self.lanes, self.length), [], roots, [])
            return
        count = min(self.copies, copies_for(self.cost))
        vector_loop(self.e, self.length, count, i64(0), i64(self.length), lambda at, _: self._visit(at, roots, []))

    def _reduce_row(self, group: list[Reduction], roots: list[Root], kept: list[Instruction]) -> list[Value]:
        e = self.e
        if self.straight:
            masks = static_masks(self.lanes, self.length)
            accumulators = self._accumulate(group, i64(0), masks, self._identities(group, len(masks)), roots, kept)
            return self._fold(group, accumulators)
        if self.blocks == 1:
            return self._reduce_block(group, i64(0), i64(self.length), roots, kept)

        def block(j: Value, totals: Sequence[Value]) -> list[Value]:
            begin, end = self._block_bounds(j)
            parts = self._reduce_block(group, begin, end, roots, kept)
            return [r.combine(e.inner, t, p) for r, t, p in zip(group, totals, parts, strict=True)]

        # Starting at the identity changes no bit: a block result never is -0.
        return counted_loop(e, i64(0), i64(self.blocks), 1, block, [r.identity() for r in group])

    def _block_bounds(self, j: Value) -> tuple[Value, Value]:
        b = self.e.at(j)
        begin = b.mul(j, i64(self.block))
        return begin, b.intrinsic("llvm.smin", b.add(begin, i64(self.block)), i64(self.length))

    def _identities(self, group: list[Reduction], vectors: int) -> list[list[Value]]:
        lanes = min(vectors, max(1, LANES // self.lanes))
        return [[r.identity(self.lanes)] * lanes for r in group]

    def _fold(self, group: list[Reduction], accumulators: list[list[Value]]) -> list[Value]:
        return [fold_lanes(self.e.at(*vectors), r, vectors) for r, vectors in zip(group, accumulators, strict=True)]

    def _accumulate(
        self,
        group: list[Reduction],
        at: Value,
        masks: Sequence[Value | None],
        accumulators: list[list[Value]],
        roots: list[Root],
        kept: list[Instruction],
    ) -> list[list[Value]]:
        """Takes in consecutive vectors that begin at `at`, one for each mask."""
        e = self.e
        totals = [list(vectors) for vectors in accumulators]
        variables = self.variables or self._fresh()
        for k, mask in enumerate(masks):
            variable = variables[k]
            offset = k * self.lanes
            constant = at.ref[0] != "%"
            shifted = i64(int(at.ref) + offset) if constant else e.at(at).add(at, i64(offset)) if k else at
            e.set_variable(variable, shifted)
            with e.vectorized(variable), e.masked(mask):
                for j, reduction in enumerate(group):
                    x = e.value(reduction.input, reduction.input_index(self.space, self.row, variable))
                    x = e.splat(x, self.lanes)
                    if mask is not None:
                        x = e.at(x, mask).select(mask, x, reduction.neutral(self.lanes))
                    slot = k % len(totals[j])
                    totals[j][slot] = reduction.combine(e.at(x, totals[j][slot]), totals[j][slot], x)
                self._visit(variable, roots, kept)
        return totals

    def _reduce_block(
        self, group: list[Reduction], begin: Value, end: Value, roots: list[Root], kept: list[Instruction]
    ) -> list[Value]:
        """The block `begin <= r < end`; `begin` is a multiple of the number of lanes of a round."""
        if self.rolled:
            return self._reduce_block_rolled(group, begin, end, roots, kept)
        e = self.e
        whole = self.length // LANES * LANES
        if end.ref[0] != "%":
            main_end = i64(min(int(end.ref), whole))
            masks = static_masks(self.lanes, max(0, int(end.ref) - whole))
        else:
            main_end = e.at(end).intrinsic("llvm.smin", end, i64(whole))
            # Only the last block has a rest; in the others the masks are empty.
            rest = -(-(self.length - whole) // self.lanes) if not isinstance(whole, Size) else 0
            masks = [
                tail_mask(e.at(end), self.lanes, e.at(end).sub(end, i64(whole + k * self.lanes))) for k in range(rest)
            ]
        start = self._identities(group, self.copies)

        def round_(r: Value, carried: Sequence[Value]) -> list[Value]:
            flat = iter(carried)
            vectors = [[next(flat) for _ in some] for some in start]
            e.prefetch = PREFETCH_DISTANCE if hint(self.outer * self.length) >= LARGE else 0
            done = self._accumulate(group, r, [None] * self.copies, vectors, roots, kept)
            e.prefetch = 0
            return [v for some in done for v in some]

        ended = iter(counted_loop(e, begin, main_end, LANES, round_, [v for some in start for v in some]))
        accumulators = [[next(ended) for _ in some] for some in start]
        if isinstance(whole, Size):
            accumulators = self._accumulate_rest(group, i64(whole), end, accumulators, roots, kept)
        else:
            accumulators = self._accumulate(group, i64(whole), masks, accumulators, roots, kept)
        return self._fold(group, accumulators)

    def _accumulate_rest(
        self,
        group: list[Reduction],
        at: Value,
        end: Value,
        accumulators: list[list[Value]],
        roots: list[Root],
        kept: list[Instruction],
    ) -> list[list[Value]]:
        """Takes in what is left of a row of unknown length, less than a round: vectors that nothing is left for, not.

        Each vector has a branch of its own: all rows of a call take the same ones.
        """
        e = self.e
        for k in range(self.copies):
            begin = e.at(at).add(at, i64(k * self.lanes))

            def some(_: Value, carried: Sequence[Value], begin: Value = begin) -> list[Value]:
                mask = tail_mask(e.inner, self.lanes, e.inner.sub(end, begin))
                done = self._accumulate(group, begin, [mask], [[total] for total in carried], roots, kept)
                return [total for (total,) in done]

            b = e.at(begin, end)
            wanted = b.zext(b.icmp_signed("<", begin, end), I64)
            ended = counted_loop(e, i64(0), wanted, 1, some, [totals[k] for totals in accumulators])
            for totals, total in zip(accumulators, ended, strict=True):
                totals[k] = total
        return accumulators

    def _reduce_block_rolled(
        self, group: list[Reduction], begin: Value, end: Value, roots: list[Root], kept: list[Instruction]
    ) -> list[Value]:
        """As `_reduce_block`, with one copy of the body; the lanes of a round are kept in memory."""
        e = self.e
        memory = [e.function.alloca(MEMORY[r.dtype], LANES) for r in group]
        b = e.inner
        for r, base in zip(group, memory, strict=True):
            for k in range(0, LANES, self.lanes):
                b.store(r.identity(self.lanes), b.gep(base, k, MEMORY[r.dtype]), r.instruction.array_shape.itemsize)

        def take(at: Value, mask: Value | None) -> None:
            b = e.inner
            slot = b.and_(at, i64(LANES - 1))
            places = [b.gep(base, slot, MEMORY[r.dtype]) for r, base in zip(group, memory, strict=True)]
            loaded = [
                [b.load(p, r.identity(self.lanes).type, r.instruction.array_shape.itemsize)]
                for r, p in zip(group, places, strict=True)
            ]
            for (value,), p, r in zip(
                self._accumulate(group, at, [mask], loaded, roots, kept), places, group, strict=True
            ):
                e.inner.store(value, p, r.instruction.array_shape.itemsize)

        def round_(at: Value, _: Sequence[Value]) -> list[Value]:
            take(at, None)
            return []

        def rest(at: Value, _: Sequence[Value]) -> list[Value]:
            known = is_constant(at) and is_constant(end)
            left = i64(int(end.ref) - int(at.ref)) if known else e.inner.sub(end, at)
            take(at, tail_mask(e.inner, self.lanes, left))
            return []

        whole = self.length // self.lanes * self.lanes
        main_end = e.at(end).intrinsic("llvm.smin", end, i64(whole)) if end.ref[0] == "%" else end
        if end.ref[0] != "%":
            main_end = i64(min(int(end.ref), whole))
        counted_loop(e, begin, main_end, self.lanes, round_)
        if self.length != whole:
            counted_loop(e, main_end, end, self.lanes, rest)
        b = e.inner
        accumulators = [
            [
                b.load(b.gep(base, k, MEMORY[r.dtype]), r.identity(self.lanes).type, r.instruction.array_shape.itemsize)
                for k in range(0, LANES, self.lanes)
            ]
            for r, base in zip(group, memory, strict=True)
        ]
        return self._fold(group, accumulators)

    # ---- costly values, kept from pass to pass

    def _plan_cached(self) -> dict[Instruction, tuple[int, Value]]:
        """Values that are kept: the first pass that computes them, and a buffer."""
        memory = self.e.function.alloca
        return {i: (stage, memory(MEMORY[i.dtype], self.length)) for i, stage in kept_values(self).items()}

    def _use_cached(self, i: Instruction) -> None:
        """From here on the value is read from its buffer, which holds the current row only."""
        e = self.e
        start = e.scalar(self.row * -self.length)
        e.pointers[i] = e.at(start).gep(self.cached[i][1], start, MEMORY[i.dtype])

    # ---- few long rows: blocks in parallel

    def _emit_blocks(self, work: int) -> None:
        """One kernel for all blocks of all rows, writing block results to scratch; then one that combines them."""
        unit, group = self.unit, self.reductions
        parts = [unit.temporary(self.outer * self.blocks * r.instruction.array_shape.itemsize) for r in group]
        e = self._begin(".blocks")
        self.straight = False
        pointers = [unit.result_pointer(e, p) for p in parts]

        def block(p: Value, _: Sequence[Value]) -> list[Value]:
            b = e.at(p)
            j = p
            if self.outer > 1:
                delinearize_rows(e, b.udiv(p, i64(self.blocks)), self.outer_variables, self.nest.extents)
                j = b.urem(p, i64(self.blocks))
            totals = self._reduce_block(group, *self._block_bounds(j), [], [])
            for total, base, r in zip(totals, pointers, group, strict=True):
                self._store_part(e, r, e.inner.gep(base, p, MEMORY[r.dtype]), total)
            return []

        counted_loop(e, e.function.arguments[1], e.function.arguments[2], 1, block)
        e.inner.ret()
        unit.launch(e.function, self.outer * self.blocks, work)
        self._emit_combine(parts)

    def _store_part(self, e: Emitter, r: Reduction, address: Value, total: Value) -> None:
        b = e.inner
        if r.dtype == "pred":
            total = b.zext(total, MEMORY["pred"])
        b.store(total, address, r.instruction.array_shape.itemsize)

    def _emit_combine(self, parts: list[Location]) -> None:
        e = self._begin(".combine")
        pointers = [self.unit.result_pointer(e, p) for p in parts]

        def row(p: Value, _: Sequence[Value]) -> list[Value]:
            delinearize_rows(e, p, self.outer_variables, self.nest.extents)
            base = e.at(p).mul(p, i64(self.blocks))

            def part(k: int, j: Value) -> Value:
                r = self.reductions[k]
                b = e.at(base, j)
                address = b.gep(pointers[k], b.add(base, j), MEMORY[r.dtype])
                value = b.load(address, MEMORY[r.dtype], r.instruction.array_shape.itemsize)
                return value if r.dtype != "pred" else b.trunc(value, r.identity().type)

            def following(j: Value, totals: Sequence[Value]) -> list[Value]:
                return [r.combine(e.inner, totals[k], part(k, j)) for k, r in enumerate(self.reductions)]

            e.results.clear()
            start = [r.identity() for r in self.reductions]
            self._bind(self.reductions, counted_loop(e, i64(0), i64(self.blocks), 1, following, start))
            self._store_rows()
            return []

        counted_loop(e, e.function.arguments[1], e.function.arguments[2], 1, row)
        e.inner.ret()
        self.unit.launch(e.function, self.outer, self.outer)
