"""Matrix products on tensor cores: `mma.sync` of float16, bfloat16 and, where that is allowed, float32 as TF32.

Sums are in float32. TF32 has ten bits of a mantissa: numbers are rounded to it, to nearest, as they go into registers.

A block of threads makes a tile of the result, each of its warps a part of it in registers. The operands' tiles for the
next values of k are copied to shared memory by `cp.async`, three ahead of the one that is multiplied, and `ldmatrix`
reads from there what each thread needs. Rows of shared memory have 16-byte chunks whose places are exchanged by the
row's number, so that neither the copies nor the reads meet in one bank.

Facts are from NVIDIA's "PTX ISA": the layouts of fragments of `mma.m16n8k16`, `mma.m16n8k8` and of `ldmatrix`. The
order in which a tensor core adds its products is not documented; it's the same for every size of tile, since k is
walked in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

from ....ir.module import Instruction
from ....ir.semantics.matrix import product_sizes
from ....ir.shape import DTYPES
from ...emitter.loops import counted_loop
from ...indexing.indexing_map import Space
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import F32, I32, I64, Value, constant
from ..unit import GpuUnit, Kernel

if TYPE_CHECKING:
    from .dot import Operand

__all__ = ["FORMATS", "TF32", "chunk_of", "emit_tensor_product"]

FORMATS: Final = {"bf16": "m16n8k16.row.col.bf16", "f16": "m16n8k16.row.col.f32.f32", "f32": "m16n8k8.row.col.tf32"}
"""The types of operands, and what the product's intrinsic is called for each."""
TF32: Final = "dot_tf32_tf32_f32"
"""The `algorithm` of products of float32 that may be rounded."""
STEPS: Final = 2  # products of fragments along k in a tile: a row of one is 32 bytes
CHUNKS: Final = 4  # of 16 bytes along k in a tile
STAGES: Final = 4  # tiles in shared memory, of which one is multiplied
GROUP: Final = 8  # rows of tiles that are walked together, so that the second level cache has their operands
_ELEMENT: Final = {"bf16": "i16", "f16": "i16", "f32": "i32"}
_SHARED: Final = "ptr addrspace(3)"
_GLOBAL: Final = "ptr addrspace(1)"


def chunk_of(dtype: str) -> int:
    """Elements of 16 bytes, which is what one copy moves: rows of operands begin at multiples of it."""
    return 16 // DTYPES[dtype].itemsize


