"""Matrix products through shared memory, in the documented order (`docs/numerics.md`).

Products are taken by fused multiply-add in increasing k, in blocks of 512 that each start at zero.
A block of 256 threads makes a tile of the result, each thread a square of it; the operands' tiles for the next few k
are on their way from memory while those at hand are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from ....ir.module import Instruction
from ....ir.semantics.matrix import BLOCK_K, product_sizes
from ....ir.shape import DTYPES
from ...emitter.loops import counted_loop
from ...emitter.types import MEMORY
from ...indexing.indexing_map import ZERO, AffineExpr, Space
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import Value, constant
from ..unit import GpuUnit, Kernel

if TYPE_CHECKING:
    from .dot import Computed, Operand

__all__ = ["TiledProduct"]

THREADS: Final = 256
SIDE: Final = 16  # threads along each side of a tile


class TiledProduct:
    """The kernel of a product with tiles."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec, dot: Instruction, left: Operand, right: Operand) -> None:
        self.unit, self.spec, self.dot, self.left, self.right = unit, spec, dot, left, right
        self.batch, self.m, self.k, self.n = product_sizes(dot)
        self.dtype, self.element = dot.dtype, MEMORY[dot.dtype]
        self.itemsize = DTYPES[dot.dtype].itemsize
        # Squares of 8 by 8 do more with what they read; of 4 by 4 there are enough for small products.
        tiles = self.batch * -(-self.m // 128) * -(-self.n // 128)
        large = self.itemsize == 4 and self.m >= 128 and self.n >= 128 and tiles >= unit.target.multiprocessors
        self.square = 8 if large else 4
        self.side = SIDE * self.square
        self.depth = 8 if large or self.itemsize == 8 else 16
        # Rows of shared memory lie apart, so that a column of them is in different banks.
        self.pitch = self.side + 4

    def emit(self) -> None:
        """Emits and launches it."""
        space = Space()
        largest = 2 * max(prod(o.dims) for o in (*self.dot.operands, self.dot)) + 2 * self.side * max(
            self.left.matrix.free, self.right.matrix.free, self.left.matrix.contracted, self.right.matrix.contracted, 1
        )
        self.space = space
        self.kernel = Kernel(self.unit, self.spec, space, THREADS, largest)
        e = self.e = self.kernel.e
        b = e.builders[0]
        tiles_across = -(-self.n // self.side)
        tiles = -(-self.m // self.side) * tiles_across
        tile = e.wide(e.register("ctaid.x"))
        self.matrix_number = e.wide(e.register("ctaid.y")) if self.batch > 1 else e.index(0)
        self.row0 = b.mul(b.udiv(tile, e.index(tiles_across)), e.index(self.side))
        self.column0 = b.mul(b.urem(tile, e.index(tiles_across)), e.index(self.side))
        self.thread = e.wide(e.register("tid.x"))
        self._slots: list[list[Value]] = []
        self.sources = [
            self._source(self.left, self.row0, self.m), self._source(self.right, self.column0, self.n)
        ]  # fmt: skip
        self.shared = [e.shared(name, self.element, 2 * self.pitch * self.depth) for name in ("a", "b")]
        totals = self._product()
        self._store(totals)
        work = 2 * self.batch * self.m * self.n * self.k
        nbytes = sum(o.array_shape.nbytes for o in (*self.dot.operands, self.dot))
        self.kernel.launch(tiles, "gemm", nbytes, work, self.batch)

    # ---- from memory to shared memory

    def _source(self, operand: Operand, first: Value, size: int) -> Callable[[Value, int], list[Value]]:
        """A function that loads this thread's part of the operand's tile for `depth` values of k from `k0` on."""
        e, depth, side = self.e, self.depth, self.side
        if operand.computed is not None:
            return self._evaluated(operand.computed, first, size)
        assert operand.symbol is not None
        b, matrix = e.builders[0], operand.matrix
        base = self.kernel.argument(operand.symbol)
        if self.batch > 1:
            base = b.gep(base, b.mul(self.matrix_number, e.index(matrix.batch)), self.element)
        each = side * depth // THREADS
        along_k = matrix.contracted == 1  # neighbouring threads read neighbouring elements
        places = []
        for part in range(each):
            at = b.add(self.thread, e.index(part * THREADS))
            within, kk = (b.udiv(at, e.index(depth)), b.urem(at, e.index(depth))) if along_k else (
                b.urem(at, e.index(side)), b.udiv(at, e.index(side))
            )  # fmt: skip
            position = b.add(first, within)
            inside = None if size % side == 0 else b.icmp_signed("<", position, e.index(size))
            if inside is not None:
                position = b.select(inside, position, e.index(0))
            offset = b.add(b.mul(position, e.index(matrix.free)), b.mul(kk, e.index(matrix.contracted)))
            slot = b.add(b.mul(kk, e.index(self.pitch)), within)
            places.append((b.gep(base, offset, self.element), inside, kk, slot))
        self._slots.append([slot for _, _, _, slot in places])
        zero = constant(self.element, 0)

        def load(k0: Value, limit: int) -> list[Value]:
            b = e.inner
            step = b.mul(k0, e.index(matrix.contracted))
            loaded = []
            for address, inside, kk, _ in places:
                ok = None if limit >= depth else b.icmp_signed("<", kk, e.index(limit))
                where = b.gep(address, step, self.element)
                if ok is not None:
                    where = b.select(ok, where, base)
                value = b.load(where, self.element, self.itemsize)
                loaded.append(value if inside is None else b.select(inside, value, zero))
            return loaded

        return load

    def _evaluated(self, operand: Computed, first: Value, size: int) -> Callable[[Value, int], list[Value]]:
        """The same for an operand whose elements are computed where they are needed."""
        e, depth, side, space = self.e, self.depth, self.side, self.space
        b = e.builders[0]
        i, (of_batch, of_free, of_contracted) = _unmerged(
            operand.instruction, (operand.batch, operand.free, operand.contracted)
        )
        self.kernel.bind([i])
        index: list[AffineExpr] = [ZERO] * len(i.dims)

        def place(name: str, dims: Sequence[int], number: Value) -> None:
            """Number `number` of these dimensions: a variable of each has its own value, since it has a range too."""
            b = e.at(number)
            for d in reversed(dims):
                index[d] = space.var(f"{name}{d}", i.dims[d])
                if index[d].terms:
                    last = d == dims[0]
                    e.set_variable(index[d], number if last else b.urem(number, e.index(i.dims[d])))
                    number = number if last else b.udiv(number, e.index(i.dims[d]))

        place("matrix", of_batch, self.matrix_number)
        places = []
        for part in range(side * depth // THREADS):
            at = b.add(self.thread, e.index(part * THREADS))
            # Neighbouring threads have neighbouring windows, which are neighbours in memory.
            within, kk = b.urem(at, e.index(side)), b.udiv(at, e.index(side))
            position = b.add(first, within)
            inside = None if size % side == 0 else b.icmp_signed("<", position, e.index(size))
            if inside is not None:
                position = b.select(inside, position, e.index(0))
            place(f"window{part}_", of_free, position)
            slot = b.add(b.mul(kk, e.index(self.pitch)), within)
            places.append((tuple(index), inside, kk, slot))
        self._slots.append([slot for *_, slot in places])
        zero = constant(self.element, 0)

        def load(k0: Value, limit: int) -> list[Value]:
            found = []
            for window, inside, kk, _ in places:
                b = e.inner
                k = b.add(k0, kk)
                ok = None if limit >= depth else b.icmp_signed("<", kk, e.index(limit))
                if ok is not None:
                    k = b.select(ok, k, e.index(0))
                index[:] = window
                place("k", of_contracted, e.here(k))
                value = e.value(i, tuple(index))
                for condition in (ok, inside):
                    value = value if condition is None else e.inner.select(condition, value, zero)
                found.append(value)
            return found

        return load

    def _put(self, half: Value, values: Sequence[Value]) -> None:
        """Stores what was loaded in one half of the shared memory."""
        e, b = self.e, self.e.inner
        start = b.mul(half, e.index(self.pitch * self.depth))
        each = len(self._slots[0])
        for which, base in enumerate(self.shared):
            for slot, value in zip(self._slots[which], values[which * each : (which + 1) * each], strict=True):
                b.store(value, b.gep(base, b.add(start, slot), self.element), self.itemsize)

    # ---- products

    def _product(self) -> list[Value]:
        """The square of this thread: sums of blocks of k, one after the other."""
        e = self.e
        blocks, rest = divmod(self.k, BLOCK_K)
        floating = DTYPES[self.dtype].kind == "f"
        # What -0.0 is added to stays as it is, so that the first block's result is stored.
        none = constant(self.element, -0.0 if floating else 0)
        count = self.square * self.square

        def add(totals: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
            b = e.inner
            return [b.fadd(t, s) if floating else b.add(t, s) for t, s in zip(totals, sums, strict=True)]

        if blocks == 0 and rest:
            return self._block(e.index(0), rest)
        totals = [none] * count
        if blocks:

            def block(k0: Value, carried: Sequence[Value]) -> list[Value]:
                return add(carried, self._block(k0, BLOCK_K))

            totals = counted_loop(e, e.index(0), e.index(blocks * BLOCK_K), BLOCK_K, block, totals)
        if rest:
            totals = add(totals, self._block(e.index(blocks * BLOCK_K), rest))
        return totals if self.k else [constant(self.element, 0)] * count

    def _block(self, k0: Value, length: int) -> list[Value]:
        """The sums over `length` values of k."""
        e, depth = self.e, self.depth
        whole, rest = divmod(length, depth)
        sums: list[Value] = [constant(self.element, 0)] * (self.square * self.square)

        def load(at: Value, limit: int) -> list[Value]:
            return [value for source in self.sources for value in source(at, limit)]

        if whole:
            held = load(k0, depth)

            def chunk(c: Value, carried: Sequence[Value]) -> list[Value]:
                b = e.inner
                half = b.and_(c, e.index(1))
                values, sums = list(carried[: len(held)]), list(carried[len(held) :])
                self._put(half, values)
                e.barrier()
                # The next ones; after the last chunk the same again, which nobody uses.
                following = b.intrinsic("llvm.smin", b.add(c, e.index(1)), e.index(whole - 1))
                values = load(b.add(k0, b.mul(following, e.index(depth))), depth)
                return [*values, *self._multiply(half, depth, sums)]

            sums = counted_loop(e, e.index(0), e.index(whole), 1, chunk, [*held, *sums])[len(held) :]
            # What the last chunk read must not be written over before all have read it.
            e.barrier()
        if rest:
            self._put(e.index(0), load(e.inner.add(k0, e.index(whole * depth)), rest))
            e.barrier()
            sums = self._multiply(e.index(0), rest, sums)
            e.barrier()
        return sums

    def _multiply(self, half: Value, depth: int, sums: Sequence[Value]) -> list[Value]:
        """Takes in the products of `depth` values of k."""
        e, b, square = self.e, self.e.inner, self.square
        floating = DTYPES[self.dtype].kind == "f"
        start = b.mul(half, e.index(self.pitch * self.depth))
        totals = list(sums)
        firsts = [b.add(start, offset) for offset in self._corners()]
        for kk in range(depth):
            row, column = (
                self._read(base, b.add(first, e.index(kk * self.pitch)))
                for base, first in zip(self.shared, firsts, strict=True)
            )
            for i in range(square):
                for j in range(square):
                    at = i * square + j
                    if floating:
                        totals[at] = b.fma(row[i], column[j], totals[at])
                    else:
                        totals[at] = b.add(totals[at], b.mul(row[i], column[j]))
        return totals

    def _corners(self) -> tuple[Value, Value]:
        """Where the thread's rows and columns begin in a tile: four neighbours, and four more half a tile further."""
        e = self.e
        b = e.builders[0]
        row = b.mul(b.udiv(self.thread, e.index(SIDE)), e.index(4))
        column = b.mul(b.urem(self.thread, e.index(SIDE)), e.index(4))
        return row, column

    def _read(self, base: Value, at: Value) -> list[Value]:
        """The thread's rows or columns at one k, four at a time."""
        e = self.e
        found = []
        for part in range(0, self.square, 4):
            place = e.inner.add(at, e.index(part // 4 * (self.side // 2))) if part else at
            found += e.load_four(base, self.dtype, place)
        return found

    # ---- the result

    def _store(self, totals: Sequence[Value]) -> None:
        """Stores the square, or what the fusion makes of it."""
        e, space, square = self.e, self.space, self.square
        root = self.spec.computation.root
        self.kernel.bind([root], {self.dot})
        target = self.kernel.result(0)
        b = e.builders[0]
        corner_row, corner_column = self._corners()
        width = 4 if self.n % 4 == 0 else 1
        batch = space.var("batch", self.batch)
        e.set_variable(batch, self.matrix_number)
        columns = {part: space.var(f"column{part}", self.n // width) for part in range(0, square, width)}
        for i in range(square):
            row = space.var(f"row{i}", self.m)
            row_at = b.add(b.add(self.row0, corner_row), e.index(i % 4 + i // 4 * (self.side // 2)))
            for part in range(0, square, width):
                shift = part % 4 + part // 4 * (self.side // 2)
                column_at = b.add(b.add(self.column0, corner_column), e.index(shift))
                inside = None
                if self.m % self.side:
                    inside = b.icmp_signed("<", row_at, e.index(self.m))
                if self.n % self.side:
                    fits = b.icmp_signed("<", column_at, e.index(self.n))
                    inside = fits if inside is None else b.and_(inside, fits)
                column = columns[part]
                with e.when(inside):
                    e.set_variable(row, e.here(row_at))
                    e.set_variable(column, e.here(e.inner.udiv(column_at, e.index(width)) if width > 1 else column_at))
                    first = batch * (self.m * self.n) + row * self.n + column * width
                    values = []
                    for k in range(width):
                        e.results[self.dot] = (first + k, totals[i * square + part + k])
                        with e.unit(column, width, k):
                            values.append(e.value(root, space.delinearize(first + k, root.dims)))
                    e.store_unit(target, root.dtype, first, values)


Groups: TypeAlias = tuple[tuple[int, ...], ...]


def _unmerged(i: Instruction, groups: Groups) -> tuple[Instruction, Groups]:
    """What a reshape that merges dimensions merges, and the groups in its dimensions."""
    while i.opcode == "reshape":
        source = i.operands[0]
        parts: list[list[int]] = []
        at = 0
        for n in i.dims:
            parts.append([])
            size = 1
            while at < len(source.dims) and (size < n or source.dims[at] == 1):
                parts[-1].append(at)
                size *= source.dims[at]
                at += 1
            if size != n:
                return i, groups
        if at < len(source.dims):
            return i, groups
        groups = tuple(tuple(d for one in group for d in parts[one]) for group in groups)
        i = source
    return i, groups
