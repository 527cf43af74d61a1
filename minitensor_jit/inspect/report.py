"""The account of what the compiler did: every op is in exactly one of "compiled" or "eager, because".

Whoever records, compiles and runs tells the `Report` so by its `record_` methods, which only count; `text` and
`to_json` put it in order. What recurs is one line with a count, so a training loop's account is as long as its body.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from minitensor import _forks
from minitensor_jit.clustering.graph import Graph, Source
from minitensor_jit.clustering.pipeline import ClusteringResult
from minitensor_jit.clustering.unclustered_reason import Reason, Verdict
from minitensor_jit.inspect.account import (
    COPY_FIX,
    COPY_REASON,
    Account,
    ClusterAccount,
    Eager,
    TraceRecord,
    place_order,
)
from minitensor_jit.inspect.explain_text import Page
from minitensor_jit.inspect.refusal_row import RefusalRow, told_of

_FALLBACK_FIX = "it is a defect of the compiler: run with --dump_to=DIR, and report it with what is in the folder"


class Report:
    """Collects; safe to feed from several threads."""

    def __init__(self) -> None:
        self._lock = _forks.lock()
        self._traces: list[TraceRecord] = []
        self._flushes: Counter[tuple[str, Source | None]] = Counter()
        self._compiles: dict[tuple[str, str], list[float]] = {}
        self._hits: Counter[str] = Counter()
        self._fallbacks: dict[str, str] = {}
        self._predictions: dict[str, str] = {}
        # By cluster: what was refused in it, and what finds that out.
        self._refusals: dict[str, list[RefusalRow]] = {}
        self._untold: dict[str, Callable[[], Sequence[RefusalRow]]] = {}
        self._told: set[Hashable] = set()
        self._unrecorded: dict[Eager, Counter[tuple[str, Source | None]]] = {}
        # Of memory shared with NumPy, by the line that read it: how many, and their bytes.
        self._copies: Counter[Source | None] = Counter()
        self._copied_bytes: Counter[Source | None] = Counter()

    def record_trace(self, graph: Graph, result: ClusteringResult, runs: int = 1) -> TraceRecord:
        """Enter a graph as it was recorded, before clustering, and what became of its ops.

        Returns the record to hand to `record_hit` when the same graph runs again.
        """
        ops: Counter[tuple[Verdict, str, Source | None]] = Counter()
        for node in graph:
            if node.is_op:
                ops[result.verdicts[node.id], node.op, node.source] += 1
        trace = TraceRecord(graph.name, runs, ops)
        with self._lock:
            self._traces.append(trace)
            self._predictions.update((c.name, c.prediction) for c in result.clusters if c.prediction)
        return trace

    def record_losses(self, recorded: TraceRecord, figures: Mapping[str, str]) -> TraceRecord:
        """Enter that clusters were slower than their ops, with figures; returns the record to hand to `record_hit`."""
        lost = {name: Verdict(reason=Reason.MEASURED_LOSS, detail=text) for name, text in figures.items()}
        ops: Counter[tuple[Verdict, str, Source | None]] = Counter()
        for (verdict, op, source), count in recorded.ops.items():
            ops[lost.get(verdict.cluster or "", verdict), op, source] += count
        trace = TraceRecord(recorded.name, 0, ops)
        with self._lock:
            self._traces.append(trace)
        return trace

    def record_lost(self, recorded: TraceRecord, figures: str) -> TraceRecord:
        """Enter that a trace is not recorded any more; returns the record to hand to `record_hit` when its ops run."""
        verdict = Verdict(reason=Reason.RECORDING_LOSS, detail=figures)
        ops: Counter[tuple[Verdict, str, Source | None]] = Counter()
        for (_, op, source), count in recorded.ops.items():
            ops[verdict, op, source] += count
        trace = TraceRecord(recorded.name, 0, ops)
        with self._lock:
            self._traces.append(trace)
        return trace

    def record_flush(self, reason: str, source: Source | None = None) -> None:
        """Enter that recorded ops had to run, for a reason such as "item()", at a line of the program."""
        with self._lock:
            self._flushes[reason, source] += 1

    def record_copy(self, nbytes: int, source: Source | None = None) -> None:
        """Enter that memory which NumPy or another framework can change was copied, for a line that reads it."""
        with self._lock:
            self._copies[source] += 1
            self._copied_bytes[source] += nbytes

    def record_compile(self, cluster: str, milliseconds: float, why: str = "first use") -> None:
        """Enter a compilation. `why` says what changed, such as "argument 1: f32[100,64] became f32[97,64]"."""
        with self._lock:
            self._compiles.setdefault((cluster, why), []).append(milliseconds)

    def record_hit(self, what: TraceRecord | str, count: int = 1) -> None:
        """Enter that a trace ran again as it was, or that a cluster was found compiled already."""
        with self._lock:
            if isinstance(what, TraceRecord):
                what.runs += count
            else:
                self._hits[what] += count

    def record_fallback(self, cluster: str, reason: str) -> None:
        """Enter that compiling a cluster failed, so that its ops run eagerly after all."""
        with self._lock:
            self._fallbacks[cluster] = reason

    def record_refusals(self, cluster: str, lines: Hashable, find: Callable[[], Sequence[RefusalRow]]) -> None:
        """Enter what finds the refusals in a cluster, when somebody asks.

        Of clusters of the same `lines`, which are one in the account, only the first is asked.
        """
        with self._lock:
            if lines not in self._told:
                self._told.add(lines)
                self._untold[cluster] = find

    def record_refusal(self, cluster: str, row: RefusalRow) -> None:
        """Enter one refusal."""
        with self._lock:
            known = self._refusals.setdefault(cluster, [])
            if row not in known:  # its plan may be made anew
                known.append(row)

    def _ask(self) -> None:
        """Find out what was not asked for yet."""
        with self._lock:
            untold, self._untold = self._untold, {}
        for cluster, find in untold.items():
            rows = find()
            with self._lock:
                self._refusals.setdefault(cluster, []).extend(rows)

    def record_eager(self, op: str, reason: str, source: Source | None = None, fix: str = "", count: int = 1) -> None:
        """Enter an op that ran at once though recording was on: one whose result's shape depends on the data."""
        not_compilable = Reason.NOT_COMPILABLE
        why = Eager(not_compilable.code, not_compilable.sentence.format(reason), fix or not_compilable.fix)
        with self._lock:
            self._unrecorded.setdefault(why, Counter())[op, source] += count

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._traces.clear()
            for collection in (
                self._flushes,
                self._compiles,
                self._hits,
                self._fallbacks,
                self._unrecorded,
                self._predictions,
                self._refusals,
                self._untold,
                self._told,
                self._copies,
                self._copied_bytes,
            ):
                collection.clear()

    def account(self) -> Account:
        """Sum up."""
        self._ask()
        with self._lock:
            return self._account()

    def _account(self) -> Account:
        account = Account(traces=len(self._traces))
        for why, unrecorded in self._unrecorded.items():
            account.eager[why] = Counter(unrecorded)
            account.total += unrecorded.total()
        clusters: dict[frozenset[tuple[tuple[str, Source | None], int]], ClusterAccount] = {}
        compiles: Counter[str] = Counter()
        milliseconds: dict[str, float] = {}
        for (cluster, _), times in self._compiles.items():
            compiles[cluster] += len(times)
            milliseconds[cluster] = milliseconds.get(cluster, 0.0) + sum(times)
        for trace in self._traces:
            account.runs += trace.runs
            account.total += trace.size * trace.runs
            members: dict[str, Counter[tuple[str, Source | None]]] = {}
            for (verdict, op, source), count in trace.ops.items():
                name = verdict.cluster
                if name is not None and name not in self._fallbacks:
                    members.setdefault(name, Counter())[op, source] += count
                    account.compiled += count * trace.runs
                else:
                    account.eager.setdefault(self._why(verdict), Counter())[op, source] += count * trace.runs
            for name, ops in members.items():
                entry = clusters.setdefault(frozenset(ops.items()), ClusterAccount([], ops))
                entry.names.append(name)
                entry.prediction = entry.prediction or self._predictions.get(name, "")
                entry.runs += trace.runs
                entry.compiles += compiles[name]
                entry.milliseconds += milliseconds.get(name, 0.0)
                entry.hits += self._hits[name] + max(0, trace.runs - 1)
        for entry in clusters.values():
            entry.refusals = told_of(self._refusals.get(name, ()) for name in entry.names)
        account.clusters = sorted(clusters.values(), key=lambda entry: (-entry.ops.total() * entry.runs, entry.names))
        return account

    def _why(self, verdict: Verdict) -> Eager:
        if verdict.reason is None:
            reason = self._fallbacks[str(verdict.cluster)]
            return Eager("compile-failed", f"compiling its cluster failed: {reason}", _FALLBACK_FIX)
        return Eager(verdict.reason.code, verdict.text, verdict.fix)

    def to_json(self) -> dict[str, Any]:
        """Return the account as objects that `json` can write."""
        self._ask()
        with self._lock:
            account = self._account()
            return {
                "version": 1,
                "ops": {"total": account.total, "compiled": account.compiled, "eager": account.left_eager},
                "runs": account.runs,
                "traces": account.traces,
                "clusters": [
                    {
                        "names": entry.names,
                        "percent": _share(entry.ops.total() * entry.runs, account.total),
                        "ops": _op_rows(entry.ops),
                        "runs": entry.runs,
                        "compiles": entry.compiles,
                        "compile_milliseconds": entry.milliseconds,
                        "cache_hits": entry.hits,
                        "prediction": entry.prediction,
                        "refusals": [row.to_json() for row in entry.refusals],
                    }
                    for entry in account.clusters
                ],
                "eager": [
                    {
                        "code": why.code,
                        "reason": why.text,
                        "fix": why.fix,
                        "percent": _share(ops.total(), account.total),
                        "ops": _op_rows(ops),
                    }
                    for why, ops in account.eager.items()
                ],
                "flushes": [
                    {"reason": reason, "count": count, **_place(source)}
                    for (reason, source), count in self._flushes.most_common()
                ],
                "copies": [
                    {
                        "count": count,
                        "bytes": self._copied_bytes[source],
                        "reason": COPY_REASON,
                        "fix": COPY_FIX,
                        **_place(source),
                    }
                    for source, count in self._copies.most_common()
                ],
                "compiles": [
                    {"cluster": cluster, "why": why, "count": len(times), "milliseconds": sum(times)}
                    for (cluster, why), times in self._compiles.items()
                ],
            }

    def text(self, root: str | None = None, limit: int = 24) -> str:
        """Return the account for people.

        Files are named relative to `root`, by default the working directory; lists are cut at `limit` lines.
        """
        root = os.getcwd() if root is None else root
        self._ask()
        with self._lock:
            copies = [(self._copied_bytes[source], count, source) for source, count in self._copies.items()]
            return Page(self._account(), self._flushes, self._compiles, copies, root, limit).text()


def _share(count: int, total: int) -> float:
    """The percentage that so many of all ops are; those of all groups add up to 100."""
    return 100 * count / total if total else 0.0


def _place(source: Source | None) -> dict[str, Any]:
    return {"file": source.file, "line": source.line} if source is not None else {"file": None, "line": None}


def _op_rows(ops: Counter[tuple[str, Source | None]]) -> list[dict[str, Any]]:
    return [
        {"op": op, "count": count, **_place(source)} for (op, source), count in sorted(ops.items(), key=place_order)
    ]


class Explanation(Report):
    """What became of every op of one call, and the call's `result`. Prints as text; `to_json()` for programs."""

    result: Any = None

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__
