"""Sizes that are symbols, in generated code: each function computes those that it uses at its beginning."""

from __future__ import annotations

import re

from ...ir.size import Atom, NotSymbolic, Size, SizeContext, active

__all__ = ["define_sizes", "name_of"]

_NAME = re.compile(r"(%sz\.[0-9]+\.)(?:v([0-9]+)i([0-9]+))?")


def name_of(n: Size, bits: int = 64, lanes: int = 1) -> str:
    """The name in code of the value as an integer of so many bits, in all lanes of a vector."""
    name = n.context.name(n)
    return name if (bits, lanes) == (64, 1) else f"{name}v{lanes}i{bits}"


def define_sizes(lines: list[str], buffers: str) -> list[str]:
    """The instructions that compute the sizes which these lines use; `buffers` has the addresses of all buffers."""
    context = active.get()
    if context is None:
        return []
    found = (match for line in lines if "%sz." in line for match in _NAME.finditer(line))
    used = {(match[1], match[2], match[3]) for match in found}
    if not used:
        return []
    if buffers not in ("%ctx", "%buffers"):
        raise NotSymbolic(f"a function that does not get the buffers, but {buffers}, uses sizes")
    return _Definitions(context, buffers).of(used)


class _Definitions:
    def __init__(self, context: SizeContext, buffers: str) -> None:
        self.context = context
        self.buffers = buffers
        self.lines: list[str] = []
        self._made: dict[object, str] = {}
        self._count = 0

    def of(self, used: set[tuple[str, str | None, str | None]]) -> list[str]:
        """Everything that those names need, in order: (name, lanes, bits)."""
        names = {name for name, _, _ in used}
        for n, name in self.context.names.items():
            if name in names:
                self.lines.append(f"  {name} = add i64 {self._polynomial(n)}, 0")
        for name, lanes, bits in sorted(used, key=str):
            if lanes is not None and bits is not None:
                self._vector(name, int(lanes), int(bits))
        return self.lines

    def _vector(self, name: str, lanes: int, bits: int) -> None:
        element = name if bits == 64 else self._emit(f"trunc i64 {name} to i{bits}")
        type_, result = f"<{lanes} x i{bits}>", f"{name}v{lanes}i{bits}"
        if lanes == 1:
            self.lines.append(f"  {result} = add i{bits} {element}, 0")
            return
        first = self._emit(f"insertelement {type_} poison, i{bits} {element}, i64 0")
        self.lines.append(
            f"  {result} = shufflevector {type_} {first}, {type_} poison, <{lanes} x i32> zeroinitializer"
        )

    def _emit(self, text: str) -> str:
        self._count += 1
        name = f"%sz.t{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def _polynomial(self, n: Size | int) -> str:
        if isinstance(n, int):
            return str(n)
        known = self._made.get(n)
        if known is not None:
            return known
        total = ""
        for monomial, c in n.terms:
            term = str(c)
            for atom in monomial:
                value = self._atom(atom)
                term = value if term == "1" else self._emit(f"mul i64 {term}, {value}")
            total = self._emit(f"add i64 {total}, {term}") if total else term
        self._made[n] = total
        return total

    def _atom(self, atom: Atom) -> str:
        known = self._made.get(atom)
        if known is None and atom.op == "size":
            # The symbols are the module's first parameters.
            place = self._emit(f"getelementptr ptr, ptr {self.buffers}, i64 {atom.operands[0]}")
            address = self._emit(f"load ptr, ptr {place}, align 8")
            known = self._made[atom] = self._emit(f"load i64, ptr {address}, align 8")
        if known is None:
            a, b = (self._polynomial(x) for x in atom.operands)
            # Nothing here is negative.
            opcode = {"div": "udiv i64", "mod": "urem i64"}[atom.op]
            known = self._made[atom] = self._emit(f"{opcode} {a}, {b}")
        return known
