"""Row-per-lane reduction: short rows side by side, a row in each lane of a vector.

In a row that is no longer than a few vectors, most of the time would go into combining the lanes of a vector with each
other, and into what is done with one number a row, each step waiting for the one before. With as many rows as there are
lanes, both are operations on vectors like all others. Arrays of rows then lie across the lanes: the elements of a group
of rows are copied to the stack so that those of one column are a vector, and results back from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.module import Instruction
from ....ir.opcode import is_elementwise
from ....ir.shape import DTYPES
from ....ir.size import Size, hint
from ...emitter.elemental import Emitter
from ...emitter.elementwise import COST
from ...emitter.loops import counted_loop, i64
from ...emitter.types import MEMORY, PARTS
from ...indexing.indexing_map import AffineExpr, Space, Var
from ...indexing.space import delinearize_rows
from ...llvm.ir_types import Value, constant, vector
from ...reduction import Reduction, fold_vectors
from ...rows import Rows
from ..unit import Unit
from .kept_values import COSTLY, kept_values
from .loop_kernel import fewer_lanes
from .transposition import transpose
from .vector_loops import tail_mask

__all__ = ["emit_row_per_lane", "fits_row_per_lane"]

# Longer rows spend their time on elements, and have more of them than the order of summation has lanes.
LONGEST = 64
# Fewer lanes don't pay, and more are not worth the stack.
LEAST_LANES, MOST_LANES = 8, 16
# More stack than this would be too much for threads that have little of it, and for the cache.
MOST_STACK = 128 << 10
# So many columns are combined in registers, more in a loop.
IN_REGISTERS = 16

# Times for one row, about, in operations on vectors; measured with 16 and 8 lanes. Where rows come one after the other:
# to halve a vector, as an extreme of floating-point numbers or otherwise; that a costly function of all elements waits
# for what is before it; and each operation of a costly function of one number.
HALVE_EXTREME, HALVE, WAIT, ALONE = 2.5, 1.5, 4, 3.5
# Where they are side by side: to copy an element of an array, in squares or alone, and to begin a group.
COPY, COPY_ALONE, BEGIN = 0.5, 1.5, 80


def _lanes(unit: Unit, rows: Rows) -> int:
    return min(MOST_LANES, unit.lanes(list(rows.instructions)))


def fits_row_per_lane(unit: Unit, rows: Rows) -> bool:
    """Whether rows can be computed side by side, and are then done sooner."""
    if isinstance(rows.length, Size) or not 2 <= rows.length <= LONGEST:
        return False
    lanes = _lanes(unit, rows)
    if lanes < LEAST_LANES or hint(rows.outer) < lanes or any(n != 1 for n in rows.nest.extents[:-1]):
        return False
    if any(not i.is_tuple and i.dtype in PARTS for i in rows.instructions):
        return False
    copied = _copied(rows)
    if copied is None or _stack(rows, lanes, copied) > MOST_STACK:
        return False
    copy = COPY if rows.length >= 4 else COPY_ALONE
    return _gain(rows, lanes) > copied * copy * rows.length + BEGIN / lanes


def _copied(rows: Rows) -> int | None:
    """How many arrays of rows are copied; None if elements would have to be gathered one by one."""
    if rows.conditional or any(not isinstance(a, Var) for lin in rows.forms for a, _ in lin.terms):
        return None
    ((column, _),) = rows.column.terms
    count = len(rows.element_roots)
    for lin in (lin for lins in rows.leaves.values() for lin in lins):
        step, along = lin.coefficient(column), [c for a, c in lin.terms if a is not column]
        if step and along and along != [1]:
            if step != 1:
                return None
            count += 1
    return count


def _stack(rows: Rows, lanes: int, copied: int) -> int:
    """At most so many bytes: of copied arrays, of what is reduced and of what is kept."""
    arrays = copied + len(rows.reductions) + len(kept_values(rows))
    widest = max(i.array_shape.itemsize for i in rows.instructions if not i.is_tuple)
    return arrays * rows.length * lanes * widest


def _gain(rows: Rows, lanes: int) -> float:
    """What takes longer where rows come one after the other, for each row."""
    width = fewer_lanes(lanes, rows.length)
    empty = -rows.length % width / width
    extremes = sum(r.kind in ("maximum", "minimum") and r.instruction.array_shape.kind == "f" for r in rows.reductions)
    halve = HALVE_EXTREME * extremes + HALVE * (len(rows.reductions) - extremes)
    costly = [i for i in rows.instructions if is_elementwise(i.opcode) and COST.get(i.opcode, 1) >= COSTLY]
    alone = [COST[i.opcode] for i in costly if i.array_shape.size == rows.outer]
    wait = WAIT if len(costly) > len(alone) else 0
    return empty * rows.cost + halve * (width.bit_length() - 1) + wait + ALONE * sum(alone)


class _Columns:
    """Columns of a group of rows. What the emitter asks for operands that lie across: see `Emitter.tile`.

    The first read of an array has all its columns copied, ahead of the pass.
    """

    def __init__(self, e: Emitter, length: int, row: AffineExpr, count: Value, mask: Value) -> None:
        self.e, self.length, self.row, self.count, self.mask = e, length, row, count, mask
        self.level = len(e.builders) - 1
        self.column = AffineExpr()
        self._copies: dict[tuple[str, str, int, int], Value] = {}

    def buffer(self, dtype: str) -> Value:
        """Memory for all columns."""
        return self.e.function.alloca(MEMORY[dtype], self.length * self.e.vector_lanes)

    def keep(self, i: Instruction) -> Value:
        """A buffer for the columns of `i`, which is read from there when they have been written."""
        buffer = self.buffer(i.dtype)
        self._copies[buffer.ref, i.dtype, self.length, 0] = buffer
        return buffer

    def load(self, base: Value, dtype: str, lin: AffineExpr, stride: int) -> Value | None:
        """The lanes of `lin`; None if columns aren't next to each other."""
        corner = lin - self.column
        rest = corner - self.row * stride
        if rest.terms:
            return None
        key = base.ref, dtype, stride, rest.const
        buffer = self._copies.get(key)
        if buffer is None:
            e = self.e
            buffer = self._copies[key] = self.buffer(dtype)
            source = e.address(base, dtype, corner)
            # Ahead of the loop over the columns, whose block is still open.
            b = e.builders[self.level]
            transpose(b, dtype, (source, stride), (buffer, e.vector_lanes), i64(self.length), self.count)
        return self.read(buffer, dtype, self.e.scalar(self.column))

    def read(self, buffer: Value, dtype: str, column: Value) -> Value:
        """A column, as it lies in memory."""
        type_, b = vector(MEMORY[dtype], self.e.vector_lanes), self.e.inner
        return b.load(b.gep(buffer, column, type_), type_, self._align(dtype))

    def write(self, value: Value, buffer: Value, dtype: str, column: Value) -> None:
        """Writes a column."""
        value, b = self.e.splat(value, self.e.vector_lanes), self.e.inner
        type_ = vector(MEMORY[dtype], self.e.vector_lanes)
        if dtype == "pred":
            value = b.zext(value, type_)
        b.store(value, b.gep(buffer, column, type_), self._align(dtype))

    def _align(self, dtype: str) -> int:
        return min(64, self.e.vector_lanes * DTYPES[dtype].itemsize)

    def copy_out(self, buffer: Value, dtype: str, target: Value) -> None:
        """Copies a buffer's columns to the rows that begin at `target`."""
        lanes, b = self.e.vector_lanes, self.e.inner
        transpose(b, dtype, (buffer, lanes), (target, self.length), self.count, i64(self.length))


