"""Symbolic indices: where an element of one array lies in terms of the loop variables.

An index is an affine form `const + sum(coefficient * atom)`. Atoms are loop variables, floor divisions that did not
cancel, and positions read at run time. A remainder is written `e - c * (e // c)`, so splitting an index by a reshape
and merging it again cancels by plain arithmetic, and a contiguous access always comes out as a bare variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from ...ir.module import Instruction
from ...ir.shape import strides_of

__all__ = ["AffineExpr", "Atom", "DynamicIndex", "FloorDiv", "Index", "Space", "Var"]


class Var:
    """A loop variable that runs over `0 <= v < extent`."""

    __slots__ = ("extent", "id", "name")

    def __init__(self, name: str, extent: int, id_: int) -> None:
        self.name = name
        self.extent = extent
        self.id = id_

    def __repr__(self) -> str:
        return self.name


class FloorDiv:
    """`lin // divisor`, where it could not be simplified."""

    __slots__ = ("divisor", "id", "lin")

    def __init__(self, lin: AffineExpr, divisor: int, id_: int) -> None:
        self.lin = lin
        self.divisor = divisor
        self.id = id_

    def __repr__(self) -> str:
        return f"({self.lin} / {self.divisor})"


class DynamicIndex:
    """The integer that `source` has at `index`, clamped to `0 <= x <= high`."""

    __slots__ = ("high", "id", "index", "source")

    def __init__(self, source: Instruction, index: Index, high: int, id_: int) -> None:
        self.source = source
        self.index = index
        self.high = high
        self.id = id_

    def __repr__(self) -> str:
        return f"clamp({self.source.name}{list(self.index)}, 0, {self.high})"


Atom: TypeAlias = Var | FloorDiv | DynamicIndex


@dataclass(frozen=True, slots=True)
class AffineExpr:
    """An affine form; `terms` are sorted by the atom's number and have no zero coefficient."""

    const: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    def __add__(self, other: AffineExpr | int) -> AffineExpr:
        if not isinstance(other, AffineExpr):
            return AffineExpr(self.const + other, self.terms) if other else self
        if not other.terms:
            return self + other.const
        if not self.terms:
            return other + self.const
        return _combine(self.const + other.const, (*self.terms, *other.terms))

    def __sub__(self, other: AffineExpr | int) -> AffineExpr:
        return self + (other * -1)

    def __mul__(self, factor: int) -> AffineExpr:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return AffineExpr(self.const * factor, tuple((a, c * factor) for a, c in self.terms))

    def coefficient(self, atom: Atom) -> int:
        """The factor of an atom; 0 if it does not occur."""
        for known, c in self.terms:
            if known is atom:
                return c
        return 0

    def __repr__(self) -> str:
        parts = [f"{c}*{a}" if c != 1 else str(a) for a, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


Index: TypeAlias = tuple[AffineExpr, ...]

ZERO = AffineExpr()


def _combine(const: int, terms: Iterable[tuple[Atom, int]]) -> AffineExpr:
    total: dict[Atom, int] = {}
    for atom, c in terms:
        total[atom] = total.get(atom, 0) + c
    return AffineExpr(const, tuple(sorted(((a, c) for a, c in total.items() if c), key=lambda t: t[0].id)))


class Space:
    """Makes atoms, each one once, and knows the ranges of the forms built from them."""

    def __init__(self) -> None:
        self._count = 0
        self._divs: dict[tuple[AffineExpr, int], FloorDiv] = {}
        self._dyns: dict[tuple[int, Index, int], DynamicIndex] = {}
        self._ranges: dict[AffineExpr, tuple[int, int]] = {}
        self._atom_ranges: dict[FloorDiv, tuple[int, int]] = {}
        self._conditional = 0

    def _id(self) -> int:
        self._count += 1
        return self._count

    def var(self, name: str, extent: int) -> AffineExpr:
        """A new variable, as a form. One that can only be 0 is the constant 0."""
        return ZERO if extent <= 1 else AffineExpr(0, ((Var(name, extent, self._id()), 1),))

    def dyn(self, source: Instruction, index: Index, high: int) -> AffineExpr:
        """A position read at run time, clamped; one that is a constant is known now."""
        if high <= 0:
            return ZERO
        if source.literal is not None and source.literal.size == 1 and isinstance(high, int):
            return AffineExpr(min(max(int(source.literal.item()), 0), high))
        key = (id(source), index, high)
        atom = self._dyns.get(key)
        if atom is None:
            atom = self._dyns[key] = DynamicIndex(source, index, high, self._id())
        return AffineExpr(0, ((atom, 1),))

    def bounded(self, lin: AffineExpr, extent: int) -> AffineExpr:
        """Notes that `0 <= lin < extent` (true by construction), and returns the form."""
        if extent == 1:
            return ZERO
        if len(lin.terms) > 1 and not self._conditional:
            # Another constant beside the same terms may have said more.
            base = AffineExpr(0, lin.terms)
            low, high = self.range(base)
            self._ranges[base] = (max(low, -lin.const), min(high, extent - 1 - lin.const))
        return lin

    @contextmanager
    def conditional(self) -> Iterator[None]:
        """Within, indices may be out of range (the branch not taken of a select), so no range is learnt."""
        self._conditional += 1
        try:
            yield
        finally:
            self._conditional -= 1

    def range(self, lin: AffineExpr) -> tuple[int, int]:
        """Bounds of a form, both inclusive."""
        known = self._ranges.get(AffineExpr(0, lin.terms)) if len(lin.terms) > 1 else None
        if known is not None:
            return known[0] + lin.const, known[1] + lin.const
        low = high = lin.const
        for atom, c in lin.terms:
            a, b = self.atom_range(atom)
            if c > 0:
                low, high = low + c * a, high + c * b
            else:
                low, high = low + c * b, high + c * a
        return low, high

    def atom_range(self, atom: Atom) -> tuple[int, int]:
        """Bounds of an atom, both inclusive."""
        if isinstance(atom, Var):
            return 0, atom.extent - 1
        if isinstance(atom, DynamicIndex):
            return 0, atom.high
        # Kept: quotients of quotients would be visited again and again.
        known = self._atom_ranges.get(atom)
        if known is None:
            low, high = self.range(atom.lin)
            known = self._atom_ranges[atom] = low // atom.divisor, high // atom.divisor
        return known

    def div(self, lin: AffineExpr, divisor: int) -> AffineExpr:
        """`lin // divisor` for a form that is never negative."""
        if divisor == 1:
            return lin
        whole: list[tuple[Atom, int]] = []
        rest: list[tuple[Atom, int]] = []
        for atom, c in lin.terms:
            (rest if c % divisor else whole).append((atom, c))
        quotient = AffineExpr(lin.const // divisor, tuple((a, c // divisor) for a, c in whole))
        remainder = AffineExpr(lin.const % divisor, tuple(rest))
        low, high = self.range(remainder)
        if low >= 0 and high < divisor:
            return quotient
        # A multiple of the divisor within a coefficient is whole, too, if nothing but the rest is then left over.
        parts = AffineExpr(remainder.const, tuple((a, c % divisor) for a, c in rest))
        if parts != remainder and self.range(parts)[1] < divisor:
            return quotient + AffineExpr(0, tuple((a, c // divisor) for a, c in rest if c // divisor))
        if low < 0:  # rounding towards zero would be wrong for the rest alone: divide the whole form
            quotient, remainder = ZERO, lin
        if not remainder.const and len(remainder.terms) == 1:
            atom, c = remainder.terms[0]
            if c == 1 and isinstance(atom, FloorDiv):  # (e / a) / b
                return quotient + self.div(atom.lin, atom.divisor * divisor)
        key = (remainder, divisor)
        known = self._divs.get(key)
        if known is None:
            known = self._divs[key] = FloorDiv(remainder, divisor, self._id())
        return quotient + AffineExpr(0, ((known, 1),))

    def delinearize(self, lin: AffineExpr, dims: Sequence[int]) -> Index:
        """The index of element number `lin` of an array with these dimensions."""
        index: list[AffineExpr] = []
        above = ZERO  # lin // (stride of the dimension before)
        for k, (dim, stride) in enumerate(zip(dims, strides_of(dims), strict=True)):
            quotient = self.div(lin, stride)
            index.append(self.bounded(quotient - above * dim if k else quotient, dim))
            above = quotient
        return tuple(index)

    @staticmethod
    def linearize(index: Index, dims: Sequence[int]) -> AffineExpr:
        """The number of the element at `index`, in row-major order."""
        lin = ZERO
        for i, stride in zip(index, strides_of(dims), strict=True):
            lin = lin + i * stride
        return lin
