"""Passes that work on one sequence of instructions at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..ir.decision import Decision
from ..ir.module import Computation, Instruction, Module
from ..ir.refusal import Refusal

__all__ = ["SequencePass"]


class SequencePass(ABC):
    """Runs in the entry, and in what its loops and conditionals run. What it refuses to do is in `decisions`."""

    def __init__(self) -> None:
        self.decisions: list[Refusal] = []

    def run(self, module: Module) -> bool:
        """Change the module; True if anything changed."""
        changed = False
        for computation in module.sequences():
            changed |= self._run(computation)
        if changed:
            module.collect()
        return changed

    def refuse(self, what: Instruction, into: Instruction | None, decision: Decision) -> None:
        """Note that an instruction stays as it is."""
        self.decisions.append(Refusal(what, into, decision))

    @abstractmethod
    def _run(self, computation: Computation) -> bool: ...
