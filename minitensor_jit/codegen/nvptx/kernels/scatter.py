"""Scatter: a copy of the operand, then the windows of updates, in their order wherever they meet.

Windows that don't overlap unless they are the same are found by tables: for each place the first update that goes
there, and how many do. The warp of the first one applies all of them, one after the other. So the result has the bits
of the updates in order, and no floating-point number is added atomically.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.module import Computation, Instruction
from ....ir.semantics.reduction import reduction_kind
from ....ir.shape import DTYPES
from ...emitter.elementwise import combine
from ...emitter.loops import counted_loop, while_loop
from ...emitter.scalar_computation import apply_scalar, check_scalar
from ...emitter.types import MEMORY, PARTS
from ...errors import CompileError
from ...indexing.indexing_map import ZERO, AffineExpr, Index, Space, strides_of
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import I32, I64, Value, constant
from ..unit import Fill, GpuUnit, Kernel, Symbol
from .loop_kernel import BLOCK, blocks_for, for_each_unit, largest_index, threads_for

__all__ = ["Scatter"]


class Scatter:
    """The kernels of one scatter, of one or several operands."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec, scatter: Instruction) -> None:
        check_scalar("scatter", scatter.attrs["to_apply"])
        self.unit, self.spec, self.scatter = unit, spec, scatter
        self.numbers = [r.attrs["index"] if r.opcode == "get-tuple-element" else 0 for r, _ in spec.roots]
        parameters = [o.parameter_number for o in scatter.operands]
        self.in_place: set[tuple[int, int]] = set()
        for result, number in enumerate(self.numbers):
            operand = parameters[number]
            if operand is not None and parameters.count(operand) == 1:
                self.in_place.add((result, operand))
        n = len(scatter.operands) // 2
        self.sources, self.indices, self.updates = (
            scatter.operands[:n],
            scatter.operands[n],
            scatter.operands[n + 1 :],
        )
        attrs, source = scatter.attrs, scatter.operands[0].dims
        update = self.updates[0].dims
        self.window_dims, self.inserted = attrs["update_window_dims"], attrs["inserted_window_dims"]
        self.windows = [update[d] for d in self.window_dims]
        self.batches = [n for d, n in enumerate(update) if d not in self.window_dims]
        sizes = iter(self.windows)
        size_of = [1 if d in self.inserted else next(sizes) for d in range(len(source))]
        self.scattered = attrs["scatter_dims_to_operand_dims"]
        self.places = [source[d] - size_of[d] + 1 for d in self.scattered]
        self.disjoint = all(size_of[d] == 1 for d in self.scattered)
        if prod(self.places) >= 2**31 or prod(self.batches) >= 2**31:
            raise CompileError("scatter", "more than 2^31 places or windows")

    def emit(self) -> None:
        """Emits and launches the copies and the updates."""
        unit, spec = self.unit, self.spec
        for k, source in enumerate(self.sources):
            target = ("result", self.numbers.index(k))
            unit.copy(target, unit.symbol(spec, source), source.array_shape.nbytes)
        if 0 in self.updates[0].dims or 0 in self.sources[0].dims or any(n <= 0 for n in self.places):
            return
        count = prod(self.batches)
        if count == 1:
            self._emit_single()
        elif self.disjoint:
            self._emit_tables(count)
        else:
            self._emit_serial(count)

    # ---- what all kernels have

    def _begin(self, threads: int, suffix: str) -> None:
        self.space = Space()
        operands = self.scatter.operands
        self.kernel = Kernel(self.unit, self.spec, self.space, threads, largest_index(operands), suffix)
        self.e = self.kernel.e
        self.kernel.bind([self.indices, *self.updates])

    def _batch(self, name: str, number: Value) -> AffineExpr:
        variable = self.space.var(name, prod(self.batches))
        self.e.set_variable(variable, number)
        return variable

    def _starts(self, batch: AffineExpr) -> tuple[Value, Value, Value | None]:
        """Of a window: its first element, the number of its place, and whether all of it is inside."""
        e = self.e
        at = list(self.space.delinearize(batch, self.batches))
        strides = strides_of(self.sources[0].dims)
        offset, place = e.index(0), e.index(0)
        inside: Value | None = None
        vector_dim = self.scatter.attrs["index_vector_dim"]
        for k, (d, extent) in enumerate(zip(self.scattered, self.places, strict=True)):
            index = list(at)
            if vector_dim < len(self.indices.dims):
                index.insert(vector_dim, AffineExpr(k))
            raw = e.value(self.indices, tuple(index))
            b = e.inner
            start = b.sext(raw, I64) if DTYPES[self.indices.dtype].kind == "i" else b.zext(raw, I64)
            fits = b.icmp_unsigned("<", start, constant(I64, extent))
            inside = fits if inside is None else b.and_(inside, fits)
            start = b.trunc(b.select(fits, start, constant(I64, 0)), e.index_type)
            offset = b.add(offset, b.mul(start, e.index(strides[d])))
            place = b.add(b.mul(place, e.index(extent)), start)
        return offset, place, inside

    def _update_index(self, batch: AffineExpr, window: AffineExpr) -> Index:
        outside = iter(self.space.delinearize(batch, self.batches))
        inside = iter(self.space.delinearize(window, self.windows))
        dims = range(len(self.updates[0].dims))
        return tuple(next(inside) if d in self.window_dims else next(outside) for d in dims)

    def _element(self, offset: Value, batch: AffineExpr, window: AffineExpr) -> None:
        """Applies one element of a window that begins at `offset`."""
        e = self.e
        strides = [s for d, s in enumerate(strides_of(self.sources[0].dims)) if d not in self.inserted]
        within = ZERO
        for x, stride in zip(self.space.delinearize(window, self.windows), strides, strict=True):
            within = within + x * stride
        index = self._update_index(batch, window)
        values = [e.value(u, index) for u in self.updates]
        dtypes = [x.dtype for x in self.sources]
        bases = []
        for k, dtype in enumerate(dtypes):
            parts = e.inner.mul(offset, e.index(2)) if dtype in PARTS else offset
            bases.append(e.inner.gep(self.kernel.result(self.numbers.index(k)), parts, MEMORY[dtype]))
        old = [e.load(base, dtype, within, mutable=True) for base, dtype in zip(bases, dtypes, strict=True)]
        combiner: Computation = self.scatter.attrs["to_apply"]
        kind = reduction_kind(combiner) if len(dtypes) == 1 else None
        if kind:
            new = [combine(e.inner, kind, dtypes[0], old[0], values[0])]
        else:
            new = apply_scalar(e, combiner, [*old, *values])
        for base, dtype, value in zip(bases, dtypes, new, strict=True):
            e.store(base, dtype, within, value)

    def _window(self, offset: Value, batch: AffineExpr, name: str, first: Value, step: int) -> None:
        """Applies the elements `first`, `first + step`, ... of a window."""
        e, size = self.e, prod(self.windows)

        def one(at: Value, _: Sequence[Value]) -> list[Value]:
            window = self.space.var(name, size)
            e.set_variable(window, at)
            self._element(offset, batch, window)
            return []

        counted_loop(e, first, e.index(size), step, one)

    def _launch(self, blocks: int, kind: str) -> None:
        nbytes = 2 * sum(u.array_shape.nbytes for u in self.updates) + self.indices.array_shape.nbytes
        self.kernel.launch(blocks, kind, nbytes, sum(u.array_shape.size for u in self.updates))

    # ---- one window

    def _emit_single(self) -> None:
        size = prod(self.windows)
        self._begin(threads_for(size), "")
        offset, _, inside = self._starts(self._batch("batch", self.e.index(0)))

        def element(at: Value) -> None:
            window = self.space.var("w", size)
            self.e.set_variable(window, at)
            self._element(offset, ZERO, window)

        blocks = blocks_for(self.unit, size, self.kernel.threads)
        with self.e.when(inside):
            for_each_unit(self.kernel, size, blocks, element)
        self._launch(blocks, "scatter")

    # ---- windows that overlap: one after the other, by one block

    def _emit_serial(self, count: int) -> None:
        self._begin(BLOCK, "")
        e = self.e
        thread = e.wide(e.register("tid.x"))

        def window(n: Value, _carried: Sequence[Value]) -> list[Value]:
            batch = self._batch("batch", n)
            offset, _, inside = self._starts(batch)
            with e.when(inside):
                self._window(offset, batch, "w", thread, BLOCK)
            e.barrier()
            return []

        counted_loop(e, e.index(0), e.index(count), 1, window)
        self._launch(1, "scatter")

    # ---- windows that are the same or apart

    def _emit_tables(self, count: int) -> None:
        unit, places = self.unit, prod(self.places)
        targets, first, counts = (unit.temporary(4 * size) for size in (count, places, places))
        unit.code.items.append(Fill(first, -1, places))
        unit.code.items.append(Fill(counts, 0, places))
        self._emit_places(count, targets, first, counts)
        self._emit_apply(count, targets, first, counts)

    def _emit_places(self, count: int, *tables: Symbol) -> None:
        """Where each window goes (-1 for nowhere), the first of each place, and how many there are."""
        self._begin(threads_for(count), "_places")
        e = self.e
        targets, first, counts = (self.kernel.argument(symbol) for symbol in tables)

        def one(n: Value) -> None:
            _, place, inside = self._starts(self._batch("batch", n))
            b = e.inner
            number = b.trunc(place, I32)
            known = number if inside is None else b.select(inside, number, constant(I32, -1))
            b.store(known, b.gep(targets, n, I32), 4)
            with e.when(inside):
                b = e.inner
                e.atomic("umin", b.gep(first, place, I32), b.trunc(n, I32))
                e.atomic("add", b.gep(counts, place, I32), constant(I32, 1))

        blocks = blocks_for(self.unit, count, self.kernel.threads)
        for_each_unit(self.kernel, count, blocks, one)
        self._launch(blocks, "scatter-places")

    def _emit_apply(self, count: int, *tables: Symbol) -> None:
        warps = BLOCK // 32
        self._begin(BLOCK, "_apply")
        e, kernel = self.e, self.kernel
        targets, first, counts = (kernel.argument(symbol) for symbol in tables)
        b = e.builders[0]
        thread = e.register("tid.x")
        lane = b.and_(thread, constant(I32, 31))
        at = b.add(b.mul(e.wide(e.register("ctaid.x")), e.index(warps)), e.wide(b.lshr(thread, constant(I32, 5))))
        with e.when(b.icmp_signed("<", at, e.index(count))):
            n = e.here(at)
            place = e.inner.load(e.inner.gep(targets, n, I32), I32, 4)
            with e.when(e.inner.icmp_signed(">=", place, constant(I32, 0))):
                leader = e.inner.load(e.inner.gep(first, place, I32), I32, 4)
                with e.when(e.inner.icmp_signed("==", leader, e.inner.trunc(n, I32))):
                    b = e.inner
                    batch = self._batch("batch", e.here(n))
                    offset, _, _ = self._starts(batch)
                    self._window(offset, batch, "w", e.wide(lane), 32)
                    others = b.sub(e.inner.load(e.inner.gep(counts, place, I32), I32, 4), constant(I32, 1))
                    self._others(offset, place, lane, e.inner.add(n, e.index(1)), others, targets, count)
        self._launch(-(-count // warps), "scatter")

    def _others(
        self, offset: Value, place: Value, lane: Value, start: Value, others: Value, targets: Value, count: int
    ) -> None:
        """The later windows of the place, in order: a warp looks for them 32 at a time."""
        e = self.e

        def look(values: list[Value]) -> list[Value]:
            at, left = values
            b = e.inner
            n = b.add(at, e.wide(lane))
            exists = b.icmp_signed("<", n, e.index(count))
            target = b.load(b.gep(targets, b.select(exists, n, e.index(0)), I32), I32, 4)
            found = e.ballot(b.and_(exists, b.icmp_signed("==", target, place)))
            left = b.sub(left, b.intrinsic("llvm.ctpop", found))

            def apply(masks: list[Value]) -> list[Value]:
                b = e.inner
                which = b.add(at, e.wide(e.first_set(masks[0])))
                batch = self._batch("other", which)
                self._window(offset, batch, "v", e.wide(lane), 32)
                b = e.inner
                return [b.and_(masks[0], b.sub(masks[0], constant(I32, 1)))]

            while_loop(e, [found], lambda m: e.inner.icmp_signed("!=", m[0], constant(I32, 0)), apply)
            return [e.inner.add(at, e.index(32)), left]

        while_loop(e, [start, others], lambda v: e.inner.icmp_signed(">", v[1], constant(I32, 0)), look)
