"""Products of a vector, in the order that they have of their own (`docs/numerics.md`): sixteen lanes along k.

Where neighbours in k are neighbours in memory, sixteen threads have the lanes of one element of the result; elsewhere
one thread has all of them, and its neighbours have the neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ....ir.module import Instruction
from ....ir.semantics.matrix import product_sizes
from ....ir.shape import DTYPES
from ...emitter.loops import counted_loop
from ...emitter.types import MEMORY
from ...indexing.indexing_map import Space
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import Value, constant
from ..unit import GpuUnit, Kernel

if TYPE_CHECKING:
    from .dot import Operand

__all__ = ["emit_vector_product"]

LANES: Final = 16
THREADS: Final = 256
# Steps of sixteen products that are on their way at a time.
STEPS: Final = 4


def emit_vector_product(
    unit: GpuUnit, spec: KernelSpec, dot: Instruction, left: Operand, right: Operand, block_k: int
) -> None:
    """Emits and launches the kernel."""
    _VectorProduct(unit, spec, dot, left, right, block_k).emit()


class _VectorProduct:
    def __init__(
        self, unit: GpuUnit, spec: KernelSpec, dot: Instruction, left: Operand, right: Operand, block_k: int
    ) -> None:
        self.unit, self.spec, self.dot, self.block_k = unit, spec, dot, block_k
        self.operands = (left, right)
        self.batch, self.m, self.k, self.n = product_sizes(dot)
        self.element, self.itemsize = MEMORY[dot.dtype], DTYPES[dot.dtype].itemsize
        # The operand that is no vector decides.
        matrix = (right if self.m == 1 else left).matrix
        self.shared = matrix.contracted == 1 or (self.m == 1 and self.n == 1)

    def emit(self) -> None:
        """Emits and launches it."""
        count = self.batch * self.m * self.n
        largest = 2 * LANES * max(count, *(o.array_shape.size for o in self.dot.operands))
        kernel = Kernel(self.unit, self.spec, Space(), THREADS, largest)
        e = self.e = kernel.e
        b = e.builders[0]
        at, ways = kernel.thread(), LANES if self.shared else 1
        out = b.udiv(at, e.index(ways)) if self.shared else at
        there = b.icmp_signed("<", out, e.index(count))
        # Shuffles need all threads of a warp: those beyond the end compute the last element once more.
        out = b.intrinsic("llvm.smin", out, e.index(count - 1))
        batch, rest = b.udiv(out, e.index(self.m * self.n)), b.urem(out, e.index(self.m * self.n))
        places = (b.udiv(rest, e.index(self.n)), b.urem(rest, e.index(self.n)))
        self.bases = []
        for operand, place in zip(self.operands, places, strict=True):
            matrix = operand.matrix
            offset = b.add(b.mul(batch, e.index(matrix.batch)), b.mul(place, e.index(matrix.free)))
            assert operand.symbol is not None  # only products with tiles compute theirs
            self.bases.append(b.gep(kernel.argument(operand.symbol), offset, self.element))
        lane = b.and_(e.wide(e.register("tid.x")), e.index(LANES - 1))
        self.lanes = [lane] if self.shared else [e.index(k) for k in range(LANES)]
        total = self._total()
        store = b.and_(there, b.icmp_unsigned("==", lane, e.index(0))) if self.shared else there
        with e.when(store):
            target = e.inner.gep(kernel.result(0), out, self.element)
            e.inner.store(total, target, self.itemsize)
        work = 2 * count * self.k
        nbytes = sum(o.array_shape.nbytes for o in (*self.dot.operands, self.dot))
        kernel.launch(-(-count * ways // THREADS), "gemv", nbytes, work)

    def _total(self) -> Value:
        e = self.e
        blocks, rest = divmod(self.k, self.block_k)
        total = constant(self.element, -0.0)  # what is added to it stays as it is
        if not self.k:
            return constant(self.element, 0)
        if blocks:

            def block(k0: Value, carried: Sequence[Value]) -> list[Value]:
                return [e.inner.fadd(carried[0], self._block(k0, self.block_k))]

            (total,) = counted_loop(e, e.index(0), e.index(blocks * self.block_k), self.block_k, block, [total])
        if rest:
            total = e.inner.fadd(total, self._block(e.index(blocks * self.block_k), rest))
        return total

    def _block(self, k0: Value, length: int) -> Value:
        """One block of k: lanes, then their sum by halving."""
        e = self.e
        whole, rest = divmod(length, LANES * STEPS)
        sums: list[Value] = [constant(self.element, 0)] * len(self.lanes)

        def round_(at: Value, carried: Sequence[Value]) -> list[Value]:
            return self._take(e.inner.add(k0, at), LANES * STEPS, carried)

        if whole:
            step = LANES * STEPS
            sums = counted_loop(e, e.index(0), e.index(whole * step), step, round_, sums)
        if rest:
            sums = self._take(e.inner.add(k0, e.index(length - rest)), rest, sums)
        b = e.inner
        if self.shared:
            total = sums[0]
            for width in (8, 4, 2, 1):
                total = b.fadd(total, e.shuffle(total, width))
            return total
        for width in (8, 4, 2, 1):
            sums = [b.fadd(sums[at], sums[at + width]) for at in range(width)]
        return sums[0]

    def _take(self, k0: Value, count: int, sums: Sequence[Value]) -> list[Value]:
        """Takes in `count` products from `k0` on, padded with zeros to whole steps."""
        e, b = self.e, self.e.inner
        zero = constant(self.element, 0)
        factors: list[tuple[int, list[Value]]] = []
        for start in range(0, count, LANES):
            for which, lane in enumerate(self.lanes):
                position = b.add(lane, e.index(start)) if start else lane
                ok: Value | None = None
                if self.shared:
                    if start + LANES > count:
                        ok = b.icmp_signed("<", position, e.index(count))
                elif start + which >= count:
                    factors.append((which, [zero, zero]))
                    continue
                at = b.add(k0, position)
                if ok is not None:
                    at = b.select(ok, at, e.index(0))
                loaded = []
                for operand, base in zip(self.operands, self.bases, strict=True):
                    place = b.gep(base, b.mul(at, e.index(operand.matrix.contracted)), self.element)
                    value = b.load(place, self.element, self.itemsize)
                    loaded.append(value if ok is None else b.select(ok, value, zero))
                factors.append((which, loaded))
        totals = list(sums)
        for which, (x, y) in factors:
            totals[which] = b.fma(x, y, totals[which])
        return totals
