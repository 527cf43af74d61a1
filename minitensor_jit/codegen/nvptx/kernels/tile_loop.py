"""Loops that read some operands across: through squares in shared memory, so that every access is to neighbours.

A block of threads takes a square of 32 by 32 elements of two loops, one that the result is contiguous along and one
that the operand is. It reads the operand along the latter and writes the result along the former; rows of the square
lie 33 elements apart, so that its columns are in different banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ....ir.module import Instruction
from ...emitter.types import MEMORY, PARTS
from ...indexing.indexing_map import AffineExpr, Atom, DynamicIndex, FloorDiv, Space
from ...indexing.movement import accesses
from ...indexing.space import Nest, delinearize_rows
from ...kernel_spec import KernelSpec, Root
from ...llvm.ir_types import I32, Value, constant
from ..unit import GpuUnit, Kernel

__all__ = ["SIDE", "TileLoop", "find_across"]

SIDE = 32
"""Elements along each side of a square."""
ROWS = 8
"""Rows of a square that a block has threads for."""
PITCH = SIDE + 1
# So many operands have squares; others are read as they lie.
MOST = 4
# With less than this along either loop, most of a square would be empty.
LEAST = 16


@dataclass(frozen=True)
class Across:
    """The loops of the squares: numbers of loops of the nest."""

    outer: int
    inner: int


def find_across(nest: Nest, flat: AffineExpr, leaves: dict[Instruction, set[AffineExpr]]) -> Across | None:
    """The outer loop along which operands are contiguous that the innermost loop reads in strides, if there is one."""
    loops = {s: k for k, (s, n) in enumerate(zip(nest.strides(), nest.extents, strict=True)) if n > 1}
    loop_of = {a: loops[c] for a, c in flat.terms if c in loops}
    inner = next((a for a, c in flat.terms if c == 1), None)
    if inner is None or nest.inner < LEAST:
        return None
    for leaf, lins in leaves.items():
        if leaf.opcode != "parameter" or leaf.dtype in PARTS:
            continue
        for lin in lins:
            outer = _contiguous(lin, inner)
            if outer is not None and outer in loop_of and nest.extents[loop_of[outer]] >= LEAST:
                return Across(loop_of[outer], len(nest.extents) - 1)
    return None


def _contiguous(lin: AffineExpr, inner: Atom) -> Atom | None:
    """The variable along which the form is contiguous, if the inner one goes in strides."""
    if lin.coefficient(inner) <= 1 or any(isinstance(a, (FloorDiv, DynamicIndex)) for a, _ in lin.terms):
        return None
    return next((a for a, c in lin.terms if c == 1 and a is not inner), None)


class TileLoop:
    """The kernel of roots of one size, over squares."""

    def __init__(
        self, unit: GpuUnit, spec: KernelSpec, nest: Nest, roots: list[Root], across: Across, cost: int
    ) -> None:
        self.unit, self.spec, self.nest, self.roots, self.across, self.cost = unit, spec, nest, roots, across, cost

    def emit(self, largest: int) -> None:
        """Emits and launches it."""
        nest, across = self.nest, self.across
        space = Space()
        kernel = Kernel(self.unit, self.spec, space, SIDE * ROWS, largest)
        e = self.e = kernel.e
        kernel.bind([r for r, _ in self.roots])
        targets = [kernel.result(n) for _, n in self.roots]
        b = e.builders[0]
        thread = e.register("tid.x")
        column, row = b.and_(thread, constant(I32, SIDE - 1)), b.lshr(thread, constant(I32, 5))
        others = [k for k in range(len(nest.extents)) if k not in (across.outer, across.inner)]
        tall, wide = nest.extents[across.outer], nest.extents[across.inner]
        down, along = -(-tall // SIDE), -(-wide // SIDE)
        blocks = nest.size // tall // wide * down * along
        block = e.wide(e.register("ctaid.x"))
        square, rest = b.urem(block, e.index(down * along)), b.udiv(block, e.index(down * along))
        top = b.mul(b.udiv(square, e.index(along)), e.index(SIDE))
        left = b.mul(b.urem(square, e.index(along)), e.index(SIDE))
        outer = [space.var(f"o{k}", nest.extents[k]) for k in others]
        delinearize_rows(e, rest, outer, tuple(nest.extents[k] for k in others))

        def variables(name: str) -> tuple[AffineExpr, AffineExpr, AffineExpr]:
            """Variables of the two loops, and the element's number."""
            i, j = space.var(f"{name}i", tall), space.var(f"{name}j", wide)
            found = iter(outer)
            order = range(len(nest.extents))
            every = [i if k == across.outer else j if k == across.inner else next(found) for k in order]
            return i, j, nest.flat(every)

        # What is read across, in terms of the variables that the results are computed with.
        i, j, flat = variables("x")
        reads = accesses(space, [(r, space.delinearize(flat, r.dims)) for r, _ in self.roots])
        squares = self._squares(reads.leaves, reads.conditional, i, j)
        stored = {key: e.shared(f"tile{k}", MEMORY[key[0].dtype], SIDE * PITCH) for k, key in enumerate(squares)}
        for step in range(0, SIDE, ROWS):
            # Neighbouring threads are neighbours along the operand.
            ri, rj, _ = variables(f"r{step}")
            at_i = b.add(top, e.wide(column))
            at_j = b.add(left, b.add(e.wide(row), e.index(step)))
            with e.when(self._inside(at_i, at_j, tall, wide)):
                e.set_variable(ri, e.here(at_i))
                e.set_variable(rj, e.here(at_j))
                place = e.inner.add(e.inner.mul(e.wide(row), e.index(PITCH)), e.wide(column))
                place = e.inner.add(place, e.index(step * PITCH))
                for (leaf, lin), memory in stored.items():
                    moved = _renamed(lin, {i: ri, j: rj})
                    value = e.load(e.pointers[leaf], leaf.dtype, moved)
                    e.store_at(memory, leaf.dtype, place, value)
        e.barrier()
        for step in range(0, SIDE, ROWS):
            at_i = b.add(top, b.add(e.wide(row), e.index(step)))
            at_j = b.add(left, e.wide(column))
            with e.when(self._inside(at_i, at_j, tall, wide)):
                wi, wj, written = variables(f"w{step}")
                e.set_variable(wi, e.here(at_i))
                e.set_variable(wj, e.here(at_j))
                place = e.inner.add(e.inner.mul(e.wide(column), e.index(PITCH)), e.wide(row))
                place = e.inner.add(place, e.index(step))
                for (leaf, lin), memory in stored.items():
                    key = (e.pointers[leaf].ref, leaf.dtype, _renamed(lin, {i: wi, j: wj}))
                    e.staged[key] = partial(e.load_at, memory, leaf.dtype, place)
                values = [e.value(r, space.delinearize(written, r.dims)) for r, _ in self.roots]
                for (r, _), target, value in zip(self.roots, targets, values, strict=True):
                    e.store(target, r.dtype, written, value)
        kernel.launch(blocks, "transpose", kernel.traffic(self.roots), nest.size * self.cost)

    def _inside(self, at_i: Value, at_j: Value, tall: int, wide: int) -> Value | None:
        """Whether the element exists; None where all do."""
        e, found = self.e, None
        for at, extent in ((at_i, tall), (at_j, wide)):
            if extent % SIDE:
                fits = e.builders[0].icmp_signed("<", at, e.index(extent))
                found = fits if found is None else e.builders[0].and_(found, fits)
        return found

    def _squares(
        self, leaves: dict[Instruction, set[AffineExpr]], conditional: set[Instruction], i: AffineExpr, j: AffineExpr
    ) -> list[tuple[Instruction, AffineExpr]]:
        """The operands' forms that go through shared memory."""
        down, along = i.terms[0][0], j.terms[0][0]
        found = []
        for leaf, lins in leaves.items():
            if leaf.opcode != "parameter" or leaf.dtype in PARTS or leaf in conditional or leaf not in self.e.pointers:
                continue
            found += [(leaf, lin) for lin in lins if _contiguous(lin, along) is down]
        return found[:MOST]


def _renamed(lin: AffineExpr, names: dict[AffineExpr, AffineExpr]) -> AffineExpr:
    """The form in other variables."""
    total = AffineExpr(lin.const)
    known = {a.terms[0][0]: z for a, z in names.items()}
    for atom, c in lin.terms:
        total = total + known.get(atom, AffineExpr(0, ((atom, 1),))) * c
    return total
