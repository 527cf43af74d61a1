"""Sizes that are not known while code is generated, for clusters that are compiled once for all sizes of dimensions.

A `Size` is a polynomial with integer coefficients of symbols, each of which stands for any size from `LEAST` on, and of
quotients, remainders and the like of such polynomials. It behaves as an int where the compiler computes with sizes:

- sums, products and exact quotients are polynomials again; a result that is a constant is an int;
- equality is that of the polynomials. Where two of them could be equal by chance they are different, so the compiler
  takes the way that is right for both. Whether something has one element decides how bits are made here and there:
  `is_one` asks that, and guards the answer;
- an inequality holds or does not for all sizes, as far as that can be seen. Otherwise it is decided for the sizes at
  hand, the *hints*, and noted as a guard: the code is for sizes that give the same answer;
- what needs a number (`int(n)`, `range(n)`, an array of n elements) raises `NotSymbolic`: the cluster is then
  compiled for its own sizes. Where only speed depends on the number, `hint(n)` gives one.

In generated code a `Size` is a value that each function computes at its beginning, from arguments of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

__all__ = [
    "LEAST",
    "NotSymbolic",
    "Size",
    "SizeContext",
    "Sizes",
    "active",
    "hint",
    "is_one",
    "judging_speed",
    "value_of",
]

LEAST = 2
"""Dimensions of 0 and 1 mean something else, and are never a symbol."""

Monomial: TypeAlias = tuple["Atom", ...]

Sizes: TypeAlias = tuple[int, ...]
"""What the symbols are, by their numbers; empty where there are none."""


class NotSymbolic(Exception):  # noqa: N818  (not an error of the user's)
    """Something has to be known of a size that is a symbol."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A symbol ("size", with its number), or an operation on polynomials: "div", "mod", "max", "min"."""

    op: str
    operands: tuple[Any, ...] = ()

    def value(self, sizes: Sizes) -> int:
        """Its value where the symbols are `sizes`."""
        if self.op == "size":
            return sizes[int(self.operands[0])]
        a, b = (value_of(x, sizes) for x in self.operands)
        return _OPERATIONS[self.op](a, b)

    @property
    def key(self) -> str:
        """Its text, by which atoms are sorted."""
        if self.op == "size":
            return f"s{self.operands[0] or ''}"
        return f"{self.op}({self.operands[0]},{self.operands[1]})"


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}


@dataclass
class SizeContext:
    """One compilation: the sizes at hand, and what was assumed of the symbols."""

    hints: Sizes
    guards: dict[tuple[Size, bool], None] = field(default_factory=dict)
    """(n, answer): whether n > 0."""
    names: dict[Size, str] = field(default_factory=dict)
    """Values that generated code computes, by the name that it has for them."""
    expressions: list[Size] = field(default_factory=list)
    judging: bool = False
    """Whether what is compared now matters for speed only, so that the sizes at hand decide and nothing is assumed."""

    def symbol(self, number: int = 0) -> Size:
        """The symbol of that number."""
        return Size(((Atom("size", (number,)),), 1), context=self)

    def holds(self, sizes: Sizes) -> bool:
        """Whether what was assumed is true of sizes."""
        return min(sizes) >= LEAST and all((n.value(sizes) > 0) is answer for n, answer in self.guards)

    def number(self, n: Size) -> int:
        """A number for an expression, for where only text can stand; `expressions` has them."""
        if n not in self.expressions:
            self.expressions.append(n)
        return self.expressions.index(n)

    def name(self, n: Size) -> str:
        """The name of a value in generated code."""
        known = self.names.get(n)
        if known is None:
            known = self.names[n] = f"%sz.{len(self.names)}."
        return known


active: ContextVar[SizeContext | None] = ContextVar("active", default=None)
"""That of the module which is compiled; None where all sizes are numbers."""


