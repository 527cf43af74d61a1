"""Arrays that are put together of several: each part is computed by a loop of its own, at its place."""

from __future__ import annotations

from math import prod

from ..ir.analysis.window_updates import through_reshapes
from ..ir.module import Instruction
from ..ir.size import Size, hint
from .indexing.indexing_map import AffineExpr, Space
from .indexing.movement import concatenate_offsets
from .kernel_spec import KernelSpec

__all__ = ["JoinedPart", "joined_parts"]

# Two small ones are cut apart in one loop as well, and so are short pieces, which are put together in vectors.
FEWEST_PARTS = 3
LARGE = 1 << 20
SHORTEST_PIECE = 32


class JoinedPart:
    """An operand of a concatenate, and from which index on its elements are in the whole."""

    def __init__(self, root: Instruction, part: Instruction, offset: int) -> None:
        self.root, self.part, self.offset = root, part, offset
        axis = root.attrs["dimensions"][0]
        # Where its memory begins in the whole's, in bytes, if it is one block there.
        self.block = None
        if all(n == 1 for n in root.dims[:axis]):
            self.block = offset * prod(root.dims[axis + 1 :]) * root.array_shape.itemsize

    @property
    def number(self) -> int | None:
        """The number of the parameter that it is, if it is one."""
        return through_reshapes(self.part).parameter_number

    def place(self, space: Space, flat: AffineExpr) -> AffineExpr:
        """Where an element of the part is in the whole."""
        axis = self.root.attrs["dimensions"][0]
        index = space.delinearize(flat, self.part.dims)
        return Space.linearize((*index[:axis], index[axis] + self.offset, *index[axis + 1 :]), self.root.dims)


def joined_parts(spec: KernelSpec) -> list[JoinedPart]:
    """The parts of what the spec is, if it is a concatenate of several large ones; else none.

    In one loop each element would be looked for among all parts, in time that grows with the square of their number.
    """
    roots = spec.computation.roots
    root = roots[0]
    if len(roots) != 1 or root.opcode != "concatenate":
        return []
    axis = root.attrs["dimensions"][0]
    found = [
        JoinedPart(root, o, at)
        for o, at in zip(root.operands, concatenate_offsets(root), strict=True)
        if 0 not in o.dims
    ]
    fewest = FEWEST_PARTS if hint(root.array_shape.nbytes) < LARGE else 2
    if len(found) < fewest:
        return []
    if any(one.block is None for one in found):  # in pieces
        if any(isinstance(n, Size) for x in (root, *root.operands) for n in x.dims):
            return []
        if any(prod(one.part.dims[axis:]) < SHORTEST_PIECE for one in found):
            return []
    return found
