"""What a module is at each stage of its compilation, kept for a report: HLO, rules, code, times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from minitensor_jit.ir.module import Computation, Instruction, Module
from minitensor_jit.ir.text.printer import print_instruction, print_module, short

__all__ = ["ComputationRow", "InstructionRow", "ModuleRecord", "Stage"]

InstructionRow: TypeAlias = tuple[str, str, str, str, str, str, str, str, int]
"""Name, opcode, shape, operands, what it calls, text; and of the op that it comes from the name, file and line."""

ComputationRow: TypeAlias = tuple[str, bool, int, tuple[InstructionRow, ...]]
"""Name, whether it is the entry, the number of the root, and the instructions."""

_LONGEST_SOURCE = 2_000_000
_LONGEST = 4000
"""Characters of an instruction's text that are kept: a constant may have millions."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The module after a pass that changed it, or before all."""

    name: str
    seconds: float
    rules: Mapping[str, int]
    computations: list[ComputationRow]


@dataclass(eq=False)
class ModuleRecord:
    """One module on its way through the compiler; its methods are called as those of `Stages`."""

    name: str
    flags: str
    device: str
    keep: Callable[[ModuleRecord], None]
    """Called when it has been compiled, or that has failed."""
    stages: list[Stage] = field(default_factory=list)
    passes: list[tuple[str, bool, float, float]] = field(default_factory=list)
    """Every pass that ran: its name, whether it changed anything, when it began and how long it took, in seconds."""
    texts: dict[str, str] = field(default_factory=dict)
    """What code generation made, by kind."""
    summary: dict[str, float] = field(default_factory=dict)
    whole: bool = True
    """Whether the text of every instruction is complete."""
    source: str = ""
    """The first stage's text, where that can't be put together of its instructions; empty if it is too long."""
    failure: str = ""
    overhead: float = 0.0
    """Seconds that were spent on this record itself."""
    _since: float = 0.0
    _rows: dict[InstructionRow, InstructionRow] = field(default_factory=dict)

    def before(self, module: Module) -> None:
        """The module as it was lowered."""
        self._stage("as lowered", module, 0.0, {})
        if not self.whole:
            text = print_module(module, metadata=False)
            self.source = text if len(text) <= _LONGEST_SOURCE else ""

    def on_pass(self, name: str, module: Module, changed: bool, rules: Mapping[str, int]) -> None:
        """The module after a pass."""
        seconds = time.monotonic() - self._since
        self.passes.append((name, changed, self._since, seconds))
        if changed:
            self._stage(name, module, seconds, dict(rules))
        self._since = time.monotonic()

    @property
    def ended(self) -> float:
        """When the last pass had ended, in seconds of the monotonic clock."""
        return self._since

    def code(self, kind: str, text: str) -> None:
        """What code generation made."""
        self.texts[kind] = text

    def compiled(self, kernels: int, scratch: int, seconds: Mapping[str, float]) -> None:
        """It has been compiled."""
        self.summary = {"kernels": kernels, "scratch": scratch, **seconds}
        self.overhead += seconds.get("dump", 0.0)
        self.keep(self)

    def failed(self, error: Exception) -> None:
        """It could not be compiled."""
        self.failure = f"{type(error).__name__}: {error}"
        self.keep(self)

    def _stage(self, name: str, module: Module, seconds: float, rules: Mapping[str, int]) -> None:
        began = time.monotonic()
        computations = [self._computation(c, c is module.entry) for c in module.computations]
        self.stages.append(Stage(name, seconds, rules, computations))
        self._since = time.monotonic()
        self.overhead += self._since - began

    def _computation(self, computation: Computation, entry: bool) -> ComputationRow:
        rows = tuple(self._row(i) for i in computation.instructions)
        return computation.name, entry, computation.instructions.index(computation.root), rows

    def _row(self, i: Instruction) -> InstructionRow:
        text = print_instruction(i, metadata=False)
        if len(text) > _LONGEST:
            self.whole = False
            text = text[:_LONGEST] + " ..."
        about = i.metadata
        row = (
            i.name,
            i.opcode,
            short(i.shape),
            " ".join(o.name for o in i.operands),
            " ".join(c.name for c in i.called()),
            text,
            about.op_name if about is not None else "",
            about.source_file if about is not None else "",
            about.source_line if about is not None else 0,
        )
        # Stages have most of their instructions in common.
        return self._rows.setdefault(row, row)

    @property
    def size(self) -> int:
        """How many instructions all stages have."""
        return sum(len(rows) for stage in self.stages for _, _, _, rows in stage.computations)

    def text(self) -> str:
        """The HLO as it was lowered, as the parser reads it; empty if that is not known any more."""
        if not self.whole or not self.stages:
            return self.source
        lines = [f"HloModule {self.name}\n"]
        for name, entry, root, rows in self.stages[0].computations:
            lines.append(f"{'ENTRY ' if entry else ''}{name} {{")
            lines += [f"  {'ROOT ' if k == root else ''}{row[5]}" for k, row in enumerate(rows)]
            lines.append("}\n")
        return "\n".join(lines)