class Size:
    """A polynomial. `terms` are (monomial, coefficient), sorted, without zeros; never a constant."""

    __slots__ = ("_hash", "context", "terms")

    def __init__(self, *terms: tuple[Monomial, int], context: SizeContext) -> None:
        self.terms = terms
        self.context = context
        self._hash = hash(terms)

    # ---- values

    def value(self, sizes: Sizes) -> int:
        """The number where the symbols are `sizes`."""
        total = 0
        for monomial, c in self.terms:
            for atom in monomial:
                c *= atom.value(sizes)
            total += c
        return total

    @property
    def hint(self) -> int:
        """The number for the sizes at hand."""
        return self.value(self.context.hints)

    def __int__(self) -> int:
        raise NotSymbolic(f"the number {self} is needed")

    __index__ = __int__

    def __float__(self) -> float:
        raise NotSymbolic(f"the number {self} is needed")

    def __bool__(self) -> bool:
        return True  # zero only by chance; sizes are never

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        parts = []
        for monomial, c in self.terms:
            names = "*".join(atom.key for atom in monomial)
            parts.append(str(c) if not monomial else names if c == 1 else f"{c}*{names}")
        text = "+".join(parts).replace("+-", "-")
        return text if len(self.terms) == 1 else f"({text})"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)

    # ---- arithmetic

    def _coerce(self, other: object) -> tuple[tuple[Monomial, int], ...] | None:
        if isinstance(other, Size):
            return other.terms
        if isinstance(other, int) or (isinstance(other, float) and other.is_integer()):
            return (((), int(other)),) if other else ()
        return None

    def _made(self, total: Mapping[Monomial, int]) -> Size | int:
        terms = sorted(((m, c) for m, c in total.items() if c), key=lambda t: (-len(t[0]), [a.key for a in t[0]]))
        if not terms:
            return 0
        if len(terms) == 1 and not terms[0][0]:
            return terms[0][1]
        return Size(*terms, context=self.context)

    def _plus(self, other: object, sign: int) -> Any:
        terms = self._coerce(other)
        if terms is None:
            return NotImplemented
        total = dict(self.terms)
        for m, c in terms:
            total[m] = total.get(m, 0) + sign * c
        return self._made(total)

    def __add__(self, other: object) -> Any:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        return self._plus(other, -1)

    def __rsub__(self, other: object) -> Any:
        return (-self) + other

    def __abs__(self) -> Any:
        return self if self > 0 else -self

    def __neg__(self) -> Any:
        return self * -1

    def __mul__(self, other: object) -> Any:
        terms = self._coerce(other)
        if terms is None:
            return NotImplemented
        total: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in terms:
                both = tuple(sorted((*m, *n), key=lambda a: a.key))
                total[both] = total.get(both, 0) + c * d
        return self._made(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Any:
        terms = self._coerce(other)
        if terms is None:
            return NotImplemented
        if not terms:
            raise ZeroDivisionError
        if len(terms) == 1:
            exact = self._over(*terms[0])
            if exact is not None:
                return exact
        if self.terms == terms:
            return 1
        whole, rest = self._divided(other)
        if whole is not None:
            return whole + rest // other
        if self.hint < 0:
            # Rounding is towards minus infinity; generated code divides what isn't negative.
            return -((-self + (other - 1)) // other)  # type: ignore[operator]
        return 0 if self._is_below(other) else self._atom("div", self, other)

    def __rfloordiv__(self, other: object) -> Any:
        if isinstance(other, int) and other < 0:
            return -1 if self._is_above(-other - 1) else -((self - 1 - other) // self)
        return 0 if self._is_above(other) or (other == 0 and self > 0) else self._atom("div", other, self)

    def _is_above(self, other: object) -> bool:
        """Whether `0 <= other < self` for all sizes; no guard is made of it."""
        low, _ = self._bounds()
        return isinstance(other, int) and low is not None and 0 <= other < low

    def _is_below(self, other: object) -> bool:
        """Whether `0 <= self < other` for all sizes, as far as that is plain."""
        if not isinstance(other, Size) or len(self.terms) != 1 or self.terms[0][1] < 0:
            return False
        times = other._over(*self.terms[0])
        low, _ = _bounds_of(times) if times is not None else (None, None)
        return low is not None and low > 1

    def _over(self, monomial: Monomial, divisor: int) -> Size | int | None:
        """The exact quotient by one term."""
        total: dict[Monomial, int] = {}
        for m, c in self.terms:
            rest = list(m)
            for atom in monomial:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if c % divisor:
                return None
            total[tuple(rest)] = c // divisor
        return self._made(total)

    def _divided(self, other: object) -> tuple[Any, Any]:
        """The quotient of the terms that a positive term divides, and the other terms; (None, _) if there are none."""
        terms = self._coerce(other)
        if terms is None or len(terms) != 1:
            return None, self
        monomial, divisor = terms[0]
        if divisor < 1 or any(atom.op != "size" for atom in monomial):
            return None, self
        whole: Any = 0
        rest: dict[Monomial, int] = {}
        for m, c in self.terms:
            quotient = Size((m, c), context=self.context)._over(monomial, divisor)
            if quotient is None:
                rest[m] = c
            else:
                whole = quotient + whole
        return (None, self) if len(rest) == len(self.terms) else (whole, self._made(rest))

    def __mod__(self, other: object) -> Any:
        terms = self._coerce(other)
        if terms is None:
            return NotImplemented
        if (len(terms) == 1 and self._over(*terms[0]) is not None) or self.terms == terms:
            return 0
        whole, rest = self._divided(other)
        if whole is not None:
            return rest % other
        if self.hint < 0:
            return self - other * (self // other)
        return self if self._is_below(other) else self._atom("mod", self, other)

    def __rmod__(self, other: object) -> Any:
        if isinstance(other, int) and other < 0:
            return other - self * (other // self)
        return other if self._is_above(other) or (other == 0 and self > 0) else self._atom("mod", other, self)

    def _atom(self, op: str, a: Any, b: Any) -> Size:
        # Generated code divides without sign. Where that isn't plain, it is a guard.
        if not (a >= 0 and b > 0):
            raise NotSymbolic(f"{op} of {a} and {b}")
        return Size(((Atom(op, (a, b)),), 1), context=self.context)

    def __divmod__(self, other: object) -> Any:
        return self // other, self % other

    # ---- comparisons

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and other.terms == self.terms

    def __gt__(self, other: object) -> bool:
        return self._positive(self - other)

    def __ge__(self, other: object) -> bool:
        return self._positive(self - other + 1)

    def __lt__(self, other: object) -> bool:
        return self._positive(-(self - other))

    def __le__(self, other: object) -> bool:
        return self._positive(-(self - other) + 1)

    def _positive(self, n: Any) -> bool:
        if not isinstance(n, Size):
            return bool(n > 0)
        low, high = n._bounds()
        if low is not None and low > 0:
            return True
        if high is not None and high <= 0:
            return False
        answer = n.hint > 0
        if not self.context.judging:
            self.context.guards[n, answer] = None
        return answer

    def _bounds(self) -> tuple[int | None, int | None]:
        """Bounds for all sizes; None for none."""
        if all(atom.op == "size" for m, _ in self.terms for atom in m):
            return self._bounds_of_symbols()
        low: int | None = 0
        high: int | None = 0
        for m, c in self.terms:
            a: int | None = 1
            b: int | None = 1
            for atom in m:
                x, y = _atom_bounds(atom)
                a = None if a is None or x is None or x < 0 else a * x
                b = None if b is None or y is None else b * y
            if c < 0:
                a, b = b, a
            low = None if low is None or a is None else low + c * a
            high = None if high is None or b is None else high + c * b
        return low, high

    def _bounds_of_symbols(self) -> tuple[int | None, int | None]:
        """Bounds of a polynomial of symbols alone: those of what they are above the least size."""
        total: dict[Monomial, int] = {}
        for m, c in self.terms:
            for chosen in product((True, False), repeat=len(m)):
                left = tuple(atom for atom, kept in zip(m, chosen, strict=True) if kept)
                total[left] = total.get(left, 0) + c * LEAST ** (len(m) - len(left))
        least = total.pop((), 0)
        low = least if all(c >= 0 for c in total.values()) else None
        high = least if all(c <= 0 for c in total.values()) else None
        return low, high


def _atom_bounds(atom: Atom) -> tuple[int | None, int | None]:
    if atom.op == "size":
        return LEAST, None
    a, b = atom.operands
    (a_low, a_high), (b_low, b_high) = _bounds_of(a), _bounds_of(b)
    if a_low is None or a_low < 0 or b_low is None or b_low < 1:
        return None, None
    if atom.op == "div":
        return (0 if b_high is None else a_low // b_high), (None if a_high is None else a_high // b_low)
    if atom.op == "mod":
        return 0, None if b_high is None else b_high - 1
    return None, None


def _bounds_of(n: Size | int) -> tuple[int | None, int | None]:
    return (n, n) if isinstance(n, int) else n._bounds()


@contextmanager
def judging_speed(only: bool = True) -> Iterator[None]:
    """Comparisons inside decide what is faster, if `only` that: they make no guards."""
    context = active.get()
    if context is None or not only:
        yield
        return
    before, context.judging = context.judging, True
    try:
        yield
    finally:
        context.judging = before


def value_of(n: Any, sizes: Sizes) -> int:
    """A number where the symbols are `sizes`."""
    return n.value(sizes) if isinstance(n, Size) else int(n)


def is_one(n: Any) -> bool:
    """Whether a number of elements is 1, where bits depend on that: also by chance, for the sizes that code is for."""
    if not isinstance(n, Size):
        return bool(n == 1)
    before, n.context.judging = n.context.judging, False
    try:
        return not n > 1 and n > 0
    finally:
        n.context.judging = before


def hint(n: Any) -> Any:
    """A number to judge by where only speed depends on it."""
    return n.hint if isinstance(n, Size) else n
