"""The account of what the compiler did: every op is in exactly one of "compiled" or "eager, because".

Whoever records, compiles and runs tells the `Report` so by its `record_` methods, which only count; `text` and
`to_json` put it in order. What recurs is one line with a count, so a training loop's account is as long as its body.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minitensor_jit.clustering.graph import Graph, Source
from minitensor_jit.clustering.pipeline import ClusteringResult
from minitensor_jit.clustering.verdict import Reason, Verdict

_FALLBACK_FIX = "it is a defect of the compiler: run with --dump_to=DIR, and report it with what is in the folder"


@dataclass(frozen=True, slots=True)
class _Eager:
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


@dataclass(slots=True)
class Account:
    """The report's figures, summed up."""

    total: int = 0
    compiled: int = 0
    runs: int = 0
    traces: int = 0
    clusters: list[ClusterAccount] = field(default_factory=list)
    eager: dict[_Eager, Counter[tuple[str, Source | None]]] = field(default_factory=dict)
    """Ops left eager: by reason, then by name and place."""

    @property
    def left_eager(self) -> int:
        """How many ops were not compiled."""
        return self.total - self.compiled


class Report:
    """Collects; safe to feed from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: list[TraceRecord] = []
        self._flushes: Counter[tuple[str, Source | None]] = Counter()
        self._compiles: dict[tuple[str, str], list[float]] = {}
        self._hits: Counter[str] = Counter()
        self._fallbacks: dict[str, str] = {}
        self._predictions: dict[str, str] = {}
        self._unrecorded: dict[_Eager, Counter[tuple[str, Source | None]]] = {}

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

    def record_flush(self, reason: str, source: Source | None = None, count: int = 1) -> None:
        """Enter that recorded ops had to run, for a reason such as "item()", at a line of the program."""
        with self._lock:
            self._flushes[reason, source] += count

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

    def record_eager(self, op: str, reason: str, source: Source | None = None, fix: str = "", count: int = 1) -> None:
        """Enter an op that ran at once though recording was on: one whose result's shape depends on the data."""
        not_compilable = Reason.NOT_COMPILABLE
        why = _Eager(not_compilable.code, not_compilable.sentence.format(reason), fix or not_compilable.fix)
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
            ):
                collection.clear()

    def account(self) -> Account:
        """Sum up."""
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
        account.clusters = sorted(clusters.values(), key=lambda entry: (-entry.ops.total() * entry.runs, entry.names))
        return account

    def _why(self, verdict: Verdict) -> _Eager:
        if verdict.reason is None:
            reason = self._fallbacks[str(verdict.cluster)]
            return _Eager("compile-failed", f"compiling its cluster failed: {reason}", _FALLBACK_FIX)
        return _Eager(verdict.reason.code, verdict.text, verdict.fix)

    def to_json(self) -> dict[str, Any]:
        """Return the account as objects that `json` can write."""
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
        with self._lock:
            return _Page(self._account(), self._flushes, self._compiles, root, limit).text()


def _share(count: int, total: int) -> float:
    """The percentage that so many of all ops are; those of all groups add up to 100."""
    return 100 * count / total if total else 0.0


def _place(source: Source | None) -> dict[str, Any]:
    return {"file": source.file, "line": source.line} if source is not None else {"file": None, "line": None}


def _op_rows(ops: Counter[tuple[str, Source | None]]) -> list[dict[str, Any]]:
    return [{"op": op, "count": count, **_place(source)} for (op, source), count in sorted(ops.items(), key=_by_place)]


def _by_place(item: tuple[tuple[str, Source | None], int]) -> tuple[str, int, str]:
    (op, source), _ = item
    return (source.file, source.line, op) if source is not None else ("\U0010ffff", 0, op)


def _count(number: int, noun: str) -> str:
    plural = noun if number == 1 else noun + ("es" if noun.endswith("h") else "s")
    return f"{number:,} {plural}"


