"""Fusions of row reductions, whatever the target: what depends on which reduction, and what each row gives."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.module import Instruction
from .errors import CompileError
from .indexing.indexing_map import AffineExpr, Index, Space
from .indexing.movement import accesses, operand_indices
from .indexing.space import refine
from .kernel_spec import KernelSpec, Root, element_cost, reachable
from .reduction import Reduction, row_blocks

__all__ = ["Rows"]


class Rows:
    """A fusion over `outer` rows of `length` elements: reductions, results of the rows' shape, and one element a row.

    A reduction's input may depend on earlier ones of the same row (softmax): each level of dependence is a stage. The
    constructor raises `CompileError` if the fusion has another form.
    """

    def __init__(self, spec: KernelSpec, found: list[Reduction]) -> None:
        self.spec = spec
        self.reductions = found
        self.outer, self.length = found[0].outer, found[0].length
        size = self.outer * self.length
        self.element_roots: list[Root] = []
        self.row_roots: list[Root] = []
        for root in spec.roots:
            n = root[0].array_shape.size
            if n == self.outer:
                self.row_roots.append(root)
            elif n == size:
                self.element_roots.append(root)
            else:
                raise CompileError("fusion", f"a result of {n} elements beside reductions of {self.outer} rows")
        self.instructions = reachable([r for r, _ in spec.roots])
        self.stage_of = self._stages()
        self.stages = 1 + max(
            [self.stage_of[r.input] for r in found] + [self.stage_of[r] for r, _ in self.element_roots]
        )
        self.cost = element_cost(self.instructions, size)
        self.block, self.blocks = row_blocks(self.length)
        self.in_place: set[tuple[int, int]] = set()
        self.nest = refine(self.outer, self._forms)

    def _stages(self) -> dict[Instruction, int]:
        """How many reductions of the row must be known before each value."""
        stage: dict[Instruction, int] = {}
        reduces = {r.instruction for r in self.reductions}
        for i in self.spec.computation.instructions:
            if i in self.instructions:
                below = max([stage[o] for o in i.operands], default=0)
                stage[i] = below + 1 if i in reduces else below
        return stage

    def element_index(self, space: Space, i: Instruction, row: AffineExpr, at: AffineExpr) -> tuple[AffineExpr, ...]:
        """Where element `at` of a row is in an array of the rows' shape."""
        return space.delinearize(row * self.length + at, i.dims)

    def _starts(self, space: Space, row: AffineExpr, at: AffineExpr) -> list[tuple[Instruction, Index]]:
        """What is evaluated for one element, and where."""
        starts = [(r.input, r.input_index(space, row, at)) for r in self.reductions]
        starts += [(r, self.element_index(space, r, row, at)) for r, _ in self.element_roots]
        return starts + [(r, space.delinearize(row, r.dims)) for r, _ in self.row_roots]

    def read_in_place(self, values: Iterable[Instruction]) -> set[Instruction]:
        """Those of some elementwise values of the rows' shape that are read for the element at hand only."""
        space, rest = Space(), set(values)
        row, at = self.nest.flat(self.nest.variables(space, "o")), space.var("r", self.length)
        reduces, here = {r.instruction for r in self.reductions}, row * self.length + at
        while rest:
            starts = self._starts(space, row, at)
            for i in rest:
                indices = operand_indices(space, i, self.element_index(space, i, row, at))
                starts += zip(i.operands, indices, strict=True)
            leaves = accesses(space, starts, reduces | rest).leaves
            elsewhere = {i for i in rest if leaves.get(i, set()) - {here}}
            if not elsewhere:
                break
            rest -= elsewhere
        return rest

    def _forms(self, space: Space, row: AffineExpr) -> set[AffineExpr]:
        """Every form that is evaluated. Every use of a reduction must be of the row at hand."""
        at = space.var("r", self.length)
        reduces = {r.instruction for r in self.reductions}
        found = accesses(space, self._starts(space, row, at), reduces)
        self.conditional, self.leaves, self.column = found.conditional, found.leaves, at
        for reduce in reduces:
            if found.leaves.get(reduce, {row}) != {row}:
                raise CompileError("fusion", f"{reduce.name} is read for other rows than the current one")
        # What the last pass writes may lie over what all passes read at the same place only.
        here = row * self.length + at
        self.in_place = {
            (n, p.parameter_number)
            for p, lins in found.leaves.items()
            for r, n in self.element_roots
            if p.parameter_number is not None
            and lins == {here}
            and p.dtype == r.dtype
            and self.stage_of[r] == self.stages - 1
        }
        self.forms = found.all_forms()
        return self.forms
