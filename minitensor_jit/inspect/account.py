"""The account of what the compiler did, summed up: what `Report` collects and `Page` lays out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from minitensor_jit.clustering.graph import Source
from minitensor_jit.clustering.unclustered_reason import Verdict
from minitensor_jit.inspect.refusal_row import RefusalRow

__all__ = ["COPY_FIX", "COPY_REASON", "Account", "ClusterAccount", "Eager", "TraceRecord", "place_order"]

COPY_REASON = "NumPy or another framework can change the memory before what was recorded runs"
COPY_FIX = "keep a copy that nobody else reaches, by one `.clone()` outside the loop, or let go of the array"


@dataclass(frozen=True, slots=True)
class Eager:
    """Why an op is not compiled: what eager ops are grouped by."""

    code: str
    text: str
    fix: str


@dataclass(slots=True)
class TraceRecord:
    """One recorded graph: its ops by verdict, and how often it ran."""

    name: str
    runs: int
    ops: Counter[tuple[Verdict, str, Source | None]]
    """How many of its ops have that verdict, name and place."""

    @property
    def size(self) -> int:
        """How many ops one run has."""
        return self.ops.total()


@dataclass(slots=True)
class ClusterAccount:
    """What is known of one cluster."""

    names: list[str]
    """Its name; and those of clusters from the same lines, compiled for other graphs."""
    ops: Counter[tuple[str, Source | None]]
    runs: int = 0
    compiles: int = 0
    milliseconds: float = 0.0
    hits: int = 0
    prediction: str = ""
    """Why it was compiled, where the cost model was asked."""
    refusals: list[RefusalRow] = field(default_factory=list)
    """What passes and the assignment of memory left apart in it, the most costly first."""


@dataclass(slots=True)
class Account:
    """The report's figures, summed up."""

    traces: int
    total: int = 0
    compiled: int = 0
    runs: int = 0
    clusters: list[ClusterAccount] = field(default_factory=list)
    eager: dict[Eager, Counter[tuple[str, Source | None]]] = field(default_factory=dict)
    """Ops left eager: by reason, then by name and place."""

    @property
    def left_eager(self) -> int:
        """How many ops were not compiled."""
        return self.total - self.compiled


def place_order(item: tuple[tuple[str, Source | None], int]) -> tuple[str, int, str]:
    """The order of ops in an account: by their places in the program, unknown ones last."""
    (op, source), _ = item
    return (source.file, source.line, op) if source is not None else ("\U0010ffff", 0, op)
