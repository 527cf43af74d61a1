"""What a pass or the assignment of memory left apart in a cluster, as an account shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from minitensor_jit.clustering.graph import Source
from minitensor_jit.ir.analysis.cost_analysis import work_of
from minitensor_jit.ir.decision import Code
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.refusal import Refusal
from minitensor_jit.ir.shape import leaves
from minitensor_jit.ir.size import NotSymbolic, hint

__all__ = ["RefusalRow", "row_of", "told_of"]


Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """One refusal, or several alike at the same lines."""

    by: str
    """The name of the pass."""
    why: Code
    reason: str
    instruction: str
    op: str
    source: Source | None
    into: str
    """The other instruction, if it is about two; so are its op and place."""
    into_op: str
    into_source: Source | None
    nbytes: int
    """What passes through memory in each run because of it."""
    flops: int
    """What the instruction computes in each run."""
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """As objects that `json` can write."""
        found: dict[str, Any] = {
            "pass": self.by,
            "code": self.why.code,
            "reason": self.reason,
            "fix": self.why.fix,
            "bytes": self.nbytes,
            "flops": self.flops,
            "count": self.count,
            "instruction": self.instruction,
            "op": self.op,
            "file": self.source.file if self.source is not None else None,
            "line": self.source.line if self.source is not None else None,
            "into": None,
        }
        if self.into:
            place = self.into_source
            found["into"] = {
                "instruction": self.into,
                "op": self.into_op,
                "file": place.file if place is not None else None,
                "line": place.line if place is not None else None,
            }
        return found


def row_of(by: str, refusal: Refusal) -> RefusalRow:
    """A pass's refusal with its places and its costs."""
    what, into, decision = refusal
    assert decision.why is not None
    # Stored and read again, unless the pass knows better.
    nbytes = decision.nbytes if decision.nbytes is not None else 2 * sum(s.nbytes for s in leaves(what.shape))
    op, source = _origin(what)
    into_op, into_source = _origin(into) if into is not None else ("", None)
    return RefusalRow(
        by,
        decision.why,
        decision.reason,
        what.name,
        op,
        source,
        into.name if into is not None else "",
        into_op,
        into_source,
        hint(nbytes),
        _flops(what),
    )


def _flops(i: Instruction) -> int:
    try:
        work = work_of(i)
        return int(hint(work.flops + work.transcendentals))
    except NotSymbolic:
        return 0


def _origin(i: Instruction) -> tuple[str, Source | None]:
    """The op that an instruction comes from, and its place in the program."""
    m = i.metadata
    if m is None:
        return i.opcode, None
    return m.op_type or i.opcode, Source(m.source_file, m.source_line) if m.source_file else None


def told_of(clusters: Iterable[Iterable[RefusalRow]]) -> list[RefusalRow]:
    """One row for all that are alike at the same lines, the most costly first, of clusters of the same lines."""
    found: dict[Key, RefusalRow] = {}
    for rows in clusters:
        for key, row in _summed(rows).items():
            # What was compiled for other sizes is refused for the same reasons.
            found.setdefault(key, row)
    return sorted(found.values(), key=lambda row: (-row.nbytes, -row.flops, row.by, str(row.source), row.instruction))


def _summed(rows: Iterable[RefusalRow]) -> dict[Key, RefusalRow]:
    found: dict[Key, RefusalRow] = {}
    for row in rows:
        key = row.by, row.why, row.op, row.source, row.into_op, row.into_source
        known = found.get(key)
        if known is None:
            found[key] = row
            continue
        most = max(known, row, key=lambda one: one.nbytes)
        found[key] = replace(
            most,
            nbytes=known.nbytes + row.nbytes,
            flops=known.flops + row.flops,
            count=known.count + row.count,
        )
    return found
