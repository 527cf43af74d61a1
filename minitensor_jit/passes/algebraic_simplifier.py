"""Rewrites instructions to simpler ones of the same value, until no rule applies."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

from ..ir.module import Computation, Instruction, Module
from .simplify import ALL_RULES, Rewriter, Rule

__all__ = ["AlgebraicSimplifier", "RulesFightError"]

# A chain of rewrites longer than this, or more sweeps, means that rules undo each other.
MAX_CHAIN: Final = 32
MAX_SWEEPS: Final = 32


class RulesFightError(RuntimeError):
    """Two rules undo each other; their names are in `rules`."""

    def __init__(self, names: Sequence[str]) -> None:
        self.rules = tuple(name for name, _ in Counter(names).most_common(2))
        super().__init__(
            f"algebraic simplification does not come to an end: the rules {' and '.join(self.rules)} undo each other"
        )


class AlgebraicSimplifier:
    """Applies the rules of `simplify/` to a fixed point. Every rule keeps every bit of every float.

    Sweeps from operands to users, so most modules need one sweep that changes and one that does not. Instructions that
    lose their last user are removed. Rules that undo each other are a bug, but no wrong result: with `strict` it raises
    `RulesFightError`, else it warns and leaves off.
    """

    name = "algsimp"

    def __init__(self, rules: Sequence[Rule] = ALL_RULES, *, strict: bool = True) -> None:
        self.strict = strict
        self.applied: Counter[str] = Counter()
        """How often each rule was applied in the last run."""
        self._rules = _by_opcode(tuple(rules))

    def run(self, module: Module) -> bool:
        """Simplify every computation but the combiners, which have their form."""
        combiners = {i.attrs["to_apply"] for c in module.computations for i in c if "to_apply" in i.attrs}
        changed = False
        self.applied = Counter()
        for computation in module.computations:
            if computation not in combiners:
                changed |= self._computation(computation)
        if changed:
            module.collect()
        return changed

    def _computation(self, computation: Computation) -> bool:
        changed = False
        applied: list[str] = []
        for _ in range(MAX_SWEEPS):
            rewriter = Rewriter(Counter(o for i in computation.instructions for o in i.operands))
            del applied[:]
            if not self._sweep(computation, rewriter, applied):
                return changed
            changed = True
            self.applied.update(applied)
            computation.remove_dead()
            computation.make_names_unique()
        self._fight(applied)
        return True

    def _fight(self, names: Sequence[str]) -> None:
        error = RulesFightError(names)
        if self.strict:
            raise error
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)

    def _sweep(self, computation: Computation, rewriter: Rewriter, applied: list[str]) -> bool:
        result: list[Instruction] = []
        replaced: dict[Instruction, Instruction] = {}
        rules = self._rules
        # A rule that looks through an operand may be applied once for each instruction on the way.
        longest = MAX_CHAIN + len(computation.instructions)
        for i in computation.instructions:
            if replaced:
                i.operands = [replaced.get(o, o) for o in i.operands]
            current = i
            chain: list[str] = []
            while current.opcode in rules and (new := self._apply(current, rewriter, chain)) is not None:
                # What a rule made stands before its user; what it found already has its place.
                result.extend(rewriter.made)
                fresh = new in rewriter.made
                rewriter.made = []
                current = new
                if len(chain) >= longest:
                    self._fight(chain[-MAX_CHAIN // 2 :])
                    break
                if not fresh:
                    break
            if chain:
                replaced[i] = current
                applied.extend(chain)
            else:
                result.append(i)
        if not replaced:
            return False
        computation.instructions = result
        computation.root = replaced.get(computation.root, computation.root)
        return True

    def _apply(self, i: Instruction, rewriter: Rewriter, chain: list[str]) -> Instruction | None:
        rewriter.metadata = i.metadata
        for rule in self._rules[i.opcode]:
            new = rule.apply(i, rewriter)
            if new is not None and new is not i:
                chain.append(rule.name)
                return new
            rewriter.made = []
        return None


@cache  # every module has simplifiers of its own, and there are few tables
def _by_opcode(rules: tuple[Rule, ...]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        for opcode in rule.opcodes:
            found.setdefault(opcode, []).append(rule)
    return found
