"""Iteration spaces: as few loops as the accesses allow.

A space begins as one flat loop. Wherever an access then needs a quotient of the flat variable, the loop is cut in two
at that place. What is left is the coarsest set of nested loops in which all accesses are affine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..emitter.elemental import Emitter
from ..llvm.ir_types import Value, constant
from .indexing_map import ZERO, AffineExpr, Atom, FloorDiv, Space

__all__ = ["Nest", "delinearize_rows", "refine"]


@dataclass(frozen=True)
class Nest:
    """A flat range of `size` elements as nested loops: sizes from the outermost to the innermost."""

    size: int
    extents: tuple[int, ...]

    @property
    def inner(self) -> int:
        """The size of the innermost loop."""
        return self.extents[-1]

    def strides(self) -> list[int]:
        """How far apart neighbours in each loop are."""
        strides, total = [], 1
        for n in reversed(self.extents):
            strides.append(total)
            total *= n
        return strides[::-1]

    @staticmethod
    def from_cuts(size: int, cuts: Iterable[int]) -> Nest:
        """Loops cut so that the given numbers of elements are whole inner loops; what doesn't nest is left out."""
        extents: list[int] = []
        below = 1
        for cut in sorted(set(cuts)):
            if cut > below and size % cut == 0 and cut % below == 0 and cut < size:
                extents.append(cut // below)
                below = cut
        extents.append(size // below)
        return Nest(size, tuple(reversed(extents)))

    def variables(self, space: Space, name: str) -> list[AffineExpr]:
        """A variable for each loop."""
        return [space.var(f"{name}{k}", n) for k, n in enumerate(self.extents)]

    def flat(self, variables: Sequence[AffineExpr]) -> AffineExpr:
        """The number of the element at these values of the variables."""
        total = ZERO
        for v, stride in zip(variables, self.strides(), strict=True):
            total = total + v * stride
        return total


def _divisions(forms: Iterable[AffineExpr]) -> list[FloorDiv]:
    found: dict[Atom, None] = {}
    stack = list(forms)
    while stack:
        for atom, _ in stack.pop().terms:
            if isinstance(atom, FloorDiv) and atom not in found:
                found[atom] = None
                stack.append(atom.lin)
    return list(found)  # type: ignore[arg-type]


# With more quotients than this left in an innermost loop, its code is long and slow: rather a loop of few elements.
MAX_QUOTIENTS = 3


def refine(
    size: int, forms_of: Callable[[Space, AffineExpr], Iterable[AffineExpr]], least: int = 1, cuts: Iterable[int] = ()
) -> Nest:
    """The coarsest nest over `size` elements for the forms that `forms_of(space, flat index)` gives.

    No cut leaves an innermost loop of fewer than `least` elements, unless many quotients would be left; `cuts` are
    made in any case.
    """
    nest, quotients = _refine(size, forms_of, least, set(cuts))
    return nest if least <= 1 or quotients <= MAX_QUOTIENTS else _refine(size, forms_of, 1, set(cuts))[0]


def _refine(
    size: int, forms_of: Callable[[Space, AffineExpr], Iterable[AffineExpr]], least: int, cuts: set[int]
) -> tuple[Nest, int]:
    """The nest, and how many quotients are left in it."""
    for _ in range(4):  # a cut may bring a new quotient to light; what is left then stays a division
        nest = Nest.from_cuts(size, cuts)
        space = Space()
        variables = nest.variables(space, "v")
        stride_of = {v.terms[0][0]: s for v, s in zip(variables, nest.strides(), strict=True) if v.terms}
        wanted: set[int] = set()
        divisions = _divisions(forms_of(space, nest.flat(variables)))
        for div in divisions:
            lin = div.lin
            # (sum of multiples of some s) / divisor changes only every so many elements of the flat range.
            if lin.const == 0 and lin.terms and all(a in stride_of for a, _ in lin.terms):
                atom, c = lin.terms[0]
                if len(lin.terms) == 1 and div.divisor % c == 0:
                    wanted.add(div.divisor // c * stride_of[atom])
        wanted = {w for w in wanted if w >= least}
        if wanted <= cuts:
            break
        cuts |= wanted
    return nest, len(divisions)


def delinearize_rows(e: Emitter, row: Value, variables: list[AffineExpr], extents: tuple[int, ...]) -> None:
    """Sets the variables of the outer loops for row number `row`."""
    rest, b = row, e.at(row)
    for k in range(len(variables) - 1, -1, -1):
        if extents[k] == 1:
            continue
        if all(n == 1 for n in extents[:k]):
            e.set_variable(variables[k], rest)
            return
        e.set_variable(variables[k], b.urem(rest, constant(row.type, extents[k])))
        rest = b.udiv(rest, constant(row.type, extents[k]))
