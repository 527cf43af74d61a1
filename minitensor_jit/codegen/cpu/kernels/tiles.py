"""Loops that read an operand across the grain, as a transpose does: in square tiles, transposed in registers.

A gather touches as many cache lines as it has lanes, and uses one element of each. A tile instead reads whole lines
along the loop in which they are contiguous, and exchanges rows and columns by shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.shape import DTYPES
from ...emitter.elemental import Emitter
from ...emitter.loops import counted_loop, i64
from ...emitter.types import MEMORY
from ...indexing.indexing_map import AffineExpr
from ...indexing.space import Nest, delinearize_rows
from ...llvm.ir_text import Builder, Function, Module
from ...llvm.ir_types import F32, F64, I8, I32, I64, PTR, VOID, Value, constant, integer, vector
from .vector_loops import tail_mask

__all__ = ["emit_tiles", "tile_units", "transpose_function"]

# A unit of parallel work: so many rounds of the outer loop, such a piece of the innermost.
BLOCK = 64
PIECE = 256

# Emits the stores for these values of all loop variables.
Body = Callable[[Sequence[AffineExpr]], None]


# Squares are moved as floating-point numbers where there are some of their size: those can be fenced.
_MOVED_AS = {4: F32, 8: F64}


def transpose_function(module: Module, itemsize: int, lanes: int) -> Function:
    """`(source, bytes between rows, target)`: exchanges rows and columns of a square; they are dense in the target.

    One function for all loops of a module, since its shuffles are a lot of code. Each round interleaves the first
    half of the rows with the second. The fences keep LLVM from looking for a better network, which takes it longer
    than the rest.
    """
    name = f"transpose.{8 * itemsize}.{lanes}"
    for known in module.functions:
        if known.name == name:
            return known
    function = Function(module, name, VOID, [(PTR, "source"), (I64, "stride"), (PTR, "target")])
    source, stride, target = function.arguments
    b = Builder(function, function.block("entry"))
    element = _MOVED_AS.get(itemsize) or integer(8 * itemsize)
    place, rows = source, []
    # Rows are far apart, so that the processor doesn't guess what comes next: the square below this one.
    prefetch = module.declare("llvm.prefetch.p0", VOID, [PTR, I32, I32, I32])
    for_reading, keep, data = constant(I32, 0), constant(I32, 3), constant(I32, 1)
    ahead = b.gep(source, b.mul(stride, i64(lanes)), I8)
    for k in range(lanes):
        b.call(prefetch, [ahead, for_reading, keep, data])
        ahead = b.gep(ahead, stride, I8)
        rows.append(b.load(place, vector(element, lanes), itemsize))
        if k < lanes - 1:
            place = b.gep(place, stride, I8)
    low = [k // 2 + lanes * (k % 2) for k in range(lanes)]
    high = [lane + lanes // 2 for lane in low]
    for n in range(lanes.bit_length() - 1):
        if n and itemsize in _MOVED_AS:
            rows = [b.intrinsic("llvm.arithmetic.fence", row) for row in rows]
        pairs = zip(rows[: lanes // 2], rows[lanes // 2 :], strict=True)
        rows = [b.shuffle(x, y, order) for x, y in pairs for order in (low, high)]
    for k, row in enumerate(rows):
        b.store(row, b.gep(target, k * lanes, element), min(64, lanes * itemsize))
    b.ret()
    return function


class TileLoads:
    """What the emitter asks for operands that lie across: see `Emitter.tile`.

    The first load of an operand in a square has the square transposed into a buffer, in the loop around the rounds.
    """

    def __init__(self, e: Emitter, variable: AffineExpr, start: Value, round_: Value) -> None:
        self.e = e
        self.variable = variable
        self.start = start  # the first value of the tile's outer variable
        self.round = round_
        self.mask: Value | None = None
        self._buffers: dict[tuple[str, str, AffineExpr], Value] = {}

    def load(self, base: Value, dtype: str, lin: AffineExpr, stride: int) -> Value | None:
        """The lanes of `lin`, `stride` apart; None if memory is not contiguous along the tile's outer variable."""
        atom = self.variable.terms[0][0]
        if lin.coefficient(atom) != 1:
            return None
        e, lanes, element = self.e, self.e.vector_lanes, MEMORY[dtype]
        rest = lin - self.variable
        key = (base.ref, dtype, rest)
        buffer = self._buffers.get(key)
        if buffer is None:
            corner = e.element_address(base, dtype, rest, self.start)
            if corner.level >= self.round.level:
                return None  # its place depends on the round in another way too
            buffer = self._buffers[key] = e.function.alloca(element, lanes * lanes)
            function = transpose_function(e.function.module, DTYPES[dtype].itemsize, lanes)
            distance = stride * DTYPES[dtype].itemsize
            # Ahead of the loop over the rounds, whose block is still open.
            e.builders[self.round.level - 1].raw(
                f"call void {function.reference.ref}(ptr {corner.ref}, i64 {distance}, ptr {buffer.ref})"
            )
        b = e.inner
        place = b.gep(buffer, b.mul(self.round, i64(lanes)), element)
        return b.load(place, vector(element, lanes), min(64, lanes * DTYPES[dtype].itemsize))


