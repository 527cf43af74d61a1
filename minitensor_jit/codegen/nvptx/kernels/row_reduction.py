"""What the forms of row kernels share: the row at hand, accumulating two lanes a thread, and totals of warps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ....ir.shape import DTYPES
from ...emitter.loops import counted_loop
from ...emitter.types import MEMORY
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.space import delinearize_rows
from ...kernel_spec import KernelSpec, Root
from ...llvm.ir_types import I32, Value, constant
from ...reduction import Reduction
from ...rows import Rows
from ..emitter import ACCESS_BYTES, GpuEmitter
from ..unit import GpuUnit, Kernel
from .loop_kernel import WIDEST, largest_index

__all__ = ["RowForm", "StepOfLanes", "row_width", "warp_total"]

# 64 consecutive elements: where they begin, the variables of the thread's lanes, and when they are there at all.
StepOfLanes: TypeAlias = tuple[AffineExpr, "LaneVariables", Value | None]

# Block results that are combined at a time, so that their loads overlap.
COMBINED = 8


class LaneVariables:
    """Two lanes of a thread: neighbours (one variable, of the pair) or 32 apart (a variable each)."""

    def __init__(self, variables: list[AffineExpr], guards: list[Value | None], counts: list[int]) -> None:
        self.variables, self.guards, self.counts = variables, guards, counts


class RowForm(Rows):
    """A row kernel under construction."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec, found: list[Reduction]) -> None:
        super().__init__(spec, found)
        self.unit = unit

    def emit(self) -> None:
        """Emits and launches the kernels."""
        raise NotImplementedError

    def has_guards(self) -> bool:
        """Whether there are threads without elements, which read others instead."""
        raise NotImplementedError

    # ---- the kernel and its row

    def begin(self, threads: int, suffix: str = "") -> GpuEmitter:
        """A new kernel."""
        roots = [r for r, _ in self.spec.roots]
        self.space = Space()
        largest = max(largest_index([*self.instructions, *roots]), 2 * self.outer * self.length)
        self.kernel = Kernel(self.unit, self.spec, self.space, threads, largest, suffix)
        self.e = self.kernel.e
        self.kernel.bind(roots, (), self.conditional)
        self.outer_variables = self.nest.variables(self.space, "o")
        self.row = self.nest.flat(self.outer_variables)
        return self.e

    def set_row(self, number: Value) -> None:
        """Declares which row is at hand."""
        delinearize_rows(self.e, number, self.outer_variables, self.nest.extents)

    def finish(self, kind: str, blocks: int) -> None:
        """Ends the kernel and launches it."""
        size = self.outer * self.length
        self.kernel.launch(blocks, kind, self.kernel.traffic(self.spec.roots), size * self.cost)

    def store_rows(self) -> None:
        """Stores what has one element a row; for one thread."""
        e = self.e
        values = [e.value(root, self.space.delinearize(self.row, root.dims)) for root, _ in self.row_roots]
        for (root, n), value in zip(self.row_roots, values, strict=True):
            e.store(self.kernel.result(n), root.dtype, self.row, value)

    def bind_totals(self, group: Sequence[Reduction], totals: Sequence[Value]) -> None:
        """Totals combined with the initial values are the results of the reduces."""
        for reduction, total in zip(group, totals, strict=True):
            initial = self.e.value(reduction.instruction.operands[1], ())
            value = reduction.combine(self.e.at(initial, total), initial, total)
            self.e.results[reduction.instruction] = (self.row, value)

    # ---- two lanes a thread

    def lane_variables(self, lane: Value, counts: Sequence[int]) -> LaneVariables:
        """Variables of the thread's lanes where so many threads have one: of pairs, or of lanes 0-31 and 32-63."""
        e = self.e
        variables, guards = [], []
        for k, count in enumerate(counts):
            variable = self.space.var(f"l{k}", count)
            e.set_variable(variable, e.wide(lane))
            variables.append(variable)
            guards.append(None if count == 32 else e.at(lane).icmp_unsigned("<", lane, constant(I32, count)))
        return LaneVariables(variables, guards, list(counts))

    def take(
        self, group: Sequence[Reduction], steps: Sequence[StepOfLanes], accumulators: list[Value], roots: Sequence[Root]
    ) -> list[Value]:
        """Takes in 64 elements after the other, and stores the results of the rows' shape at the same places.

        There are two accumulators a reduction, one a lane.
        """
        e = self.e
        totals = list(accumulators)
        # All loads first, then all arithmetic: elements of several steps are on their way together.
        seen: list[tuple[int, Value | None, list[Value]]] = []
        stored: list[tuple[AffineExpr, Value | None, list[list[Value]]]] = []
        for start, lanes, condition in steps:
            paired = len(lanes.variables) == 1
            kept: list[list[Value]] = [[] for _ in roots]
            for p in range(2):
                which = 0 if paired else p
                variable, guard = lanes.variables[which], lanes.guards[which]
                if not lanes.counts[which]:
                    continue
                at = start + variable * 2 + p if paired else start + variable + 32 * p
                if condition is not None:
                    guard = condition if guard is None else e.at(condition, guard).and_(condition, guard)
                with e.unit(variable, 2 if paired else 1, p), e.guarded_unit(guard):
                    xs = [e.value(r.input, r.input_index(self.space, self.row, at)) for r in group]
                    for (root, _), some in zip(roots, kept, strict=True):
                        some.append(e.value(root, self.element_index(self.space, root, self.row, at)))
                seen.append((p, guard, xs))
                if roots and (not paired or p == 1):
                    first = at - p if paired else at
                    stored.append((first, guard, [list(some) for some in kept]))
                    kept = [[] for _ in roots]
        for p, guard, xs in seen:
            for k, (reduction, x) in enumerate(zip(group, xs, strict=True)):
                if guard is not None:
                    x = e.at(x, guard).select(guard, x, reduction.identity())
                old = totals[2 * k + p]
                totals[2 * k + p] = reduction.combine(e.at(x, old), old, x)
        for first, guard, all_values in stored:
            with e.when(guard):
                for (root, n), some in zip(roots, all_values, strict=True):
                    e.store_unit(self.kernel.result(n), root.dtype, self.row * self.length + first, some)
        return totals

    # ---- block results in memory

    def shared_parts(self, name: str, reduction: Reduction, count: int) -> Value:
        """Shared memory for so many block results."""
        return self.e.shared(name, MEMORY[reduction.dtype], count)

    def put_part(self, reduction: Reduction, base: Value, j: Value, total: Value) -> None:
        """Stores a block's result."""
        b = self.e.inner
        element = MEMORY[reduction.dtype]
        value = b.zext(total, element) if reduction.dtype == "pred" else total
        b.store(value, b.gep(base, j, element), DTYPES[reduction.dtype].itemsize)

    def get_part(self, reduction: Reduction, base: Value, j: Value) -> Value:
        """Loads a block's result."""
        b = self.e.inner
        element = MEMORY[reduction.dtype]
        value = b.load(b.gep(base, j, element), element, DTYPES[reduction.dtype].itemsize)
        return value if reduction.dtype != "pred" else b.trunc(value, reduction.identity().type)

    def combine_parts(self, group: Sequence[Reduction], parts: Sequence[Value], count: int) -> list[Value]:
        """The results of all blocks in order, from memory."""
        e = self.e

        def some(first: Value, totals: Sequence[Value], width: int) -> list[Value]:
            b = e.inner
            places = [b.add(first, e.index(k)) if k else first for k in range(width)]
            values = [[self.get_part(r, base, j) for j in places] for r, base in zip(group, parts, strict=True)]
            combined = []
            for r, total, column in zip(group, totals, values, strict=True):
                for value in column:
                    total = r.combine(b, total, value)
                combined.append(total)
            return combined

        totals: list[Value] = [r.identity() for r in group]
        whole = count // COMBINED * COMBINED
        if whole:
            totals = counted_loop(e, e.index(0), e.index(whole), COMBINED, lambda j, t: some(j, t, COMBINED), totals)
        return some(e.index(whole), totals, count - whole) if count > whole else totals


def warp_total(e: GpuEmitter, reduction: Reduction, first: Value, second: Value, *, paired: bool) -> Value:
    """64 lanes of a warp combined by halving; right in its lane 0. A thread has two neighbours, or two 32 apart."""
    b = e.inner
    if not paired:
        total = reduction.combine(b, first, second)
        for width in (16, 8, 4, 2, 1):
            total = reduction.combine(b, total, e.shuffle(total, width))
        return total
    both = [first, second]
    for width in (16, 8, 4, 2, 1):
        both = [reduction.combine(b, x, e.shuffle(x, width)) for x in both]
    return reduction.combine(b, *both)


def row_width(rows: RowForm) -> int:
    """How many neighbours of a row a thread takes at a time."""
    arrays = [i for i in rows.instructions if i.parameter_number is not None and i.array_shape.size >= rows.length]
    sizes = [i.array_shape.itemsize for i in (*arrays, *(r for r, _ in rows.element_roots))] or [4]
    width = min(WIDEST, ACCESS_BYTES // min(sizes), max(1, 2 * ACCESS_BYTES // max(sizes)))
    while rows.length % width:
        width //= 2
    return max(1, width)