class _Page:
    """Lays an account out for a terminal."""

    def __init__(
        self,
        account: Account,
        flushes: Counter[tuple[str, Source | None]],
        compiles: dict[tuple[str, str], list[float]],
        root: str,
        limit: int,
    ) -> None:
        self._account = account
        self._flushes = flushes
        self._compiles = compiles
        self._root = root
        self._limit = limit

    def text(self) -> str:
        sections = [self._summary(), self._clusters(), self._eager(), self._flush_section(), self._compile_section()]
        return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"

    def _summary(self) -> list[str]:
        account = self._account
        if account.total == 0:
            return ["No ops were recorded: nothing asked for compiling (--auto_jit, jit_scope, function)."]
        percent = _percentage(account.compiled, account.total)
        return [
            f"{_count(account.total, 'op')} in {_count(account.runs, 'run')} of {_count(account.traces, 'trace')}: "
            f"{percent:.1f} % compiled ({account.compiled:,}), {100 - percent:.1f} % eager ({account.left_eager:,})"
        ]

    def _clusters(self) -> list[str]:
        lines = ["Clusters"] if self._account.clusters else []
        for entry in self._account.clusters[: self._limit]:
            more = f" and {len(entry.names) - 1:,} more from the same lines" if len(entry.names) > 1 else ""
            lines.append(
                f"  {entry.names[0]}{more}: {_count(entry.ops.total(), 'op')}, {_count(entry.runs, 'run')}, "
                f"{_count(entry.compiles, 'compile')} ({entry.milliseconds:.1f} ms), {_count(entry.hits, 'cache hit')}"
            )
            lines += [f"    {entry.prediction}"] if entry.prediction else []
            lines += self._table(self._by_line(entry.ops), "    ")
        return lines + self._rest(len(self._account.clusters), "  ")

    def _eager(self) -> list[str]:
        groups = sorted(self._account.eager.items(), key=lambda item: -item[1].total())
        lines = ["Left eager"] if groups else []
        for why, ops in groups[: self._limit]:
            lines.append(f"  {_count(ops.total(), 'op')}: {why.text}")
            lines += self._table(self._by_line(ops), "    ")
            lines += [f"    fix: {why.fix}"] if why.fix else []
        return lines + self._rest(len(groups), "  ")

    def _flush_section(self) -> list[str]:
        if not self._flushes:
            return []
        rows = [(f"{count:,}", reason, self._where(source)) for (reason, source), count in self._flushes.most_common()]
        return [f"Flushes ({self._flushes.total():,})", *self._table(rows, "  ")]

    def _compile_section(self) -> list[str]:
        if not self._compiles:
            return []
        times = [time for group in self._compiles.values() for time in group]
        rows = [
            (cluster, f"{sum(group):.1f} ms", why + (f" (x{len(group):,})" if len(group) > 1 else ""))
            for (cluster, why), group in self._compiles.items()
        ]
        return [f"Compiles ({len(times):,}, {sum(times):.1f} ms)", *self._table(rows, "  ")]

    def _by_line(self, ops: Counter[tuple[str, Source | None]]) -> list[tuple[str, str]]:
        """Return a row for each line of the program: the place, and the ops on it."""
        by_place: dict[Source | None, list[str]] = {}
        for (op, source), count in sorted(ops.items(), key=_by_place):
            by_place.setdefault(source, []).append(op if count == 1 else f"{op} x{count:,}")
        return [(self._where(source), ", ".join(names)) for source, names in by_place.items()]

    def _where(self, source: Source | None) -> str:
        if source is None:
            return "(unknown place)"
        prefix = self._root.rstrip(os.sep) + os.sep
        return f"{source.file.removeprefix(prefix)}:{source.line}"

    def _table(self, rows: Sequence[tuple[str, ...]], indent: str) -> list[str]:
        shown = rows[: self._limit]
        widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]) - 1)] if shown else []
        lines = []
        for row in shown:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append((indent + "  ".join([*cells, row[-1]])).rstrip())
        return lines + self._rest(len(rows), indent)

    def _rest(self, count: int, indent: str) -> list[str]:
        return [f"{indent}... and {count - self._limit:,} more"] if count > self._limit else []


def _percentage(part: int, whole: int) -> float:
    """Return a percentage with one decimal that is 0 or 100 only if nothing or everything is meant."""
    rounded = round(100 * part / whole, 1)
    if rounded == 100.0 and part != whole:
        return 99.9
    return 0.1 if rounded == 0.0 and part else rounded
