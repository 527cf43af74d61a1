"""Indices as machine code: forms become integers, in one lane or in all, and conditions become masks."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ...ir.module import Instruction
from ...ir.shape import DTYPES
from ..indexing.indexing_map import AffineExpr, Atom, DynamicIndex, FloorDiv, Index, Var
from ..indexing.movement import Condition
from ..llvm.ir_types import I32, I64, Type, Value, constant, vector
from .scope import Scope

__all__ = ["IndexEmitter"]


class IndexEmitter(Scope):
    """Emits the values of index forms."""

    index_type: Type = I64  # wide enough for every form that is evaluated

    def value(self, i: Instruction, index: Index) -> Value:
        """The value of an instruction at an index: for positions that are read at run time."""
        raise NotImplementedError

    def varies(self, lin: AffineExpr) -> bool:
        """Whether the form differs between the lanes of a vector."""
        if self.vector_var is None or not lin.terms:
            return False
        known = self._varying.get(lin)
        if known is None:
            known = self._varying[lin] = any(self._atom_varies(a) for a, _ in lin.terms)
        return known

    def _atom_varies(self, atom: Atom) -> bool:
        if isinstance(atom, Var):
            return atom is self.vector_var
        if isinstance(atom, FloorDiv):
            return self.varies(atom.lin)
        return self._dynamic(atom).lanes > 1

    def _dynamic(self, atom: DynamicIndex) -> Value:
        """The position that a `DynamicIndex` stands for, clamped, in the integer type it is stored in."""
        key = ("dyn", atom, self.guards())
        known = self._find(key)
        if known is not None:
            return known
        raw = self.value(atom.source, atom.index)
        b = self.at(raw)
        dtype = atom.source.dtype
        bits = 8 * DTYPES[dtype].itemsize
        if DTYPES[dtype].kind == "i":
            if atom.high < 2 ** (bits - 1) - 1:
                raw = b.intrinsic("llvm.smin", raw, constant(raw.type, atom.high))
            raw = b.intrinsic("llvm.smax", raw, constant(raw.type, 0))
        elif atom.high < 2**bits - 1:
            raw = b.intrinsic("llvm.umin", raw, constant(raw.type, atom.high))
        return self._keep(key, raw)

    def _atom(self, atom: Atom) -> Value:
        """The value of an atom that is the same in all lanes (or, for the vector variable, in lane 0)."""
        if isinstance(atom, Var):
            return self.variables[atom]
        if isinstance(atom, FloorDiv):
            lin = self.scalar(atom.lin)
            return self.at(lin).udiv(lin, constant(self.index_type, atom.divisor))
        value = self._dynamic(atom)
        b = self.at(value)
        # Clamped: what is cut off is zero.
        return (b.zext if value.type.width < self.index_type.width else b.trunc)(value, self.index_type)

    def scalar(self, lin: AffineExpr) -> Value:
        """The form as an integer; the vector variable stands for its value in lane 0."""
        if not lin.terms:
            return constant(self.index_type, lin.const)
        key = ("lin", lin, self.scalar_guards())
        known = self._find(key)
        if known is not None:
            return known
        # Outer loops first, so that their part of the sum is computed outside.
        total: Value | None = None
        for value, factor in sorted(((self._atom(a), c) for a, c in lin.terms), key=lambda t: t[0].level):
            term = value if factor == 1 else self.at(value).mul(value, constant(self.index_type, factor))
            total = term if total is None else self.at(total, term).add(total, term)
        assert total is not None
        if lin.const:
            total = self.at(total).add(total, constant(self.index_type, lin.const))
        return self._keep(key, total)

    def lanes_of(self, lin: AffineExpr) -> Value:
        """The form in every lane, as a vector of i32 where its range allows, else of i64."""
        key = ("lanes", lin, self.guards())
        known = self._find(key)
        if known is not None:
            return known
        reach = abs(lin.const) + sum(abs(c) * max(abs(b) for b in self.space.atom_range(a)) for a, c in lin.terms)
        type_ = I32 if reach < 2**31 - self.vector_lanes else I64
        return self._keep(key, self._lanes_of(lin, type_))

    def _lanes_of(self, lin: AffineExpr, type_: Type) -> Value:
        n = self.vector_lanes
        vector_type = vector(type_, n)
        uniform = AffineExpr(
            lin.const, tuple((a, c) for a, c in lin.terms if a is self.vector_var or not self._atom_varies(a))
        )
        base = self.scalar(uniform)
        b = self.at(base)
        total = b.splat(b.trunc(base, I32) if type_ is I32 else base, n)
        for atom, c in lin.terms:
            if atom is self.vector_var:
                term = constant(vector_type, [c * k for k in range(n)])
            elif not self._atom_varies(atom):
                continue
            elif isinstance(atom, FloorDiv):
                term = self._times(self._quotients(atom, type_), c)
            else:
                term = self._dynamic(atom)  # type: ignore[arg-type]
                bits = term.type.element.width
                b = self.at(term)
                if bits != (32 if type_ is I32 else 64):
                    term = (
                        b.zext(term, vector_type)
                        if (bits < 64 and type_ is I64) or bits < 32
                        else b.trunc(term, vector_type)
                    )
                term = self._times(term, c)
            total = self.at(total, term).add(total, term)
        return total

    def _quotients(self, atom: FloorDiv, type_: Type) -> Value:
        vector_type = vector(type_, self.vector_lanes)
        wrap = self._wrap(atom)
        if wrap is None:
            numerator = self._lanes_of(atom.lin, type_)
            return self.at(numerator).udiv(numerator, constant(vector_type, atom.divisor))
        first, below = wrap
        b = self.at(first, below)
        quotient = b.splat(b.trunc(first, type_), self.vector_lanes)
        return b.add(quotient, b.zext(b.not_(below), vector_type))

    def _wrap(self, atom: FloorDiv) -> tuple[Value, Value] | None:
        """Of a quotient that changes at most once within a vector: its value in lane 0, and the lanes that have it."""
        n = self.vector_lanes
        # Lane 0 may lie before the range that is read, where an unsigned quotient says nothing about the next lanes.
        simple = (
            atom.divisor >= n
            and self.space.range(atom.lin)[0] >= 0
            and all(c == 1 if a is self.vector_var else not self._atom_varies(a) for a, c in atom.lin.terms)
        )
        if not simple:
            return None
        first = self._atom(atom)
        key = ("wrap", atom, self.guards())
        below = self._find(key)
        if below is None:
            position = self.scalar(atom.lin)
            b = self.at(position, first)
            # So many more lanes until the next multiple of the divisor.
            left = b.sub(b.mul(b.add(first, constant(I64, 1)), constant(I64, atom.divisor)), position)
            left = b.trunc(b.intrinsic("llvm.smin", left, constant(I64, n)), I32)
            below = b.icmp_signed("<", constant(vector(I32, n), list(range(n))), b.splat(left, n))
            self._keep(key, below)
        return first, below

    def _times(self, value: Value, factor: int) -> Value:
        return value if factor == 1 else self.at(value).mul(value, constant(value.type, factor))

    def _of_whole_vectors(self, c: Condition) -> Condition:
        """The same without the lanes, where all of a row of the innermost loop lies inside or all of it outside."""
        atom = self.vector_var
        if not isinstance(atom, Var) or c.lin.coefficient(atom) != 1 or c.step != 1:
            return c
        if not all(isinstance(n, int) for n in (c.low, c.high, c.lin.const, atom.extent, *(k for _, k in c.lin.terms))):
            return c
        outer = AffineExpr(c.lin.const, tuple((a, k) for a, k in c.lin.terms if a is not atom))
        step = gcd(c.lin.const - c.low, c.high - c.low, *(k for _, k in outer.terms))
        if step < atom.extent or any(self._atom_varies(a) for a, _ in outer.terms):
            return c
        return Condition(outer, c.low, c.high)

    def condition(self, conditions: Sequence[Condition]) -> list[Value] | bool:
        """Whether all conditions hold: a scalar, a lane mask, or one of each; a plain bool where the ranges decide."""
        parts: dict[bool, Value] = {}
        for c in conditions:
            low, high = self.space.range(c.lin)
            if high < c.low or low >= c.high:
                return False
            if c.always(self.space):
                continue
            c = self._of_whole_vectors(c)
            varies = self.varies(c.lin)
            x = self.lanes_of(c.lin) if varies else self.scalar(c.lin)
            b = self.at(x)
            shifted = b.sub(x, constant(x.type, c.low)) if c.low else x
            holds = b.icmp_unsigned("<", shifted, constant(x.type, c.high - c.low))
            if c.step > 1:
                exact = b.icmp_unsigned("==", b.urem(shifted, constant(x.type, c.step)), constant(x.type, 0))
                holds = b.and_(holds, exact)
            known = parts.get(varies)
            parts[varies] = holds if known is None else self.at(known, holds).and_(known, holds)
        return list(parts.values()) or True
