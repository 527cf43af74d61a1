"""Tables of measurements."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from minitensor.utils.benchmark.measurement import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

__all__ = ["Colorize", "Compare"]


class Colorize(Enum):
    """What is coloured in a table: nothing, the best of a row, or the best of each column."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _row(one: Measurement) -> tuple[int, str, str]:
    return one.task_spec.num_threads, one.task_spec.env or "", one.as_row_name


class Compare:
    """Measurements in tables, one for each label: a row for each label below it, a column for each description."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = self._warn = False
        self._colors = Colorize.NONE

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements. ValueError for anything else."""
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show only figures that mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour what is fastest in its column, or in its row."""
        self._colors = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark measurements that vary much."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = ordered_unique(one.task_spec.label for one in merged)
        return "\n".join(self._table([one for one in merged if one.task_spec.label == label]) for label in labels)

    def _cell(self, one: Measurement, size: float) -> str:
        value, figures = one.median / size, one.significant_figures
        if self._trim:
            value = trim_sigfig(value, figures)
        text = f"{value:.0f}" if self._trim and value >= 10 ** (figures - 1) else f"{value:.1f}"
        if self._warn and one.has_warnings:
            text += f" (! {one.iqr / one.median * 100:.0f}%)"
        return text

    def _table(self, ones: list[Measurement]) -> str:
        unit, size = select_unit(min(one.median for one in ones))
        columns = ordered_unique(one.task_spec.description or "" for one in ones)
        rows = ordered_unique(_row(one) for one in ones)
        rows.sort(key=lambda row: row[0])
        found = {(*_row(one), one.task_spec.description or ""): one for one in ones}
        cells = [[self._cell(found[*row, c], size) if (*row, c) in found else "" for c in columns] for row in rows]
        widths = [max(len(c), *(len(line[i]) for line in cells)) for i, c in enumerate(columns)]
        names = [f"      {name}{f' ({env})' if env else ''}" for _, env, name in rows]
        threads = [row[0] for row in rows]
        heads = {n: f"{n} threads: " for n in threads}
        lead = max(map(len, names))
        width = lead + sum(w + 5 for w in widths)
        label = f" {ones[0].task_spec.label or '[Unknown]'} "
        lines = ["[" + label.center(width - 2, "-") + "]"]
        lines.append(" " * lead + "".join(f"  |  {c.center(w)}" for c, w in zip(columns, widths, strict=True)))
        for place, (row, name, line) in enumerate(zip(rows, names, cells, strict=True)):
            if place == 0 or threads[place - 1] != row[0]:
                lines.append(heads[row[0]].ljust(width, "-"))
            shown = [
                self._colored(found, row, c, text.rjust(w)) for c, text, w in zip(columns, line, widths, strict=True)
            ]
            lines.append(name.ljust(lead) + "".join(f"  |  {text}" for text in shown))
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._warn and any(one.has_warnings for one in ones):
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join(lines) + "\n"

    def _colored(
        self, found: dict[tuple[int, str, str, str], Measurement], row: tuple[int, str, str], column: str, text: str
    ) -> str:
        if self._colors is Colorize.NONE or (*row, column) not in found:
            return text
        in_row = self._colors is Colorize.ROWWISE
        peers = [one.median for key, one in found.items() if (key[:3] == row if in_row else key[3] == column)]
        best = found[*row, column].median == min(peers) and len(peers) > 1
        return f"\033[92m{text}\033[0m" if best else text