def tile_units(nest: Nest, across: int) -> int:
    """The number of units of parallel work."""
    extent = nest.extents[across]
    return nest.size // nest.inner // extent * -(-extent // BLOCK) * -(-nest.inner // PIECE)


def emit_tiles(
    e: Emitter, nest: Nest, across: int, outer: Sequence[AffineExpr], begin: Value, end: Value, body: Body
) -> None:
    """The loops of a kernel over units `begin <= p < end` of `tile_units`.

    A unit is a block of rounds of the outer loop number `across` and a piece of the innermost loop. It is done in
    strips of as many rounds as there are lanes.
    """
    lanes, inner, extent = e.vector_lanes, nest.inner, nest.extents[across]
    pieces, blocks = -(-inner // PIECE), -(-extent // BLOCK)
    others = [k for k in range(len(outer)) if k != across]
    space = e.space

    def unit(p: Value, _: Sequence[Value]) -> list[Value]:
        b = e.at(p)
        piece, q = b.urem(p, i64(pieces)), b.udiv(p, i64(pieces))
        delinearize_rows(e, b.udiv(q, i64(blocks)), [outer[k] for k in others], tuple(nest.extents[k] for k in others))
        first = b.mul(piece, i64(PIECE))
        last = b.intrinsic("llvm.smin", b.add(first, i64(PIECE)), i64(inner))
        top = b.mul(b.urem(q, i64(blocks)), i64(BLOCK))
        bottom = b.intrinsic("llvm.smin", b.add(top, i64(BLOCK)), i64(extent))
        counted_loop(e, top, bottom, lanes, lambda start, _: strip(start, first, last))
        return []

    def strip(start: Value, first: Value, last: Value) -> list[Value]:
        b = e.at(start)
        stop = b.intrinsic("llvm.smin", b.add(start, i64(lanes)), i64(extent))
        # Squares need all their rows; the last strip may have fewer, and is then done row by row.
        squares = b.intrinsic("llvm.smin", last, i64(inner // lanes * lanes))
        if extent % lanes:
            squares = b.select(b.icmp_signed("==", b.sub(stop, start), i64(lanes)), squares, first)
        counted_loop(e, first, squares, lanes, lambda v, _: square(v, start))
        counted_loop(e, start, stop, 1, lambda w, _: row(w, squares, last))
        return []

    def variables(w: AffineExpr, v: AffineExpr) -> list[AffineExpr]:
        return [*(w if k == across else o for k, o in enumerate(outer)), v]

    def square(at: Value, start: Value) -> list[Value]:
        v = space.var("v", max(inner, 2))
        e.set_variable(v, at)

        def one(k: Value, _: Sequence[Value]) -> list[Value]:
            w = space.var("w", max(extent, 2))
            e.set_variable(w, e.at(k).add(start, k))
            e.tile = TileLoads(e, w, start, k)
            with e.vectorized(v):
                body(variables(w, v))
            e.tile = None
            return []

        counted_loop(e, i64(0), i64(lanes), 1, one)
        return []

    def row(at: Value, squares: Value, last: Value) -> list[Value]:
        w = space.var("w", max(extent, 2))
        e.set_variable(w, at)

        def rest(begin: Value, _: Sequence[Value]) -> list[Value]:
            v = space.var("v", max(inner, 2))
            e.set_variable(v, begin)
            b = e.inner
            mask = tail_mask(b, lanes, b.sub(last, begin))
            with e.vectorized(v), e.masked(mask):
                body(variables(w, v))
            return []

        counted_loop(e, squares, last, lanes, rest)
        return []

    counted_loop(e, begin, end, 1, unit)
