"""What a computation is, apart from names: a value that two computations share if they are the same, line by line."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ..module import Computation, Instruction

__all__ = ["fingerprint", "line_key"]


def fingerprint(computation: Computation) -> Hashable:
    """A hashable value. Equal ones mean equal computations; the same graph in another order may have another one."""
    return _Fingerprints().computation(computation)


def line_key(i: Instruction) -> Hashable:
    """A hashable value for what an instruction does, whatever its shape and its operands."""
    return _Fingerprints().line(i)


class _Fingerprints:
    def __init__(self) -> None:
        self._known: dict[Computation, Hashable] = {}

    def computation(self, computation: Computation) -> Hashable:
        known = self._known.get(computation)
        if known is None:
            numbers = {i: n for n, i in enumerate(computation.instructions)}
            lines = tuple(
                (self.line(i), i.shape, tuple([numbers[o] for o in i.operands]), i.parameter_number)
                for i in computation.instructions
            )
            known = self._known[computation] = (lines, numbers[computation.root])
        return known

    def line(self, i: Instruction) -> Hashable:
        if i.literal is None and not i.attrs:
            return i.opcode
        literal = None if i.literal is None else i.literal.tobytes()
        attrs = tuple((key, self._value(value)) for key, value in sorted(i.attrs.items()))
        return i.opcode, attrs, literal

    def _value(self, value: Any) -> Hashable:
        if isinstance(value, Computation):
            return self.computation(value)
        if isinstance(value, list | tuple):
            return tuple(self._value(part) for part in value)
        return value if isinstance(value, str | int | bool) else repr(value)
