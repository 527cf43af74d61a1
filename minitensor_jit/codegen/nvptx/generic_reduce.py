"""Reductions by any computation, of one or several operands at once (argmax): one element after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.module import Computation, Instruction
from ..index import Index, Lin, Space
from ..indexing import accesses
from ..llvm import Value
from ..loops import counted_loop
from ..scalar_computation import apply_scalar, check_scalar
from ..space import delinearize_rows, refine
from ..task import Task, element_cost, reachable
from .loop_kernel import largest_index, threads_for
from .unit import GpuUnit, Kernel

__all__ = ["GenericReduce"]


class GenericReduce:
    """The kernel of a fusion whose results all are those of one reduce: a thread for each."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: GpuUnit, task: Task, reduce: Instruction) -> None:
        check_scalar("reduce", reduce.attrs["to_apply"])
        self.unit, self.task, self.reduce = unit, task, reduce
        self.inputs = reduce.operands[: len(reduce.operands) // 2]
        self.dims, self.dimensions = self.inputs[0].dims, reduce.attrs["dimensions"]
        self.kept = [n for d, n in enumerate(self.dims) if d not in self.dimensions]
        self.reduced = [n for d, n in enumerate(self.dims) if d in self.dimensions]

    def _index(self, space: Space, kept: Lin, reduced: Lin) -> Index:
        outside = iter(space.delinearize(kept, self.kept))
        inside = iter(space.delinearize(reduced, self.reduced))
        return tuple(next(inside) if d in self.dimensions else next(outside) for d in range(len(self.dims)))

    def _forms(self, space: Space, kept: Lin) -> set[Lin]:
        length = prod(self.reduced)
        if not length:
            return set()
        index = self._index(space, kept, space.var("r", length))
        return accesses(space, [(i, index) for i in self.inputs]).all_forms()

    def emit(self) -> None:
        """Emits and launches it."""
        reduce, task = self.reduce, self.task
        size, length = prod(self.kept), prod(self.reduced)
        if not size:
            return
        combiner: Computation = reduce.attrs["to_apply"]
        nest = refine(size, self._forms)
        instructions = reachable(reduce.operands)
        space = Space()
        threads = threads_for(size)
        kernel = Kernel(self.unit, task, space, threads, largest_index(list(instructions)))
        e = kernel.e
        kernel.bind(reduce.operands)
        variables = nest.variables(space, "o")
        kept, reduced = nest.flat(variables), space.var("r", length)
        blocks = -(-size // threads)
        at = kernel.thread()
        with e.when(None if blocks * threads == size else e.inner.icmp_signed("<", at, e.index(size))):
            delinearize_rows(e, e.here(at), variables, nest.extents)

            def one(r: Value, totals: Sequence[Value]) -> list[Value]:
                e.set_variable(reduced, r)
                index = self._index(space, kept, reduced)
                return apply_scalar(e, combiner, [*totals, *(e.value(i, index) for i in self.inputs)])

            start = [e.value(i, ()) for i in reduce.operands[len(self.inputs) :]]
            totals = counted_loop(e, e.index(0), e.index(length), 1, one, start)
            for root, n in task.roots:
                k = root.attrs["index"] if root.opcode == "get-tuple-element" else 0
                e.store(kernel.result(n), self.inputs[k].dtype, kept, totals[k])
        cost = size * length * (element_cost(instructions, size * length) + 4)
        kernel.launch(blocks, "generic-reduce", kernel.traffic(task.roots), cost)
