"""An array in which a small window is replaced: where the result lies over it, only the window is written."""

from __future__ import annotations

from ..ir.analysis.window_updates import through_reshapes
from ..ir.module import Instruction
from .indexing.indexing_map import AffineExpr, Space
from .indexing.movement import accesses
from .indexing.space import Nest, refine
from .kernel_spec import KernelSpec, element_cost, reachable

__all__ = ["WindowUpdate", "updates_a_window"]


def updates_a_window(spec: KernelSpec) -> Instruction | None:
    """The dynamic-update-slice that the spec is, if its array is a parameter that nothing else here reads."""
    roots = spec.computation.roots
    root = roots[0]
    if len(roots) != 1 or root.opcode != "dynamic-update-slice":
        return None
    source, others = through_reshapes(root.operands[0]), root.operands[1:]
    if source.opcode != "parameter":
        return None
    size = root.array_shape.size
    if 2 * others[0].array_shape.size > size or source in reachable(others):
        return None
    return root


class WindowUpdate:
    """What is written where; targets have the loops. The array is copied first, unless the result lies over it."""

    def __init__(self, spec: KernelSpec, update: Instruction) -> None:
        self.spec, self.update = spec, update
        array, self.window, *self.starts = update.operands
        self.source = through_reshapes(array)
        assert self.source.parameter_number is not None
        self.in_place = {(0, self.source.parameter_number)}
        self.size = self.window.array_shape.size
        self.instructions = reachable([self.window])

    def place(self, space: Space, flat: AffineExpr) -> AffineExpr:
        """Where an element of the window goes to in the array."""
        dims = self.window.dims
        at = [space.dyn(o, (), n - k) for o, n, k in zip(self.starts, self.update.dims, dims, strict=True)]
        within = space.delinearize(flat, dims)
        return Space.linearize(tuple(x + s for x, s in zip(within, at, strict=True)), self.update.dims)

    def nest(self) -> Nest:
        """The loops over the window."""

        def forms(space: Space, flat: AffineExpr) -> set[AffineExpr]:
            reads = accesses(space, [(self.window, space.delinearize(flat, self.window.dims))]).all_forms()
            return {*reads, self.place(space, flat)}

        return refine(self.size, forms)

    @property
    def cost(self) -> int:
        """The work of the whole window."""
        return self.size * element_cost(self.instructions, self.size)