@dataclass(frozen=True)
class Tiling:
    """A tile of `rows` by `columns`, made by warps side by side."""

    rows: int
    columns: int
    warps_down: int
    warps_across: int
    resident: int
    """How many blocks have room on a multiprocessor at a time."""

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps_down * self.warps_across

    def blocks(self, batch: int, m: int, n: int) -> int:
        """How many tiles a result has."""
        return batch * -(-m // self.rows) * -(-n // self.columns)


# From the one that does most with what it reads to the one of which small results have most.
TILINGS: Final = (
    Tiling(128, 256, 2, 4, 1), Tiling(128, 128, 2, 4, 2), Tiling(64, 128, 2, 2, 3), Tiling(64, 64, 2, 2, 4)
)  # fmt: skip


def tiling_for(batch: int, m: int, n: int, multiprocessors: int) -> Tiling:
    """The largest tiles of which there is one for each multiprocessor."""
    for tiling in TILINGS:
        if m >= tiling.rows and n >= tiling.columns and tiling.blocks(batch, m, n) >= multiprocessors:
            return tiling
    return TILINGS[-1]


def emit_tensor_product(unit: GpuUnit, spec: KernelSpec, dot: Instruction, left: Operand, right: Operand) -> None:
    """Emits and launches the kernel, and what the spec makes of the product's elements.

    Of each operand either the contracted or the free dimension has the stride 1; all others are multiples of a chunk,
    as is the size of that dimension in memory.
    """
    _Product(unit, spec, dot, left, right).emit()


class _Side:
    """One operand's way to shared memory and from there to registers."""

    def __init__(self, product: _Product, operand: Operand, number: int, first: Value, extent: int, size: int) -> None:
        self.p, self.matrix = product, operand.matrix
        self.along_k = operand.matrix.contracted == 1
        self.extent, self.size, self.first, self.number = extent, size, first, number
        self.rows, self.chunks = (extent, CHUNKS) if self.along_k else (product.depth, extent // product.chunk)
        self.scalars = product.dtype == "f32" and not self.along_k
        self.nbytes = self.rows * self.chunks * 16
        self._prepare(operand)

    def _swizzle(self, row: Value, chunk: Value) -> Value:
        """The place of a chunk in its row: those of the rows that are read together are in different banks."""
        b = self.p.b
        if self.scalars:  # two chunks of four rows
            return b.xor(chunk, b.shl(b.and_(row, i32(3)), i32(1)))
        turn = b.and_(b.lshr(row, i32(1)), i32(3)) if self.chunks == 4 else b.and_(row, i32(7))
        return b.xor(chunk, turn)

    # ---- copies

    def _prepare(self, operand: Operand) -> None:
        """What each copy of this thread has in every turn: its addresses, and how much of it exists."""
        p, b, matrix = self.p, self.p.b, self.matrix
        assert operand.symbol is not None
        base = p.kernel.argument(operand.symbol)
        self.origin = b.emit(None, _GLOBAL, f"addrspacecast ptr {base.ref} to {_GLOBAL}")
        start = b.mul(p.batch_number, i64(matrix.batch))
        self.copies = []
        for part in range(self.rows * self.chunks // p.tiling.threads):
            at = b.add(p.thread, i32(part * p.tiling.threads))
            row, chunk = b.udiv(at, i32(self.chunks)), b.urem(at, i32(self.chunks))
            target = b.mul(b.add(b.mul(row, i32(self.chunks)), self._swizzle(row, chunk)), i32(16))
            along = b.mul(chunk, i32(p.chunk))
            free, k = (row, along) if self.along_k else (along, row)
            position = b.add(self.first, free)
            offset = b.mul(b.zext(position, I64), i64(matrix.free))
            offset = b.add(offset, b.mul(b.zext(k, I64), i64(matrix.contracted)))
            source = _element(b, self.origin, b.add(start, offset), p.element)
            inside = None if self.size % self.extent == 0 else b.icmp_unsigned("<", position, i32(self.size))
            self.copies.append((source, target, k, inside))

    def copy(self, turn: Value, stage: Value) -> None:
        """Starts this thread's copies of the tile number `turn`, to the stage at that offset."""
        p, b = self.p, self.p.e.inner
        k0 = b.mul(turn, i32(p.depth))
        step = b.mul(b.zext(k0, I64), i64(self.matrix.contracted))
        for source, target, k, inside in self.copies:
            ok = inside
            if p.k % p.depth:
                there = b.icmp_unsigned("<", b.add(k0, k), i32(p.k))
                ok = there if ok is None else b.and_(ok, there)
            to = _byte(b, p.shared, b.add(b.add(stage, target), i32(self.number)))
            of = _element(b, source, step, p.element)
            name = "llvm.nvvm.cp.async.cg.shared.global.16"
            if ok is None:
                p.call_void(name, f"{_SHARED}, {_GLOBAL}", f"{_SHARED} {to.ref}, {_GLOBAL} {of.ref}")
            else:
                # What isn't there is zero.
                size = b.select(ok, i32(16), i32(0))
                arguments = f"{_SHARED} {to.ref}, {_GLOBAL} {of.ref}, i32 {size.ref}"
                p.call_void(f"{name}.s", f"{_SHARED}, {_GLOBAL}, i32", arguments)

    # ---- fragments

    def prepare_fragments(self, first: Value, count: int, down: bool) -> None:
        """Where this lane reads: fragments of 16 by 16 begin at `first` of the tile, `count` of them side by side.

        Of the four squares of 8 by 8, lanes 8 to 15 name the rows of the second one. It's further down for the left
        operand (`down`), and further along k for the right one.
        """
        p, b = self.p, self.p.b
        lane = p.lane
        self.places: list[list[Value]] = []
        if self.scalars:
            self._prepare_scalars(first, count, down)
            return
        low, bit3, bit4 = b.and_(lane, i32(7)), b.and_(b.lshr(lane, i32(3)), i32(1)), b.lshr(lane, i32(4))
        free_half, k_half = (bit3, bit4) if down else (bit4, bit3)
        for step in range(STEPS):
            line = []
            for at in range(count):
                if self.along_k:
                    row = b.add(b.add(first, i32(16 * at)), b.add(low, b.mul(free_half, i32(8))))
                    chunk = b.add(i32(2 * step), k_half)
                else:
                    row = b.add(i32(16 * step), b.add(low, b.mul(k_half, i32(8))))
                    chunk = b.add(b.add(b.lshr(first, i32(3)), i32(2 * at)), free_half)
                place = b.mul(b.add(b.mul(row, i32(self.chunks)), self._swizzle(row, chunk)), i32(16))
                line.append(_byte(b, p.shared, b.add(place, i32(self.number))))
            self.places.append(line)

    def _prepare_scalars(self, first: Value, count: int, down: bool) -> None:
        """Where this lane reads the four numbers of each fragment of 16 by 8 values of k, of rows that go along k.

        The places of a row's chunks are exchanged by groups of eight, and by the row's number in four: so all numbers
        lie at fixed distances from four of them.
        """
        p, b = self.p, self.p.b
        group, row = b.lshr(p.lane, i32(2)), b.and_(p.lane, i32(3))
        self.bases: list[Value] = []
        for eighth in range(4):
            free = b.add(b.add(first, i32(8 * eighth)), group)
            chunk = self._swizzle(row, b.lshr(free, i32(2)))
            where = b.mul(b.add(b.mul(row, i32(self.chunks)), chunk), i32(16))
            where = b.add(where, b.mul(b.and_(free, i32(3)), i32(4)))
            self.bases.append(_byte(b, p.shared, b.add(where, i32(self.number))))
        self.numbers: list[list[tuple[int, int]]] = []
        for step in range(STEPS):
            line = []
            for at in range(count):
                for part in range(4):
                    free_half, k_half = (part % 2, part // 2) if down else (part // 2, part % 2)
                    down_rows = (8 * step + 4 * k_half) * self.chunks * 16
                    line.append((2 * (at % 2) + free_half, down_rows + at // 2 * 32 * 4))
            self.numbers.append(line)

    def fragments(self, step: int, stage: Value) -> list[list[Value]]:
        """Four registers for each fragment."""
        found = self._scalars(step, stage) if self.scalars else self._matrices(step, stage)
        return [[self.p.rounded(x) for x in one] for one in found] if self.p.dtype == "f32" else found

    def _scalars(self, step: int, stage: Value) -> list[list[Value]]:
        b = self.p.e.inner
        bases = [_byte(b, base, stage) for base in self.bases]
        read = []
        for number, distance in self.numbers[step]:
            where = _byte(b, bases[number], i32(distance))
            read.append(b.emit(I32, "i32", f"load i32, {_SHARED} {where.ref}, align 4"))
        return [read[k : k + 4] for k in range(0, len(read), 4)]

    def _matrices(self, step: int, stage: Value) -> list[list[Value]]:
        p, b = self.p, self.p.e.inner
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.{'' if self.along_k else 'trans.'}b16.p3"
        found = []
        for place in self.places[step]:
            where = _byte(b, place, stage)
            found.append(p.call_many(name, "i32", 4, _SHARED, f"{_SHARED} {where.ref}"))
        return found


class _Product:
    def __init__(self, unit: GpuUnit, spec: KernelSpec, dot: Instruction, left: Operand, right: Operand) -> None:
        self.unit, self.spec, self.dot, self.operands = unit, spec, dot, (left, right)
        self.batch, self.m, self.k, self.n = product_sizes(dot)
        self.dtype = dot.operands[0].dtype
        self.element, self.chunk = _ELEMENT[self.dtype], chunk_of(self.dtype)
        self.depth = CHUNKS * self.chunk  # values of k in a tile
        self.tiling = tiling_for(self.batch, self.m, self.n, unit.target.multiprocessors)

    def emit(self) -> None:
        """Emits and launches it."""
        tiling = self.tiling
        largest = 2 * max(prod(o.dims) for o in (*self.dot.operands, self.dot)) + 2 * tiling.rows * tiling.columns
        self.space = Space()
        self.kernel = Kernel(self.unit, self.spec, self.space, tiling.threads, largest, resident=tiling.resident)
        e = self.e = self.kernel.e
        b = self.b = e.builders[0]
        self.thread = e.register("tid.x")
        self.lane, self.warp = b.and_(self.thread, i32(31)), b.lshr(self.thread, i32(5))
        self.batch_number = b.zext(e.register("ctaid.y"), I64) if self.batch > 1 else i64(0)
        down, across = self._tile()
        self.row0, self.column0 = b.mul(down, i32(tiling.rows)), b.mul(across, i32(tiling.columns))
        name = f"@{self.kernel.name}_shared"
        self.unit.module.globals.append(f"{name} = external addrspace(3) global [0 x i8], align 16")
        self.shared = Value(None, _SHARED, name)
        left = _Side(self, self.operands[0], 0, self.row0, tiling.rows, self.m)
        right = _Side(self, self.operands[1], left.nbytes, self.column0, tiling.columns, self.n)
        self.sides = (left, right)
        self.stage_bytes = left.nbytes + right.nbytes
        self.warp_rows, self.warp_columns = tiling.rows // tiling.warps_down, tiling.columns // tiling.warps_across
        self.warp_row = b.mul(b.urem(self.warp, i32(tiling.warps_down)), i32(self.warp_rows))
        self.warp_column = b.mul(b.udiv(self.warp, i32(tiling.warps_down)), i32(self.warp_columns))
        left.prepare_fragments(self.warp_row, self.warp_rows // 16, down=True)
        right.prepare_fragments(self.warp_column, self.warp_columns // 16, down=False)
        self._store(self._sums())
        work = 2 * self.batch * self.m * self.n * self.k
        nbytes = sum(o.array_shape.nbytes for o in (*self.dot.operands, self.dot))
        blocks = tiling.blocks(1, self.m, self.n)
        self.kernel.launch(
            blocks, "tensor-core-gemm", nbytes, work, self.batch, shared_bytes=STAGES * self.stage_bytes,
            arithmetic="tf32" if self.dot.operands[0].dtype == "f32" else "f16",
        )  # fmt: skip

    def _tile(self) -> tuple[Value, Value]:
        """The tile's row and column: groups of rows are walked column by column."""
        b = self.b
        down, across = -(-self.m // self.tiling.rows), -(-self.n // self.tiling.columns)
        number = self.e.register("ctaid.x")
        in_group = i32(GROUP * across)
        first = b.mul(b.udiv(number, in_group), i32(GROUP))
        rows = b.intrinsic("llvm.umin", b.sub(i32(down), first), i32(GROUP))
        rest = b.urem(number, in_group)
        return b.add(first, b.urem(rest, rows)), b.udiv(rest, rows)

    # ---- calls that have no type in LLVM's text here

    def call_void(self, name: str, parameters: str, arguments: str) -> None:
        """Calls an intrinsic without a result."""
        self._declare(name, "void", parameters)
        self.e.inner.raw(f"call void @{name}({arguments})")

    def call_many(self, name: str, element: str, count: int, parameters: str, arguments: str) -> list[Value]:
        """Calls an intrinsic with several results."""
        b = self.e.inner
        result = "{ " + ", ".join([element] * count) + " }"
        self._declare(name, result, parameters)
        whole = b.emit(None, result, f"call {result} @{name}({arguments})")
        type_ = I32 if element == "i32" else F32
        return [b.emit(type_, element, f"extractvalue {result} {whole.ref}, {k}") for k in range(count)]

    def _declare(self, name: str, result: str, parameters: str) -> None:
        self.unit.module.foreign[name] = f"declare {result} @{name}({parameters})"

    # ---- products

    def _sums(self) -> list[Value]:
        """This thread's part of the tile: four numbers for each 16 by 8 of its warp's."""
        e, b = self.e, self.e.inner
        count = self.warp_rows // 16 * (self.warp_columns // 8) * 4
        turns = -(-self.k // self.depth)
        zeros: list[Value] = [constant(F32, 0)] * count
        if not turns:
            return zeros
        for turn in range(STAGES - 1):
            if turn < turns:
                self._copy(i32(turn), i32(turn * self.stage_bytes))
            self._commit()

        def body(turn: Value, sums: Sequence[Value]) -> list[Value]:
            b = e.inner
            # All but the last two groups of copies are there, those of the tile at hand among them.
            self.call_void("llvm.nvvm.cp.async.wait.group", "i32", f"i32 {STAGES - 2}")
            e.barrier()
            coming = b.add(turn, i32(STAGES - 1))
            with e.when(b.icmp_unsigned("<", coming, i32(turns))):
                self._copy(coming, self._stage(coming))
            self._commit()
            return self._multiply(self._stage(turn), sums)

        sums = counted_loop(e, i32(0), i32(turns), 1, body, zeros)
        self.call_void("llvm.nvvm.cp.async.wait.group", "i32", "i32 0")
        e.barrier()
        assert b is e.inner
        return sums

    def _stage(self, turn: Value) -> Value:
        b = self.e.inner
        return b.mul(b.and_(turn, i32(STAGES - 1)), i32(self.stage_bytes))

    def _copy(self, turn: Value, stage: Value) -> None:
        for side in self.sides:
            side.copy(turn, stage)

    def _commit(self) -> None:
        self.call_void("llvm.nvvm.cp.async.commit.group", "", "")

    def _multiply(self, stage: Value, sums: Sequence[Value]) -> list[Value]:
        """Takes in the products of one tile."""
        totals = list(sums)
        across = self.warp_columns // 8
        for step in range(STEPS):
            left, right = (side.fragments(step, stage) for side in self.sides)
            for i, a in enumerate(left):
                for j in range(across):
                    at = 4 * (i * across + j)
                    pair = right[j // 2][2 * (j % 2) : 2 * (j % 2) + 2]
                    totals[at : at + 4] = self._mma(a, pair, totals[at : at + 4])
        return totals

    def rounded(self, bits: Value) -> Value:
        """A number of float32 as one of TF32."""
        b = self.e.inner
        number = b.emit(F32, "float", f"bitcast i32 {bits.ref} to float")
        name = "llvm.nvvm.f2tf32.rna"
        self._declare(name, "i32", "float")
        return b.emit(I32, "i32", f"call i32 @{name}(float {number.ref})")

    def _mma(self, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]) -> list[Value]:
        text = "<2 x half>" if self.dtype == "f16" else "i32"
        builder = self.e.inner
        factors = [*a, *b]
        if self.dtype == "f16":
            factors = [builder.emit(None, text, f"bitcast i32 {f.ref} to {text}") for f in factors]
        name = f"llvm.nvvm.mma.{FORMATS[self.dtype]}"
        parameters = ", ".join([text] * 6 + ["float"] * 4)
        arguments = ", ".join([f"{text} {f.ref}" for f in factors] + [f"float {s.ref}" for s in c])
        return self.call_many(name, "float", 4, parameters, arguments)

    # ---- the result

    def _store(self, sums: Sequence[Value]) -> None:
        """Stores the tile, or what the fusion makes of it.

        Each warp puts sixteen of its rows in shared memory and takes them up again as its threads write them: four
        neighbouring elements each.
        """
        e, b, space = self.e, self.e.inner, self.space
        root = self.spec.computation.root
        self.kernel.bind([root], {self.dot})
        target = self.kernel.result(0)
        across, pitch = self.warp_columns // 8, self.warp_columns + 8
        own = b.mul(self.warp, i32(16 * pitch * 4))
        group, place = b.lshr(self.lane, i32(2)), b.and_(self.lane, i32(3))
        put = _byte(b, self.shared, b.add(own, b.mul(b.add(b.mul(group, i32(pitch)), b.mul(place, i32(2))), i32(4))))
        fours = self.warp_columns // 4  # of a row
        lane_row, lane_column = b.udiv(self.lane, i32(fours)), b.mul(b.urem(self.lane, i32(fours)), i32(4))
        at_once = 32 // fours
        take = _byte(b, self.shared, b.add(own, b.mul(b.add(b.mul(lane_row, i32(pitch)), lane_column), i32(4))))
        column_at = e.wide(b.add(b.add(self.column0, self.warp_column), lane_column))
        width = 4 if self.n % 4 == 0 else 1
        batch = space.var("batch", self.batch)
        e.set_variable(batch, b.trunc(self.batch_number, e.index_type) if e.index_type is I32 else self.batch_number)
        for i in range(self.warp_rows // 16):
            for j in range(across):
                for half in range(2):
                    at = 4 * (i * across + j) + 2 * half
                    pair = self._pair(sums[at : at + 2])
                    where = _byte(b, put, i32((8 * half * pitch + 8 * j) * 4))
                    b.raw(f"store <2 x float> {pair.ref}, {_SHARED} {where.ref}, align 8")
            self._warp_barrier()
            first_row = b.add(b.add(self.row0, self.warp_row), b.add(lane_row, i32(16 * i)))

            def rows(turn: Value, _: Sequence[Value], first_row: Value = first_row) -> list[Value]:
                self._store_four(root, target, take, turn, pitch, first_row, column_at, width, batch)
                return []

            counted_loop(e, i32(0), i32(16), at_once, rows)
            self._warp_barrier()

    def _store_four(
        self, root: Instruction, target: Value, take: Value, turn: Value, pitch: int, first_row: Value,
        column_at: Value, width: int, batch: Any,
    ) -> None:  # fmt: skip
        e, b, space = self.e, self.e.inner, self.space
        row_at = e.wide(e.here(b.add(first_row, turn)))
        where = _byte(b, take, b.mul(turn, i32(4 * pitch)))
        whole = b.emit(None, "<4 x float>", f"load <4 x float>, {_SHARED} {where.ref}, align 16")
        values = [b.emit(F32, "float", f"extractelement <4 x float> {whole.ref}, i64 {k}") for k in range(4)]
        inside = None
        if self.m % self.tiling.rows:
            inside = b.icmp_unsigned("<", row_at, e.index(self.m))
        row = space.var("row", self.m)
        for part in range(0, 4, width):
            position = b.add(column_at, e.index(part)) if part else column_at
            ok = inside
            if self.n % self.tiling.columns:
                fits = b.icmp_unsigned("<", position, e.index(self.n))
                ok = fits if ok is None else b.and_(ok, fits)
            column = space.var(f"column{part}", self.n // width)
            with e.when(ok):
                e.set_variable(row, e.here(row_at))
                e.set_variable(column, e.here(e.inner.udiv(position, e.index(width)) if width > 1 else position))
                first = batch * (self.m * self.n) + row * self.n + column * width
                results = []
                for k in range(width):
                    e.results[self.dot] = (first + k, values[part + k])
                    with e.unit(column, width, k):
                        results.append(e.value(root, space.delinearize(first + k, root.dims)))
                e.store_unit(target, root.dtype, first, results)

    def _pair(self, two: Sequence[Value]) -> Value:
        b, text = self.e.inner, "<2 x float>"
        first = b.emit(None, text, f"insertelement {text} poison, float {two[0].ref}, i64 0")
        return b.emit(None, text, f"insertelement {text} {first.ref}, float {two[1].ref}, i64 1")

    def _warp_barrier(self) -> None:
        self.call_void("llvm.nvvm.bar.warp.sync", "i32", "i32 -1")


def i32(value: int) -> Value:
    """A constant i32."""
    return constant(I32, value)


def i64(value: int) -> Value:
    """A constant i64."""
    return constant(I64, value)


def _byte(b: Any, base: Value, offset: Value) -> Value:
    """The address so many bytes further."""
    return b.emit(None, base.text, f"getelementptr i8, {base.text} {base.ref}, {offset.text} {offset.ref}")


def _element(b: Any, base: Value, offset: Value, element: str) -> Value:
    """The address so many elements further."""
    return b.emit(None, base.text, f"getelementptr {element}, {base.text} {base.ref}, {offset.text} {offset.ref}")
