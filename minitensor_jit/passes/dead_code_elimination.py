"""Removes what the result does not need."""

from __future__ import annotations

from ..ir.module import Module

__all__ = ["DeadCodeElimination"]


class DeadCodeElimination:
    """Drops instructions that no root reaches and computations that nothing calls.

    Parameters stay, read or not: they are the signature. So does a call with side effects.
    """

    name = "dce"

    def run(self, module: Module) -> bool:
        """Remove dead instructions and computations."""
        changed = module.transform(lambda computation: computation.remove_dead())
        before = set(module.computations)
        module.collect()
        return changed or set(module.computations) != before
