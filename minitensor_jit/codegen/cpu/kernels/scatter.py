"""Scatter: a copy of the operand, then one window of updates after the other, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.module import Computation, Instruction
from ....ir.semantics.reduction import reduction_kind
from ....ir.shape import DTYPES, strides_of
from ....runtime.buffer_assignment import Location
from ...emitter.elementwise import combine
from ...emitter.loops import counted_loop, i64
from ...emitter.scalar_computation import apply_scalar, check_scalar
from ...emitter.types import MEMORY, PARTS
from ...indexing.indexing_map import ZERO, AffineExpr, Index, Space
from ...indexing.space import delinearize_rows, refine
from ...kernel_spec import KernelSpec
from ...llvm.ir_text import Builder
from ...llvm.ir_types import I64, Value
from ..unit import Unit
from .loop_kernel import LoopKernels, fewer_lanes
from .vector_loops import vector_loop

__all__ = ["Scatter"]


class Scatter:
    """The kernels of one scatter, of one or several operands."""

    def __init__(self, unit: Unit, spec: KernelSpec, scatter: Instruction) -> None:
        check_scalar("scatter", scatter.attrs["to_apply"])
        self.unit, self.spec, self.scatter = unit, spec, scatter
        numbers = [o.parameter_number for o in scatter.operands]
        self.in_place: set[tuple[int, int]] = set()
        for result, (root, _) in enumerate(spec.roots):
            source = numbers[root.attrs["index"] if root.opcode == "get-tuple-element" else 0]
            if source is not None and numbers.count(source) == 1:
                self.in_place.add((result, source))

    def emit(self) -> None:
        """Emits and launches the copies and the updates."""
        numbers = [r.attrs["index"] if r.opcode == "get-tuple-element" else 0 for r, _ in self.spec.roots]
        count = len(self.scatter.operands) // 2
        _emit(self.unit, self.spec, self.scatter, [self.spec.results[numbers.index(k)] for k in range(count)])


def _emit(unit: Unit, spec: KernelSpec, scatter: Instruction, results: Sequence[Location]) -> None:
    n = len(results)
    sources, indices, updates = scatter.operands[:n], scatter.operands[n], scatter.operands[n + 1 :]
    source, update = sources[0], updates[0]
    attrs = scatter.attrs
    combiner: Computation = attrs["to_apply"]
    for one, result in zip(sources, results, strict=True):
        emit_copy(unit, spec, one, result)
    window_dims, inserted = attrs["update_window_dims"], attrs["inserted_window_dims"]
    windows = [update.dims[d] for d in window_dims]
    batches = [n for d, n in enumerate(update.dims) if d not in window_dims]
    if 0 in update.dims or 0 in source.dims:
        return
    strides = strides_of(source.dims)
    window_strides = [s for d, s in enumerate(strides) if d not in inserted]

    def update_index(space: Space, batch: AffineExpr, window: AffineExpr) -> Index:
        outside, inside = iter(space.delinearize(batch, batches)), iter(space.delinearize(window, windows))
        return tuple(next(inside) if d in window_dims else next(outside) for d in range(len(update.dims)))

    def within(space: Space, window: AffineExpr) -> AffineExpr:
        total = ZERO
        for x, stride in zip(space.delinearize(window, windows), window_strides, strict=True):
            total = total + x * stride
        return total

    def forms(space: Space, window: AffineExpr) -> list[AffineExpr]:
        index = update_index(space, space.var("batch", prod(batches)), window)
        return [Space.linearize(index, update.dims), within(space, window)]

    lanes = unit.lanes(updates)
    nest = refine(prod(windows), forms)
    lanes = fewer_lanes(lanes, nest.inner)
    probe = Space()
    variables = nest.variables(probe, "w")
    place = within(probe, nest.flat(variables))
    if not variables[-1].terms or place.coefficient(variables[-1].terms[0][0]) != 1:
        lanes = 1  # neighbouring updates do not go to neighbouring elements
    space = Space()
    e = unit.kernel(spec, lanes, space)
    batch = space.var("batch", prod(batches))
    outer = nest.variables(space, "w")[:-1]
    targets = [unit.result_pointer(e, result) for result in results]
    dtypes = [x.dtype for x in sources]
    kind = reduction_kind(combiner) if n == 1 else None
    vector_dim = attrs["index_vector_dim"]

    def starts() -> tuple[Value, Value | None]:
        """The window's first element, and whether all of the window is inside."""
        at = list(space.delinearize(batch, batches))
        offset: Value = i64(0)
        inside: Value | None = None
        sizes = iter(windows)
        size_of = [1 if d in inserted else next(sizes) for d in range(len(source.dims))]
        for k, d in enumerate(attrs["scatter_dims_to_operand_dims"]):
            index = list(at)
            if vector_dim < len(indices.dims):
                index.insert(vector_dim, AffineExpr(k))
            raw = e.value(indices, tuple(index))
            b = e.at(raw)
            start = b.sext(raw, I64) if DTYPES[indices.dtype].kind == "i" else b.zext(raw, I64)
            fits = b.icmp_unsigned("<=", start, i64(source.dims[d] - size_of[d]))
            inside = fits if inside is None else e.at(inside, fits).and_(inside, fits)
            term = b.mul(start, i64(strides[d]))
            offset = e.at(offset, term).add(offset, term)
        return offset, inside

    def body(bases: Sequence[Value], v: AffineExpr) -> None:
        window = nest.flat([*outer, v])
        index = update_index(space, batch, window)
        values = [e.value(u, index) for u in updates]
        place = within(space, window)
        old = [e.load(base, dtype, place, mutable=True) for base, dtype in zip(bases, dtypes, strict=True)]
        lanes = max(x.lanes for x in (*values, *old))
        values, old = [e.splat(x, lanes) for x in values], [e.splat(x, lanes) for x in old]
        if kind:
            new = [combine(e.inner, kind, dtypes[0], old[0], values[0])]
        else:
            new = apply_scalar(e, combiner, [*old, *values])
        for base, dtype, value in zip(bases, dtypes, new, strict=True):
            e.store(base, dtype, place, value)

    def one_batch(p: Value, _: Sequence[Value]) -> list[Value]:
        e.set_variable(batch, p)
        offset, inside = starts()
        function, b = e.function, e.inner
        then, after = function.block("inside"), function.block("next")
        # Its own level: what is computed for this window is not known after it.
        e.push(Builder(function, then, len(e.builders)))
        bases = []
        for target, dtype in zip(targets, dtypes, strict=True):
            # In here, so that nothing is read at this address before it is known to be inside.
            parts = e.inner.mul(offset, i64(2)) if dtype in PARTS else offset
            bases.append(e.inner.gep(target, parts, MEMORY[dtype]))

        def row(q: Value, _: Sequence[Value]) -> list[Value]:
            delinearize_rows(e, q, outer, nest.extents[:-1])
            vector_loop(e, nest.inner, 1, i64(0), i64(nest.inner), lambda v, _: body(bases, v))
            return []

        counted_loop(e, i64(0), i64(nest.size // nest.inner), 1, row)
        e.inner.branch(after)
        e.pop()
        if inside is not None:
            b.cbranch(inside, then, after)
        else:
            b.branch(then)
        b.position_at_end(after)
        return []

    counted_loop(e, i64(0), i64(prod(batches)), 1, one_batch)
    e.inner.ret()
    unit.launch(e.function, 1, 0)


def emit_copy(unit: Unit, spec: KernelSpec, source: Instruction, result: Location) -> None:
    """Copies an operand of the spec into the result, unless they are the same memory."""
    number = source.parameter_number
    assert number is not None
    binding = spec.operands[number]
    parameter = Instruction("x", "parameter", source.shape, parameter_number=0)
    copy = KernelSpec(spec.name + ".copy", Computation("copy", [parameter], parameter), [binding], [result])
    if isinstance(binding, Instruction) or binding.kind == "constant" or source.array_shape.size == 0:
        LoopKernels(unit, copy).emit()
        return
    with unit.unless_equal(binding, result):
        LoopKernels(unit, copy).emit()