class _RowPerLane:
    def __init__(self, unit: Unit, rows: Rows) -> None:
        self.unit, self.rows, self.length = unit, rows, rows.length
        self.space = Space()
        self.e = unit.kernel(rows.spec, _lanes(unit, rows), self.space)
        self.outer_variables = rows.nest.variables(self.space, "o")
        self.row = rows.nest.flat(self.outer_variables)
        self.targets = [unit.result_pointer(self.e, location) for location in rows.spec.results]

    def emit(self) -> None:
        e, (_, begin, end) = self.e, self.e.function.arguments

        def group(first: Value, _: Sequence[Value]) -> list[Value]:
            b = e.inner
            delinearize_rows(e, first, self.outer_variables, self.rows.nest.extents)
            count = b.intrinsic("llvm.smin", b.sub(end, first), i64(e.vector_lanes))
            mask = tail_mask(b, e.vector_lanes, count)
            with e.vectorized(self.row), e.masked(mask):
                e.tile = self.columns = _Columns(e, self.length, self.row, count, mask)
                self._group()
                e.tile = None
            return []

        counted_loop(e, begin, end, e.vector_lanes, group)
        e.inner.ret()
        rows = self.rows
        self.unit.launch(e.function, rows.outer, rows.outer * rows.length * rows.cost)

    def _group(self) -> None:
        """Everything of one group of rows: the passes, then what has one element a row; all is read before writing."""
        rows, e, columns = self.rows, self.e, self.columns
        kept = kept_values(rows)
        buffers = [(r, columns.buffer(r.dtype)) for r, _ in rows.element_roots]
        for stage in range(rows.stages):
            group = [r for r in rows.reductions if rows.stage_of[r.input] == stage]
            written = [(r, buffer) for r, buffer in buffers if rows.stage_of[r] == stage]
            written_later = [(i, columns.keep(i)) for i in kept if kept[i] == stage]
            if group or written:
                self._pass(group, written + written_later)
            e.pointers.update(written_later)
        values = [e.value(r, self.space.delinearize(self.row, r.dims)) for r, _ in rows.row_roots]
        for (r, n), value in zip(rows.row_roots, values, strict=True):
            e.store(self.targets[n], r.dtype, self.row, value)
        for (r, n), (_, buffer) in zip(rows.element_roots, buffers, strict=True):
            columns.copy_out(buffer, r.dtype, e.address(self.targets[n], r.dtype, self.row * self.length))

    def _pass(self, group: list[Reduction], written: list[tuple[Instruction, Value]]) -> None:
        """Computes columns one after the other, and binds what they are reduced to."""
        rows, e, columns = self.rows, self.e, self.columns
        terms = [columns.buffer(r.dtype) for r in group]

        def column(at: Value, _: Sequence[Value]) -> list[Value]:
            variable = columns.column = self.space.var("c", self.length)
            e.set_variable(variable, at)
            for r, buffer in zip(group, terms, strict=True):
                x = e.splat(e.value(r.input, r.input_index(self.space, self.row, variable)), e.vector_lanes)
                x = r.combine(e.at(x), r.identity(e.vector_lanes), x)
                columns.write(x, buffer, r.dtype, at)
            for i, buffer in written:
                value = e.value(i, rows.element_index(self.space, i, self.row, variable))
                columns.write(value, buffer, i.dtype, at)
            return []

        counted_loop(e, i64(0), i64(self.length), 1, column)
        for r, buffer in zip(group, terms, strict=True):
            total = self._fold(r, buffer)
            initial = e.splat(e.value(r.instruction.operands[1], ()), e.vector_lanes)
            e.results[r.instruction] = self.row, r.combine(e.at(initial, total), initial, total)

    def _fold(self, r: Reduction, buffer: Value) -> Value:
        """Combines the columns by halving."""
        e, columns = self.e, self.columns

        def read(column: Value) -> Value:
            value = columns.read(buffer, r.dtype, column)
            return value if r.dtype != "pred" else e.inner.icmp_unsigned("!=", value, constant(value.type, 0))

        def step(at: Value, _: Sequence[Value]) -> list[Value]:
            columns.write(r.combine(e.inner, read(at), read(e.inner.add(at, i64(half)))), buffer, r.dtype, at)
            return []

        left = self.length
        half = 1 << (left - 1).bit_length()
        while left > IN_REGISTERS:
            half //= 2
            counted_loop(e, i64(0), i64(left - half), 1, step)
            left = half
        return fold_vectors(e.inner, r, [read(i64(k)) for k in range(left)])


def emit_row_per_lane(unit: Unit, rows: Rows) -> None:
    """Emits and launches the kernel."""
    _RowPerLane(unit, rows).emit()
