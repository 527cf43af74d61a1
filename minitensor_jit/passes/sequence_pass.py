"""Passes that work on one sequence of instructions at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..ir.module import Computation, Module

__all__ = ["SequencePass"]


class SequencePass(ABC):
    """Runs in the entry, and in what its loops and conditionals run."""

    def run(self, module: Module) -> bool:
        """Change the module; True if anything changed."""
        changed = False
        for computation in module.sequences():
            changed |= self._run(computation)
        if changed:
            module.collect()
        return changed

    @abstractmethod
    def _run(self, computation: Computation) -> bool: ...
