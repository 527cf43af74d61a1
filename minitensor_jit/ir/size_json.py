"""Sizes that are symbols as objects that JSON has, for code that is kept on disk."""

from __future__ import annotations

from typing import Any

from .size import Atom, Size, SizeContext

__all__ = ["size_from_json", "size_to_json"]


def size_to_json(n: Size | int) -> Any:
    """A number as it is; a polynomial as [[atoms, coefficient], ...], an atom as [operation, operand, ...]."""
    if not isinstance(n, Size):
        return int(n)
    return [[[_atom_to_json(atom) for atom in monomial], c] for monomial, c in n.terms]


def _atom_to_json(atom: Atom) -> Any:
    return [atom.op, *(size_to_json(n) for n in atom.operands)]


def size_from_json(value: Any, context: SizeContext) -> Any:
    """What `size_to_json` was given, in another context."""
    if isinstance(value, int):
        return value
    terms = [(tuple(_atom_from_json(atom, context) for atom in monomial), int(c)) for monomial, c in value]
    return Size(*terms, context=context)


def _atom_from_json(value: Any, context: SizeContext) -> Atom:
    op, *operands = value
    return Atom(str(op), tuple(size_from_json(n, context) for n in operands))
