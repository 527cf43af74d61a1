"""An account of what the compiler did, laid out for a terminal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from minitensor_jit.clustering.graph import Source
from minitensor_jit.inspect.account import COPY_FIX, COPY_REASON, Account, place_order

__all__ = ["Page"]

# Of what was not fused, a few lines for each cluster: the costliest ones.
_REFUSALS = 8


def _count(number: int, noun: str) -> str:
    plural = noun if number == 1 else noun + ("es" if noun.endswith("h") else "s")
    return f"{number:,} {plural}"


class Page:
    """Lays an account out for a terminal."""

    def __init__(
        self,
        account: Account,
        flushes: Counter[tuple[str, Source | None]],
        compiles: dict[tuple[str, str], list[float]],
        copies: list[tuple[int, int, Source | None]],
        root: str,
        limit: int,
    ) -> None:
        self._account = account
        self._flushes = flushes
        self._compiles = compiles
        self._copies = sorted(copies, key=lambda copy: -copy[0])
        self._root = root
        self._limit = limit

    def text(self) -> str:
        """Return all sections that have something to say."""
        sections = [
            self._summary(),
            self._clusters(),
            self._refusals(),
            self._eager(),
            self._copy_section(),
            self._flush_section(),
            self._compile_section(),
        ]
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

    def _refusals(self) -> list[str]:
        clusters = [entry for entry in self._account.clusters[: self._limit] if entry.refusals]
        lines = ["Not fused, or not in place"] if clusters else []
        fixes: dict[str, str] = {}
        limit = min(self._limit, _REFUSALS)
        for entry in clusters:
            shown = [row for row in entry.refusals if row.nbytes][:limit]
            left = sum(row.count for row in entry.refusals) - sum(row.count for row in shown)
            lines.append(f"  {entry.names[0]}: {_count(sum(row.count for row in entry.refusals), 'refusal')}")
            for row in shown:
                into = f" and {row.into_op} ({self._where(row.into_source)})" if row.into else ""
                times = f" (x{row.count:,})" if row.count > 1 else ""
                cost = f"{row.nbytes:,} bytes, {row.flops:,} flops"
                lines.append(f"    {cost}: {row.op} ({self._where(row.source)}){into}{times}")
                lines.append(f"      {row.by}: {row.reason} [{row.why.code}]")
                fixes[row.why.code] = row.why.fix
            if left:
                cheap = entry.refusals[len(shown)].nbytes == 0
                lines.append(f"    ... and {left:,} more{', which cost no memory traffic' if cheap else ''}")
        return lines + [f"  fix [{code}]: {fix}" for code, fix in fixes.items()]

    def _eager(self) -> list[str]:
        groups = sorted(self._account.eager.items(), key=lambda item: -item[1].total())
        lines = ["Left eager"] if groups else []
        for why, ops in groups[: self._limit]:
            lines.append(f"  {_count(ops.total(), 'op')}: {why.text}")
            lines += self._table(self._by_line(ops), "    ")
            lines += [f"    fix: {why.fix}"] if why.fix else []
        return lines + self._rest(len(groups), "  ")

    def _copy_section(self) -> list[str]:
        if not self._copies:
            return []
        count, nbytes = sum(count for _, count, _ in self._copies), sum(nbytes for nbytes, _, _ in self._copies)
        rows = [(f"{count:,}", f"{nbytes:,} bytes", self._where(source)) for nbytes, count, source in self._copies]
        title = f"Copies of shared memory ({count:,}, {nbytes:,} bytes): {COPY_REASON}"
        return [title, *self._table(rows, "  "), f"  fix: {COPY_FIX}"]

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
        for (op, source), count in sorted(ops.items(), key=place_order):
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
