"""What a pass is, and the loop that runs several, verifies after each and tells who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ..ir.module import Module
from ..ir.size import judging_speed
from ..ir.verifier import check

__all__ = ["Pass", "PassHook", "PassManager"]

_FOR_SPEED = frozenset({"fusion", "row-fusion", "output-fusion", "horizontal-loop-fusion", "schedule"})

# Called after every pass with its name, the module, whether the pass changed it, and how often it applied which of its
# rules, if it has rules.
PassHook = Callable[[str, Module, bool, Mapping[str, int]], None]


class Pass(Protocol):
    """A rewrite of a module that keeps what the module computes, to the last bit."""

    name: str

    def run(self, module: Module) -> bool:
        """Rewrite the module in place; return whether anything changed."""
        ...


class PassManager:
    """Runs passes in order.

    With `verify` the module is checked before the first pass and after each one that says it changed something; a
    violation names the pass that caused it.
    """

    def __init__(self, passes: Iterable[Pass], *, verify: bool = True, on_pass: PassHook | None = None) -> None:
        self.passes = list(passes)
        self.verify = verify
        self.on_pass = on_pass

    def run(self, module: Module) -> bool:
        """Run all passes once; return whether any changed the module."""
        if self.verify:
            check(module, "before the first pass")
        any_changed = False
        for one in self.passes:
            # What these compare sizes for is speed only; legality is a matter of equal shapes.
            with judging_speed(one.name in _FOR_SPEED):
                changed = one.run(module)
            any_changed |= changed
            if changed and self.verify:
                check(module, f"after {one.name}")
            if self.on_pass is not None:
                self.on_pass(one.name, module, changed, getattr(one, "applied", {}))
        return any_changed
