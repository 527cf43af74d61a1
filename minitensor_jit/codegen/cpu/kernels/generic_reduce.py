"""Reductions by any computation, of one or several operands at once (argmax): one element after the other."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.module import Computation, Instruction
from ....runtime.buffer_assignment import Location
from ...emitter.elemental import Emitter
from ...emitter.loops import counted_loop, i64
from ...emitter.scalar_computation import apply_scalar, check_scalar
from ...indexing.indexing_map import AffineExpr, Index, Space
from ...indexing.movement import accesses
from ...indexing.space import delinearize_rows, refine
from ...kernel_spec import KernelSpec, element_cost, reachable
from ...llvm.ir_types import Value
from ..unit import Unit
from .loop_kernel import fewer_lanes
from .vector_loops import vector_loop

__all__ = ["GenericReduce"]


class GenericReduce:
    """The kernel of a fusion whose results all are those of one reduce."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, spec: KernelSpec, reduce: Instruction) -> None:
        check_scalar("reduce", reduce.attrs["to_apply"])
        self.unit, self.spec, self.reduce = unit, spec, reduce

    def emit(self) -> None:
        """Emits and launches it."""
        numbers: list[Location | None] = [None] * (len(self.reduce.operands) // 2)
        for root, n in self.spec.roots:
            numbers[root.attrs["index"] if root.opcode == "get-tuple-element" else 0] = self.spec.results[n]
        _emit(self.unit, self.spec, self.reduce, numbers)


def _emit(unit: Unit, spec: KernelSpec, reduce: Instruction, results: list[Location | None]) -> None:
    n = len(reduce.operands) // 2
    inputs, initials = reduce.operands[:n], reduce.operands[n:]
    combiner: Computation = reduce.attrs["to_apply"]
    dims, dimensions = inputs[0].dims, reduce.attrs["dimensions"]
    kept_dims = [d for k, d in enumerate(dims) if k not in dimensions]
    reduced_dims = [d for k, d in enumerate(dims) if k in dimensions]
    size, length = _product(kept_dims), _product(reduced_dims)
    if size == 0:
        return

    def input_index(space: Space, kept: AffineExpr, reduced: AffineExpr) -> Index:
        outside = iter(space.delinearize(kept, kept_dims))
        inside = iter(space.delinearize(reduced, reduced_dims))
        return tuple(next(inside) if k in dimensions else next(outside) for k in range(len(dims)))

    def forms(space: Space, kept: AffineExpr) -> set[AffineExpr]:
        if not length:
            return set()
        index = input_index(space, kept, space.var("r", length))
        return accesses(space, [(i, index) for i in inputs]).all_forms()

    instructions = reachable(inputs)
    # Lanes are neighbouring columns; where rows are reduced there are none, and elements are taken one by one.
    columns = bool(dims) and len(dims) - 1 not in dimensions
    lanes = unit.lanes(list(instructions)) if columns else 1
    nest = refine(size, forms, max(1, lanes // 4))
    lanes = fewer_lanes(lanes, nest.inner)
    space = Space()
    e = unit.kernel(spec, lanes, space)
    outer = nest.variables(space, "o")[:-1]
    reduced = space.var("r", length)
    targets = [None if r is None else unit.result_pointer(e, r) for r in results]

    def body(v: AffineExpr, _: int) -> None:
        kept = nest.flat([*outer, v])

        def one(r: Value, totals: Sequence[Value]) -> list[Value]:
            e.set_variable(reduced, r)
            index = input_index(space, kept, reduced)
            values = [e.splat(e.value(i, index), lanes) for i in inputs]
            return apply_scalar(e, combiner, [*totals, *values])

        start = [e.splat(e.value(i, ()), lanes) for i in initials]
        totals = counted_loop(e, i64(0), i64(length), 1, one, start)
        for k, target in enumerate(targets):
            if target is not None:
                e.store(target, inputs[k].dtype, kept, totals[k])

    def row(p: Value, _: Sequence[Value]) -> list[Value]:
        delinearize_rows(e, p, outer, nest.extents[:-1])
        vector_loop(e, nest.inner, 1, i64(0), i64(nest.inner), body)
        return []

    begin, end = e.function.arguments[1:]
    if not outer:
        # One loop: divide it itself.
        step = i64(lanes)
        vector_loop(e, nest.inner, 1, e.inner.mul(begin, step), _least(e, e.inner.mul(end, step), nest.inner), body)
        units = -(-nest.inner // lanes)
    else:
        counted_loop(e, begin, end, 1, row)
        units = size // nest.inner
    e.inner.ret()
    unit.launch(e.function, units, size * length * (element_cost(instructions, size * length) + 4))


def _least(e: Emitter, value: Value, limit: int) -> Value:
    return e.at(value).intrinsic("llvm.smin", value, i64(limit))


def _product(dims: Sequence[int]) -> int:
    total = 1
    for d in dims:
        total *= d
    return total
