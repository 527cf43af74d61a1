"""Kernels of loop fusions: each element is computed on its own, by threads that take a few neighbours each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.module import Instruction
from ...emitter.loops import counted_loop
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.movement import accesses
from ...indexing.space import delinearize_rows, refine
from ...kernel_spec import KernelSpec, Root, element_cost, reachable
from ...llvm.ir_types import I32, Value, constant
from ..emitter import ACCESS_BYTES, GpuEmitter
from ..unit import GpuUnit, Kernel
from .tile_loop import TileLoop, find_across

__all__ = ["BLOCK", "LoopKernels", "blocks_for", "for_each_unit", "largest_index"]

BLOCK = 256
# Waves of blocks that are resident together; with more work than that, each thread takes several units.
WAVES = 8
# From so many elements on, operands that lie across are read in squares.
TILED = 1 << 14
# The most elements that one thread takes at a time, and how long their code may be.
WIDEST = 8
LONGEST = 384


class LoopKernels:
    """One kernel for each size that occurs among the roots of a spec."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec) -> None:
        by_size: dict[int, list[Root]] = {}
        for root in spec.roots:
            by_size.setdefault(root[0].array_shape.size, []).append(root)
        self.kernels = [SizeLoop(unit, spec, size, roots) for size, roots in by_size.items() if size]
        self.in_place = self.kernels[0].in_place if len(self.kernels) == 1 else set[tuple[int, int]]()

    def emit(self) -> None:
        """Emits and launches them."""
        for kernel in self.kernels:
            kernel.emit()


def blocks_for(unit: GpuUnit, units: int, threads: int = BLOCK) -> int:
    """How many blocks to launch for so many units of work, one a thread."""
    target = unit.target
    most = target.multiprocessors * (target.threads_per_multiprocessor // threads) * WAVES
    return max(1, min(-(-units // threads), most))


def threads_for(units: int) -> int:
    """The size of a block for so many units: whole warps."""
    return min(BLOCK, max(32, -(-units // 32) * 32))


def largest_index(instructions: Sequence[Instruction]) -> int:
    """A bound of the numbers of elements of these arrays, and of their parts where they are complex."""
    return 2 * max((i.array_shape.size for i in instructions if not i.is_tuple), default=1)


def for_each_unit(kernel: Kernel, units: int, blocks: int, body: Callable[[Value], None]) -> None:
    """Calls `body(number)` for every unit of work of this thread."""
    e = kernel.e
    first, count = kernel.thread(), e.index(units)
    if blocks * kernel.threads >= units:
        exact = blocks * kernel.threads == units
        with e.when(None if exact else e.builders[0].icmp_signed("<", first, count)):
            body(e.here(first))
        return

    def one(at: Value, _: Sequence[Value]) -> list[Value]:
        body(at)
        return []

    counted_loop(e, first, count, blocks * kernel.threads, one)


class SizeLoop:
    """The kernel of the roots of one size."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec, size: int, roots: list[Root]) -> None:
        self.unit, self.spec, self.size, self.roots = unit, spec, size, roots
        self.instructions = reachable([r for r, _ in roots])
        self.nest = refine(size, self._forms)
        self.cost = element_cost(self.instructions, size)
        self.width = self._width()
        large = size >= min(TILED, unit.options.least_vector_elements)
        self.across = find_across(self.nest, self.flat, self.leaves) if large else None

    def _forms(self, space: Space, flat: AffineExpr) -> set[AffineExpr]:
        found = accesses(space, [(r, space.delinearize(flat, r.dims)) for r, _ in self.roots])
        self.flat, self.leaves, self.conditional = flat, found.leaves, found.conditional
        # The operands that are read at the place that is written, and nowhere else: where a condition doesn't hold,
        # another place is read instead.
        self.in_place = {
            (n, p.parameter_number)
            for p, lins in found.leaves.items()
            for r, n in self.roots
            if p.parameter_number is not None and lins == {flat} and p.dtype == r.dtype and p not in found.conditional
        }
        return found.all_forms()

    def _width(self) -> int:
        """How many neighbours a thread takes: as many as make accesses of 16 bytes."""
        if self.size < self.unit.options.least_vector_elements:
            return 1
        sizes = [i.array_shape.itemsize for i in [r for r, _ in self.roots] + list(self.leaves) if i.dims] or [
            ACCESS_BYTES
        ]
        width = min(WIDEST, ACCESS_BYTES // min(sizes), max(1, 2 * ACCESS_BYTES // max(sizes)))
        while width > 1 and (width * self.cost > LONGEST or width > self.size):
            width //= 2
        if len(self.nest.extents) > 1:
            while self.nest.inner % width:
                width //= 2
        return max(1, width)

    def emit(self) -> None:
        """Emits and launches it."""
        width, nest = self.width, self.nest
        largest = largest_index([*self.instructions, *(r for r, _ in self.roots)])
        if self.across is not None:
            TileLoop(self.unit, self.spec, nest, self.roots, self.across, self.cost).emit(largest)
            return
        units, rest = divmod(self.size, width)
        threads = threads_for(units + rest)
        space = Space()
        kernel = Kernel(self.unit, self.spec, space, threads, largest)
        e = kernel.e
        kernel.bind([r for r, _ in self.roots], (), self.conditional)
        targets = [kernel.result(n) for _, n in self.roots]
        outer = nest.variables(space, "o")[:-1]
        inner = space.var("t", nest.inner // width)
        extents = (*nest.extents[:-1], nest.inner // width)

        def one(at: Value) -> None:
            delinearize_rows(e, at, [*outer, inner], extents)
            self._elements(e, space, nest.flat([*outer, inner * width]), inner, width, targets)

        blocks = blocks_for(self.unit, units, threads)
        for_each_unit(kernel, units, blocks, one)
        if rest:
            # What is left over of one flat loop, in the first block.
            thread = e.wide(e.register("tid.x"))
            b = e.builders[0]
            first = b.icmp_unsigned("==", e.register("ctaid.x"), constant(I32, 0))
            with e.when(b.and_(first, b.icmp_unsigned("<", thread, e.index(rest)))):
                last = space.var("r", rest)
                e.set_variable(last, e.here(thread))
                self._elements(e, space, last + units * width, last, 1, targets)
        kernel.launch(blocks, "loop", kernel.traffic(self.roots), self.size * self.cost)

    def _elements(
        self, e: GpuEmitter, space: Space, flat: AffineExpr, inner: AffineExpr, width: int, targets: Sequence[Value]
    ) -> None:
        # Everything is read before anything is written: a result may lie where an operand was.
        values: list[list[Value]] = [[] for _ in self.roots]
        for k in range(width):
            with e.unit(inner, width, k):
                for (r, _), some in zip(self.roots, values, strict=True):
                    some.append(e.value(r, space.delinearize(flat + k, r.dims)))
        for (r, _), target, some in zip(self.roots, targets, values, strict=True):
            e.store_unit(target, r.dtype, flat, some)
