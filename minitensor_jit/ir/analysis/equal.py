"""Structural equality: the same graph, whatever the names, lines and order of independent instructions."""

from __future__ import annotations

from typing import Any

from ..module import CALLED, Computation, Instruction, Module

__all__ = ["difference", "equal"]


def equal(a: Module | Computation, b: Module | Computation, *, metadata: bool = False) -> bool:
    """Whether two modules or computations are structurally equal."""
    return difference(a, b, metadata=metadata) is None


def difference(a: Module | Computation, b: Module | Computation, *, metadata: bool = False) -> str | None:
    """The first structural difference, in words, or None where there is none."""
    left = a.entry if isinstance(a, Module) else a
    right = b.entry if isinstance(b, Module) else b
    return _Matcher(metadata).computations(left, right)


class _Matcher:
    def __init__(self, metadata: bool) -> None:
        self.metadata = metadata
        self.known: dict[tuple[Computation, Computation], str | None] = {}

    def computations(self, a: Computation, b: Computation) -> str | None:
        key = (a, b)
        if key not in self.known:
            self.known[key] = None  # callees cannot reach their caller, so this is only a memo
            self.known[key] = self._computations(a, b)
        return self.known[key]

    def _computations(self, a: Computation, b: Computation) -> str | None:
        where = f"{a.name} and {b.name}"
        left, right = a.parameters, b.parameters
        if len(left) != len(right):
            return f"{where} have {len(left)} and {len(right)} parameters"
        pairs: dict[Instruction, Instruction] = {}
        back: dict[Instruction, Instruction] = {}
        for x, y in zip(left, right, strict=True):
            if problem := self._instruction(x, y):
                return f"{where}: {problem}"
            pairs[x], back[y] = y, x
        stack = [(a.root, b.root)]
        while stack:
            x, y = stack.pop()
            if x in pairs or y in back:
                # One to one: a value that one side shares, the other must share too.
                if pairs.get(x) is not y or back.get(y) is not x:
                    return f"{where}: {x.name} and {y.name} are shared differently"
                continue
            if problem := self._instruction(x, y):
                return f"{where}: {problem}"
            pairs[x], back[y] = y, x
            stack.extend(zip(x.operands, y.operands, strict=True))
        return None

    def _instruction(self, x: Instruction, y: Instruction) -> str | None:
        names = f"{x.name} and {y.name}"
        if x.opcode != y.opcode:
            return f"{names} are {x.opcode} and {y.opcode}"
        if x.shape != y.shape:
            return f"{names} have shapes {x.shape} and {y.shape}"
        if x.parameter_number != y.parameter_number:
            return f"{names} are parameters {x.parameter_number} and {y.parameter_number}"
        if len(x.operands) != len(y.operands):
            return f"{names} have {len(x.operands)} and {len(y.operands)} operands"
        if (x.literal is None) != (y.literal is None) or (
            x.literal is not None and y.literal is not None and x.literal.tobytes() != y.literal.tobytes()
        ):
            return f"{names} are different constants"
        if self.metadata and x.metadata != y.metadata:
            return f"{names} have metadata {x.metadata} and {y.metadata}"
        for key in sorted({*x.attrs, *y.attrs}):
            p: Any = x.attrs.get(key)
            q: Any = y.attrs.get(key)
            if key in CALLED and p is not None and q is not None:
                left, right = (v if isinstance(v, tuple) else (v,) for v in (p, q))
                if len(left) != len(right):
                    return f"{names} name {len(left)} and {len(right)} computations"
                for c, d in zip(left, right, strict=True):
                    if problem := self.computations(c, d):
                        return problem
            elif p != q and (p or q):  # an absent attribute means an empty or false one
                return f"{names} have {key}={p} and {key}={q}"
        return None
