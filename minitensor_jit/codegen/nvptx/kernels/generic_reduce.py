"""Reductions by any computation, of one or several operands at once (argmax): one element after the other.

A computation that only chooses between what it is given is associative: a warp may divide the elements in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.module import Computation, Instruction
from ...emitter.loops import counted_loop
from ...emitter.scalar_computation import apply_scalar, check_scalar
from ...indexing.indexing_map import AffineExpr, Index, Space
from ...indexing.movement import accesses
from ...indexing.space import delinearize_rows, refine
from ...kernel_spec import KernelSpec, element_cost, reachable
from ...llvm.ir_types import Value
from ..unit import GpuUnit, Kernel
from .loop_kernel import BLOCK, largest_index, threads_for

__all__ = ["GenericReduce"]

# With fewer elements than this, a result is a thread's.
_LONG = 64


class GenericReduce:
    """The kernel of a fusion whose results all are those of one reduce: a thread for each."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: GpuUnit, spec: KernelSpec, reduce: Instruction) -> None:
        check_scalar("reduce", reduce.attrs["to_apply"])
        self.unit, self.spec, self.reduce = unit, spec, reduce
        self.inputs = reduce.operands[: len(reduce.operands) // 2]
        self.dims, self.dimensions = self.inputs[0].dims, reduce.attrs["dimensions"]
        self.kept = [n for d, n in enumerate(self.dims) if d not in self.dimensions]
        self.reduced = [n for d, n in enumerate(self.dims) if d in self.dimensions]

    def _index(self, space: Space, kept: AffineExpr, reduced: AffineExpr) -> Index:
        outside = iter(space.delinearize(kept, self.kept))
        inside = iter(space.delinearize(reduced, self.reduced))
        return tuple(next(inside) if d in self.dimensions else next(outside) for d in range(len(self.dims)))

    def _forms(self, space: Space, kept: AffineExpr) -> set[AffineExpr]:
        length = prod(self.reduced)
        if not length:
            return set()
        index = self._index(space, kept, space.var("r", length))
        return accesses(space, [(i, index) for i in self.inputs]).all_forms()

    def _is_shared(self, size: int, length: int) -> bool:
        """Whether a warp has each result: long ones, where threads of their own would be too few or read apart."""
        target = self.unit.target
        few = 4 * size < target.multiprocessors * target.threads_per_multiprocessor
        rows = bool(self.dims) and len(self.dims) - 1 in self.dimensions
        return _chooses(self.reduce.attrs["to_apply"]) and length >= _LONG and (few or rows)

    def emit(self) -> None:
        """Emits and launches it."""
        reduce, spec = self.reduce, self.spec
        size, length = prod(self.kept), prod(self.reduced)
        if not size:
            return
        combiner: Computation = reduce.attrs["to_apply"]
        nest = refine(size, self._forms)
        instructions = reachable(reduce.operands)
        space = Space()
        self.shared = self._is_shared(size, length)
        threads = BLOCK if self.shared else threads_for(size)
        kernel = Kernel(self.unit, spec, space, threads, largest_index(list(instructions)))
        e = kernel.e
        kernel.bind(reduce.operands)
        variables = nest.variables(space, "o")
        kept, reduced = nest.flat(variables), space.var("r", length)
        each = threads // 32 if self.shared else threads
        blocks = -(-size // each)
        at = kernel.thread()
        begin, end, lane = e.index(0), e.index(length), at
        if self.shared:
            b = e.inner
            lane = b.and_(e.wide(e.register("tid.x")), e.index(31))
            at = b.lshr(at, e.index(5))
            piece = -(-length // 32)
            begin = b.mul(lane, e.index(piece))
            end = b.intrinsic("llvm.smin", b.add(begin, e.index(piece)), e.index(length))
        with e.when(None if blocks * each == size else e.inner.icmp_signed("<", at, e.index(size))):
            delinearize_rows(e, e.here(at), variables, nest.extents)

            def one(r: Value, totals: Sequence[Value]) -> list[Value]:
                e.set_variable(reduced, r)
                index = self._index(space, kept, reduced)
                return apply_scalar(e, combiner, [*totals, *(e.value(i, index) for i in self.inputs)])

            start = [e.value(i, ()) for i in reduce.operands[len(self.inputs) :]]
            totals = counted_loop(e, begin, end, 1, one, start)
            if self.shared:
                # Neighbouring pieces first, so that their order is kept.
                for width in (1, 2, 4, 8, 16):
                    others = [e.shuffle(x, width) for x in totals]
                    totals = apply_scalar(e, combiner, [*totals, *others])
            with e.when(e.inner.icmp_unsigned("==", lane, e.index(0)) if self.shared else None):
                for root, n in spec.roots:
                    k = root.attrs["index"] if root.opcode == "get-tuple-element" else 0
                    e.store(kernel.result(n), self.inputs[k].dtype, kept, totals[k])
        cost = size * length * (element_cost(instructions, size * length) + 4)
        kernel.launch(blocks, "generic-reduce", kernel.traffic(spec.roots), cost)


def _chooses(combiner: Computation) -> bool:
    """Whether each result is one of the two numbers given for it, which may then be combined more than once."""
    count = len(combiner.parameters) // 2
    for k, root in enumerate(combiner.roots):
        given = {combiner.parameters[k], combiner.parameters[k + count]}
        picked = root.operands[1:] if root.opcode == "select" else root.operands
        if root.opcode not in ("select", "maximum", "minimum") or set(picked) != given:
            return False
    return True
