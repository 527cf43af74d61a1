"""Fusions of column reductions, whatever the target."""

from __future__ import annotations

from .errors import CompileError
from .indexing.indexing_map import AffineExpr, Space
from .indexing.movement import accesses
from .kernel_spec import KernelSpec, Root, element_cost, reachable
from .reduction import Reduction, column_blocks

__all__ = ["Columns"]


class Columns:
    """A fusion over `[outer, length, inner]`, reduced over the middle: with results of that shape, and of the kept.

    The constructor raises `CompileError` if the fusion has another form.
    """

    def __init__(self, spec: KernelSpec, found: list[Reduction]) -> None:
        self.spec = spec
        self.reductions = found
        self.outer, self.length, self.inner = found[0].shape
        self.kept = self.outer * self.inner
        self.element_roots: list[Root] = []
        self.kept_roots: list[Root] = []
        for root in spec.roots:
            n = root[0].array_shape.size
            if n == self.kept:
                self.kept_roots.append(root)
            elif n == self.kept * self.length:
                self.element_roots.append(root)
            else:
                raise CompileError("fusion", f"a result of {n} elements beside reductions to {self.kept}")
        reduces = {r.instruction for r in found}
        for start in (*(r.input for r in found), *(r for r, _ in self.element_roots)):
            if reduces & reachable([start]).keys():
                raise CompileError("fusion", "a column reduction depends on another one")
        self.instructions = reachable([r for r, _ in spec.roots])
        self.cost = element_cost(self.instructions, self.kept * self.length)
        self.block, self.blocks = column_blocks(self.length)

    def element(self, space: Space, kept: AffineExpr, r: AffineExpr) -> AffineExpr:
        """The number of an element of the input."""
        outer = space.div(kept, self.inner)
        return outer * (self.length * self.inner) + r * self.inner + (kept - outer * self.inner)

    def forms(self, space: Space, kept: AffineExpr) -> set[AffineExpr]:
        """Every form that is evaluated. Every use of a reduction must be of the columns at hand."""
        reduces = {r.instruction for r in self.reductions}
        r = space.var("r", self.length)
        roots = [(red.input, red.input_index(space, kept, r)) for red in self.reductions]
        roots += [(i, space.delinearize(self.element(space, kept, r), i.dims)) for i, _ in self.element_roots]
        roots += [(i, space.delinearize(kept, i.dims)) for i, _ in self.kept_roots]
        found = accesses(space, roots, reduces)
        self.conditional = found.conditional
        for reduce in reduces:
            if found.leaves.get(reduce, {kept}) != {kept}:
                raise CompileError("fusion", f"{reduce.name} is read for other columns than the current ones")
        return found.all_forms()
