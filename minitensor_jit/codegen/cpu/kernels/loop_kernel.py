"""Kernels of loop fusions: every root has the same number of elements, and each element is computed on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ....ir.opcode import Trait, opcodes_with
from ....ir.size import Size, hint
from ....runtime.buffer_assignment import Location
from ...emitter.loops import counted_loop, i64, is_constant
from ...indexing.indexing_map import AffineExpr, Space
from ...indexing.movement import accesses
from ...indexing.space import delinearize_rows, refine
from ...joined_parts import JoinedPart, joined_parts
from ...kernel_spec import KernelSpec, Root, element_cost, reachable
from ...llvm.ir_text import Builder, Function
from ...llvm.ir_types import I64, VOID, Value
from ..unit import Unit
from .tiles import emit_tiles, tile_units
from .vector_loops import vector_loop

__all__ = ["LoopKernels", "copies_for", "fewer_lanes"]

_CHOOSES = opcodes_with(Trait.CHOOSES)

# Loops of fewer vectors aren't cut where another operand begins, nor into more parts than five: each has code of its
# own. A part that ends within a vector ends with a masked store, which takes as long as a dozen of plain ones.
SHORTEST_CUT = 4
SHORTEST_CUT_MASKED = 32
MOST_PARTS = 6
# Elements of a chunk of a long loop: the granularity of parallel work.
CHUNK = 8192
# From so many elements on, operands that lie across are read in tiles.
TILED = 65536
# Up to so many elements, compile time counts for more than the last bit of throughput.
SMALL = 8192


class LoopKernels:
    """One kernel for each size that occurs among the roots of a spec."""

    def __init__(self, unit: Unit, spec: KernelSpec) -> None:
        self.unit = unit
        self.spec = spec
        self.in_place: set[tuple[int, int]] = set()
        self.operands_in_result: list[tuple[int, int]] = []
        """(operand, bytes): the operand may lie that far inside the result, as all that is done with it is a copy."""
        if joined := joined_parts(spec):
            self.kernels = [_Loop(unit, spec, one.part.array_shape.size, [(one.part, 0)], one) for one in joined]
            whole = [(one.number, one.block) for one in joined]
            self.operands_in_result = [(n, at) for n, at in whole if n is not None and at is not None]
            return
        by_size: dict[int, list[Root]] = {}
        for root in spec.roots:
            by_size.setdefault(root[0].array_shape.size, []).append(root)
        self.kernels = [_Loop(unit, spec, size, roots) for size, roots in by_size.items() if size]
        if len(self.kernels) == 1:
            self.in_place = self.kernels[0].in_place

    def emit(self) -> None:
        """Emits and launches them."""
        for kernel in self.kernels:
            kernel.emit()


def copies_for(cost: int) -> int:
    """How often to unroll a body of this cost: enough to keep loads in flight, not so much that compile time hurts."""
    return 4 if cost <= 8 else 2 if cost <= 24 else 1


def _between(b: Builder, at: Value, low: int, high: int) -> Value:
    """How far a place is behind the beginning of the part from `low` to `high`, or its nearest end."""
    if is_constant(at):
        return i64(max(low, min(int(at.ref), high)) - low)
    within = b.intrinsic("llvm.smax", b.intrinsic("llvm.smin", at, i64(high)), i64(low))
    return b.sub(within, i64(low)) if low else within


def fewer_lanes(lanes: int, inner: int) -> int:
    """No more lanes than the innermost loop can fill."""
    while lanes > 1 and lanes >= 2 * hint(inner):
        lanes //= 2
    return lanes


class _Loop:
    """`joined`: the results are a part of an array."""

    def __init__(
        self, unit: Unit, spec: KernelSpec, size: int, roots: list[Root], joined: JoinedPart | None = None
    ) -> None:
        self.unit, self.spec, self.size, self.roots, self.joined = unit, spec, size, roots, joined
        instructions = reachable([r for r, _ in roots])
        lanes = unit.lanes(list(instructions))
        self.nest = refine(size, self._forms, max(1, lanes // 4))
        self.cost = element_cost(instructions, size)
        # Each has code for its parts: a body of them is long enough.
        self.conditions = sum(i.opcode in _CHOOSES for i in instructions)
        inner = self.nest.inner
        self.lanes = fewer_lanes(unit.free_lanes(list(instructions), inner, contiguous=self._is_contiguous()), inner)
        rows = size // inner
        # A long inner loop is divided into chunks; there is one unit of parallel work for each chunk of each row.
        long = isinstance(inner, Size) or inner >= 4 * CHUNK or (rows == 1 and inner > 2 * CHUNK)
        self.chunk = CHUNK if long else inner
        self.units = rows * -(-inner // self.chunk)
        self.across = self._across()
        if self.across is not None:
            self.units = tile_units(self.nest, self.across)
        self.parts = self._parts()

    def _forms(self, space: Space, flat: AffineExpr) -> set[AffineExpr]:
        found = accesses(space, [(r, space.delinearize(flat, r.dims)) for r, _ in self.roots])
        self.flat, self.leaves, self.borders = flat, found.leaves, found.borders
        # The operands that are read at the place that is written, and nowhere else.
        self.in_place = {
            (n, p.parameter_number)
            for p, lins in found.leaves.items()
            for r, n in self.roots
            if p.parameter_number is not None and lins == {flat} and p.dtype == r.dtype
        }
        return {*found.all_forms(), self._place(space, flat)}

    def _place(self, space: Space, flat: AffineExpr) -> AffineExpr:
        """Where an element goes to."""
        return flat if self.joined is None else self.joined.place(space, flat)

    def _is_contiguous(self) -> bool:
        """Whether the innermost loop reads every operand along, forwards or backwards, or one element of it."""
        inner = {a for a, c in self.flat.terms if c == 1}
        loops = {a for a, _ in self.flat.terms}
        return all(
            {a for a, _ in lin.terms} <= loops and all(lin.coefficient(a) in (-1, 0, 1) for a in inner)
            for lin in set[AffineExpr]().union(*self.leaves.values())
        )

    def _parts(self) -> list[int]:
        """Where the innermost loop is cut, from 0 to its end: between two cuts an operand is read always or never.

        So no vector is put together from two operands, but for those that would be masked to be shorter.
        """
        inner = self.nest.inner
        if isinstance(inner, Size) or self.lanes == 1 or self.across is not None:
            return [0, inner]
        atom = next((a for a, c in self.flat.terms if c == 1), None)
        cuts = set()
        for lin, border in self.borders:
            if [a for a, _ in lin.terms] == [atom] and (c := lin.terms[0][1]) in (1, -1):
                cuts.add(border - lin.const if c == 1 else lin.const - border + 1)
        parts = [0, *sorted(cut for cut in cuts if 0 < cut < inner), inner]
        narrow = any(i.array_shape.itemsize < 4 for i in self.leaves)  # masked loads are one for each lane
        masked = not narrow and any((high - low) % self.lanes > 1 for low, high in pairwise(parts))
        least = SHORTEST_CUT_MASKED if masked else SHORTEST_CUT
        return parts if len(parts) <= MOST_PARTS and inner >= least * self.lanes else [0, inner]

    def _across(self) -> int | None:
        """The outer loop along which an operand is contiguous that the inner loop reads in strides, if tiles pay."""
        if isinstance(self.size, Size) or self.size < TILED or not 4 <= self.lanes <= 16:
            return None
        loops = {s: k for k, (s, n) in enumerate(zip(self.nest.strides(), self.nest.extents, strict=True)) if n > 1}
        loop_of = {a: loops[c] for a, c in self.flat.terms}
        inner = next((a for a, c in self.flat.terms if c == 1), None)
        if inner is None or self.nest.inner < self.lanes:
            return None
        for lin in set[AffineExpr]().union(*self.leaves.values()):
            if abs(lin.coefficient(inner)) > 1:
                for atom, c in lin.terms:
                    if c == 1 and atom in loop_of and self.nest.extents[loop_of[atom]] >= self.lanes:
                        return loop_of[atom]
        return None

    def emit(self) -> None:
        inside = self.joined is not None and self.joined.block is not None
        number = self.joined.number if self.joined is not None and inside else None
        given = None if number is None else self.spec.operands[number]
        if isinstance(given, Location) and given.kind != "constant":
            with self.unit.unless_equal(given, self._result(0)):
                self._emit()
        else:
            self._emit()

    def _result(self, n: int) -> Location:
        """Where a result begins, or the part of it."""
        result, offset = self.spec.results[n], self.joined.block if self.joined is not None else 0
        return replace(result, offset=result.offset + offset) if offset else result

    def _emit(self) -> None:
        unit, work = self.unit, self.size * self.cost
        plain = self._function(streaming=False)
        if not self._streams():
            unit.launch(plain, self.units, work)
            return
        stream = self._function(streaming=True)
        b = unit.builder
        address: Value | None = None
        for _, n in self.roots:
            pointer = unit.pointer(b, unit.entry.arguments[0], self._result(n))
            bits = b.emit(I64, "i64", f"ptrtoint ptr {pointer.ref} to i64")
            address = bits if address is None else b.or_(address, bits)
        assert address is not None
        then, otherwise, after = unit.condition_blocks()
        b.cbranch(b.icmp_unsigned("==", b.and_(address, i64(63)), i64(0)), then, otherwise)
        for block, function in ((then, stream), (otherwise, plain)):
            b.position_at_end(block)
            unit.launch(function, self.units, work)
            b.branch(after)
        b.position_at_end(after)

    def _streams(self) -> bool:
        """Whether the results are too large for the caches, and full vectors are aligned if the buffers are."""
        shapes = [r.array_shape for r, _ in self.roots]
        if len(self.parts) > 2 or (self.joined is not None and self.joined.block is None):
            return False  # they begin anywhere
        if sum(hint(s.nbytes) for s in shapes) < self.unit.options.streaming_store_bytes:
            return False
        rows_aligned = len(self.nest.extents) == 1 or all(self.nest.inner * s.itemsize % 64 == 0 for s in shapes)
        return rows_aligned and all(self.lanes * s.itemsize >= 16 for s in shapes)

    def _function(self, *, streaming: bool) -> Function:
        nest, inner, chunk = self.nest, self.nest.inner, self.chunk
        space = Space()
        e = self.unit.kernel(self.spec, self.lanes, space, suffix=".stream" if streaming else "")
        outer = nest.variables(space, "o")[:-1]
        # What fits in the first-level cache gains little from unrolling, and compiles faster without.
        small = hint(self.size) <= SMALL
        copies = min(
            2 if small else 4, copies_for(self.cost * max(1, len(self.roots) - 1)), max(1, hint(inner) // self.lanes)
        )
        copies = max(1, (1 << (copies.bit_length() - 1)) >> self.conditions)
        targets = [self.unit.result_pointer(e, self.spec.results[n]) for _, n in self.roots]

        def element(variables: Sequence[AffineExpr]) -> None:
            flat = nest.flat(variables)
            # Read everything before anything is written: a result may lie where an operand was.
            values = [e.value(r, space.delinearize(flat, r.dims)) for r, _ in self.roots]
            at = self._place(space, flat)
            for (r, _), target, value in zip(self.roots, targets, values, strict=True):
                e.store(target, r.dtype, at, value, streaming=streaming)

        def vectors(first: Value, last: Value) -> None:
            """All elements of the innermost loop from one to another."""
            for low, high in pairwise(self.parts):
                b = e.at(first, last)
                begin, end = (_between(b, at, low, high) for at in (first, last))
                count = min(copies, max(1, 1 << (hint(high - low) // self.lanes).bit_length() >> 1))

                def body(v: AffineExpr, copy: int, low: int = low) -> None:
                    element([*outer, v + low])

                vector_loop(e, high - low, count, begin, end, body)

        begin, end = e.function.arguments[1:]

        def elements(b: Builder, first: Value, last: Value) -> tuple[Value, Value]:
            """The elements of the chunks `first <= c < last`."""
            return b.mul(first, i64(chunk)), b.intrinsic("llvm.smin", b.mul(last, i64(chunk)), i64(inner))

        def row(p: Value, _: list[Value]) -> list[Value]:
            if chunk == inner:
                delinearize_rows(e, p, outer, nest.extents[:-1])
                vectors(i64(0), i64(inner))
                return []
            b, chunks = e.at(p), i64(-(-inner // chunk))
            delinearize_rows(e, b.udiv(p, chunks), outer, nest.extents[:-1])
            part = b.urem(p, chunks)
            vectors(*elements(b, part, b.add(part, i64(1))))
            return []

        if self.across is not None:
            emit_tiles(e, nest, self.across, outer, begin, end, element)
        elif self.units == 1:
            vectors(i64(0), i64(inner))
        elif not outer:
            vectors(*elements(e.inner, begin, end))
        else:
            counted_loop(e, begin, end, 1, row)
        if streaming:
            # Streaming stores are weakly ordered: make them visible before anybody is told that this part is done.
            e.inner.call(self.unit.module.declare("llvm.x86.sse.sfence", VOID, []), [])
        e.inner.ret()
        return e.function
